/* Floats of weights: conv_widen of kernels_cl/conv/conv.cl, or what decodes any constant. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"

enum { WIDEN_CHUNK = 64 };

clave_status conv_floats(cl_recorder *s, const node *n, const bound_tensor *weight,
                         arg_buffer out) {
  const int64_t items = tensor_numel(&weight->t);
  launch l;
  if (weight->t.encoding.kind) return opencl_decode(s, n, weight, out);
  launch_begin(&l, s, n);
  launch_dtype(&l, "W_TYPE", weight->t.type);
  launch_compute(&l, DTYPE_F32);
  launch_args(&l, &(conv_widen_args){.weight = buffer_arg(weight), .out = out, .items = items});
  return launch_loops(&l, ceil_div(items, WIDEN_CHUNK), 1, WIDEN_CHUNK);
}

clave_status conv_float_form(cl_recorder *s, const node *n, const bound_tensor *weight,
                             arg_buffer *out) {
  const int64_t items = tensor_numel(&weight->t);
  const pack_request f = {
      .x = weight, .kind = PACKED_CONV, .size = {items}, .bytes = sizeof(float) * (size_t)items};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(s, &f, &number, &pack));
  TRY(conv_floats(pack, n, weight, scratch_arg(0)));
  *out = packed_arg(number);
  return NULL;
}

/* A CPU makes floats of halves slowly one by one. */
static bool widens(const conv_problem *p) {
  const tensor *w = &p->f.weight->t;
  return w->encoding.kind || (recorder_traits(p->s)->is_cpu && w->type == DTYPE_F16);
}

clave_status conv_weight(const conv_problem *p, int64_t used, arg_buffer *weight, dtype *type) {
  const bound_tensor *w = p->f.weight;
  *weight = buffer_arg(w);
  *type = w->t.type;
  if (!widens(p)) return NULL;
  *type = DTYPE_F32;
  if (recorder_may_pack(p->s, w)) return conv_float_form(p->s, p->n, w, weight);
  *weight = scratch_arg(used);
  TRY(recorder_scratch(p->s, sizeof(float) * (size_t)(used + tensor_numel(&w->t))));
  return conv_floats(p->s, p->n, w, *weight);
}
