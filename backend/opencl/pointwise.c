/* Convolutions with a kernel of one element where it is, which are products of matrices: faster on
 * CPUs than direct sums. */
#include "backend/opencl/pointwise.h"

#include "backend/opencl/gemm.h"

static bool is_pointwise_dim(const conv_dim *d) {
  return d->kernel == 1 && d->stride == 1 && d->padding == 0;
}

bool pointwise_usable(cl_recorder *s, const conv_form *f) {
  const dtype t = f->x->t.type;
  const gemm g = {.s = s, .f = {.k = f->channels}};
  if (f->weight->t.encoding.kind && !gemm_packed_usable(&g)) return false;
  return recorder_traits(s)->is_cpu && !f->transposed && f->groups == 1 && f->channels > 0 &&
         dtype_is_float(t) && t != DTYPE_F64 && is_pointwise_dim(&f->dims[0]) &&
         is_pointwise_dim(&f->dims[1]) && is_pointwise_dim(&f->dims[2]);
}

/* Of each image, the weight (outputs, channels) by its planes (channels, positions). */
static clave_status multiply_planes(gemm *g, const conv_form *f, int64_t positions) {
  bound_tensor weight = *f->weight;
  if (weight.t.encoding.kind) {
    g->codes = f->weight;
    weight.t.encoding = (encoding){0};
    weight.t.type = DTYPE_F32;
  }
  matmul_form *m = &g->f;
  m->a = &weight;
  m->b = f->x;
  m->m = f->outputs;
  m->n = m->b_k = positions;
  m->a_m = f->channels;
  m->a_k = m->b_n = m->bias_m = 1;
  m->batches = f->images;
  m->batch_a = m->batch_bias = (tensor){.rank = 1, .dims = {f->images}};
  m->batch_b = (tensor){.rank = 1, .dims = {f->images}, .strides = {f->channels * positions}};
  if (g->codes) return gemm_packed(g);
  TRY(gemm_choose_pairs(g));
  return gemm_record(g);
}

/* Of all images, (images, channels), by the transposed weight. */
static clave_status multiply_images(gemm *g, const conv_form *f) {
  matmul_form *m = &g->f;
  m->a = f->x;
  m->b = f->weight;
  m->m = f->images;
  m->n = f->outputs;
  m->a_m = m->b_n = f->channels;
  m->a_k = m->b_k = m->bias_n = m->batches = 1;
  TRY(gemm_choose_pairs(g));
  return gemm_record(g);
}

clave_status opencl_pointwise(cl_recorder *s, const node *n, const conv_form *f) {
  const int64_t positions = f->dims[0].in * f->dims[1].in * f->dims[2].in;
  gemm g = {.s = s, .node = n};
  g.f = (matmul_form){.k = f->channels, .bias = f->bias, .out = f->out, .alpha = 1, .beta = 1};
  if (positions == 1 && !f->weight->t.encoding.kind) return multiply_images(&g, f);
  return multiply_planes(&g, f, positions);
}
