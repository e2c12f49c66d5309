/* CLBlast: the only file that knows it. libclblast.so.1 is opened at the first product that wants
 * it and is optional; f32 only, since its half precision also adds up in half. */
#include "backend/opencl/gemm.h"

#include <clblast_c.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "base/file.h"

typedef struct clblast {
  library *library;       /* NULL: there is none */
  cl_command_queue queue; /* by which it asks about the device */
  __typeof__(&CLBlastSgemmWithTempBuffer) gemm;
  __typeof__(&CLBlastSGemmTempBufferSize) temp_size;
  __typeof__(&CLBlastSgemmStridedBatched) batched;
} clblast;

static bool find_function(library *l, const char *name, void *to) {
  void *f = library_symbol(l, name);
  memcpy(to, &f, sizeof f);
  return f != NULL;
}

static clblast *open_clblast(const cl_device *d) {
  cl_int code;
  clblast *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  status_free(library_open("libclblast.so.1", &c->library));
  if (!c->library) return c;
  bool all = find_function(c->library, "CLBlastSgemmWithTempBuffer", &c->gemm) &&
             find_function(c->library, "CLBlastSGemmTempBufferSize", &c->temp_size) &&
             find_function(c->library, "CLBlastSgemmStridedBatched", &c->batched);
  if (all) c->queue = d->cl->clCreateCommandQueue(d->context, d->entry->id, 0, &code);
  all = all && c->queue;
  if (!all) {
    library_close(c->library);
    c->library = NULL;
  }
  return c;
}

/* NULL: not there. */
static const clblast *device_clblast(cl_device *d) {
  mutex_lock(d->lock);
  if (!d->blas) d->blas = open_clblast(d);
  clblast *c = d->blas;
  mutex_unlock(d->lock);
  return c && c->library ? c : NULL;
}

void gemm_clblast_close(cl_device *d) {
  clblast *c = d->blas;
  if (!c) return;
  if (c->queue) d->cl->clReleaseCommandQueue(c->queue);
  library_close(c->library);
  free(c);
  d->blas = NULL;
}

/* ---------------------------------------------------------------- operands */

typedef struct matrix {
  uint32_t slot;
  size_t offset, ld, stride; /* elements; offset: from where the slot begins; stride: between
                                batches */
  CLBlastTranspose transpose;
  bool usable;
} matrix;

/* A rows x columns operand, row-major or transposed. */
static matrix describe_matrix(const bound_tensor *t, const tensor *batch, int64_t rows,
                              int64_t columns, int64_t row_stride, int64_t column_stride) {
  bool plain = (column_stride == 1 || columns == 1) && row_stride >= columns;
  bool turned = (row_stride == 1 || rows == 1) && column_stride >= rows;
  int64_t between = batch->rank == 1 ? batch->strides[0] : 0;
  return (matrix){.slot = t->slot,
                  .offset = (size_t)t->t.offset,
                  .ld = (size_t)(plain ? row_stride : column_stride),
                  .stride = (size_t)between,
                  .transpose = plain ? CLBlastTransposeNo : CLBlastTransposeYes,
                  .usable = (plain || turned) && batch->rank <= 1 && between >= 0};
}

static matrix matrix_a(const gemm *g) {
  return describe_matrix(g->f.a, &g->f.batch_a, g->f.m, g->f.k, g->f.a_m, g->f.a_k);
}
static matrix matrix_b(const gemm *g) {
  return describe_matrix(g->f.b, &g->f.batch_b, g->f.k, g->f.n, g->f.b_k, g->f.b_n);
}
static matrix matrix_out(const gemm *g) {
  tensor none = {.rank = 0};
  matrix out = describe_matrix(g->f.out, &none, g->f.m, g->f.n, g->f.n, 1);
  out.stride = (size_t)(g->f.m * g->f.n);
  return out;
}

bool gemm_clblast_usable(const gemm *g) {
  bool f32 =
      g->f.a->t.type == DTYPE_F32 && g->f.b->t.type == DTYPE_F32 && g->f.out->t.type == DTYPE_F32;
  return f32 && g->f.k > 0 && matrix_a(g).usable && matrix_b(g).usable &&
         device_clblast(g->s->device) != NULL;
}

/* ---------------------------------------------------------------- run */

/* out = bias, which CLBlast then scales by beta. */
static clave_status broadcast_bias(const gemm *g) {
  launch l;
  gemm_begin(&l, g);
  launch_args(&l, &(broadcast_bias_args){.bias = buffer_arg(g->f.bias),
                                         .bias_batch = strides_arg(&g->f.batch_bias),
                                         .bias_m = g->f.bias_m,
                                         .bias_n = g->f.bias_n,
                                         .out = buffer_arg(g->f.out),
                                         .batch_dims = dims_arg(&g->f.batch_bias),
                                         .m_size = g->f.m,
                                         .n_size = g->f.n});
  size_t global[3] = {(size_t)g->f.n, (size_t)g->f.m, (size_t)g->f.batches},
         local[3] = {LOCAL_SIZE, 1, 1};
  return launch_run(&l, 3, global, local);
}

struct blas_call {
  size_t m, n, k, batches;
  float alpha, beta;
  matrix a, b, out;
};

/* A matrix of a run. */
typedef struct placed_matrix {
  cl_mem memory;
  size_t offset;
} placed_matrix;

static placed_matrix place_matrix(const matrix *m, const run_operands *o) {
  const bound_tensor *t = &o->tensors[m->slot];
  return (placed_matrix){((const cl_buffer *)t->buf)->memory,
                         m->offset + t->buffer_offset / sizeof(float)};
}

clave_status blas_run(cl_stream *s, const blas_call *g, const run_operands *o) {
  const clblast *c = s->device->blas;
  const placed_matrix a = place_matrix(&g->a, o), b = place_matrix(&g->b, o),
                      out = place_matrix(&g->out, o);
  cl_mem temporary = o->scratch ? ((const cl_buffer *)o->scratch)->memory : NULL;
  clave_status st;
  cl_event *event = stream_event(s, &st);
  if (st) return st;
  CLBlastStatusCode code;
  if (g->batches > 1) {
    code = c->batched(CLBlastLayoutRowMajor, g->a.transpose, g->b.transpose, g->m, g->n, g->k,
                      g->alpha, a.memory, a.offset, g->a.ld, g->a.stride, b.memory, b.offset,
                      g->b.ld, g->b.stride, g->beta, out.memory, out.offset, g->out.ld,
                      g->out.stride, g->batches, &s->queue, event);
  } else {
    code = c->gemm(CLBlastLayoutRowMajor, g->a.transpose, g->b.transpose, g->m, g->n, g->k,
                   g->alpha, a.memory, a.offset, g->a.ld, b.memory, b.offset, g->b.ld, g->beta,
                   out.memory, out.offset, g->out.ld, &s->queue, event, temporary);
  }
  if (code != CLBlastSuccess) return opencl_status((cl_int)code, "CLBlastSgemm");
  if (event) s->n_events++;
  return NULL;
}

bool blas_is_refused(const cl_device *d) {
  return __atomic_load_n(&d->blas_refused, __ATOMIC_RELAXED);
}

void blas_refuse(cl_device *d, const struct clave_error *why) {
  if (!__atomic_exchange_n(&d->blas_refused, true, __ATOMIC_RELAXED))
    device_note(d, "CLBlast fails on %s (%s); clave's own kernels multiply", d->base.info.name,
                status_message(why));
}

/* ---------------------------------------------------------------- record */

/* Of its temporary buffer, which is the largest where no operand is at the begin of its memory. */
static clave_status reserve_temporary(const gemm *g, const blas_call *c) {
  clblast *lib = g->s->device->blas;
  size_t bytes = 0;
  if (c->batches > 1) return NULL;
  CLBlastStatusCode code = lib->temp_size(
      CLBlastLayoutRowMajor, c->a.transpose, c->b.transpose, c->m, c->n, c->k, c->a.offset + 1,
      c->a.ld, c->b.offset + 1, c->b.ld, c->out.offset + 1, c->out.ld, &lib->queue, &bytes);
  if (code != CLBlastSuccess) return opencl_status((cl_int)code, "CLBlastSGemmTempBufferSize");
  return recorder_scratch(g->s, bytes);
}

/* CLBlast's kernels are not ours to look into: a launch with tiles of the usual sizes stands for
 * them. */
static uint64_t blas_class(const gemm *g) {
  static const block_info tiles[] = {{"K", 8}, {"VECTOR", 16}, {"SMALL", 32}, {"LARGE", 128}};
  static const kernel_signature signature = {.blocks = tiles, .n_blocks = 4};
  static const size_t one[3] = {1, 1, 1};
  matrix a = matrix_a(g), b = matrix_b(g);
  launch l;
  launch_begin(&l, g->s, g->node);
  launch_generated(&l, "clblast", NULL, NULL);
  const int64_t sizes[] = {g->f.batches,
                           g->f.m,
                           g->f.n,
                           g->f.k,
                           (int64_t)a.ld,
                           (int64_t)b.ld,
                           a.transpose == CLBlastTransposeYes,
                           b.transpose == CLBlastTransposeYes};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) launch_push_int(&l, sizes[i]);
  launch_push_float(&l, g->f.alpha);
  launch_push_float(&l, g->f.bias ? g->f.beta : 0);
  return launch_class(&l, &signature, one, one);
}

static clave_status record_instead(const gemm *g, cl_recording **out) {
  cl_recording *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  cl_recorder own = *g->s;
  gemm same = *g;
  own.out = r;
  own.epilogue = NULL; /* of both, behind them */
  same.s = &own;
  clave_status st = gemm_tile(&same);
  if (st) {
    opencl_recording_destroy(&g->s->device->base, &r->base);
    return st;
  }
  *out = r;
  return NULL;
}

clave_status gemm_clblast(const gemm *g) {
  if (g->f.bias) TRY(broadcast_bias(g));
  const blas_call call = {.m = (size_t)g->f.m,
                          .n = (size_t)g->f.n,
                          .k = (size_t)g->f.k,
                          .batches = (size_t)g->f.batches,
                          .alpha = (float)g->f.alpha,
                          .beta = g->f.bias ? (float)g->f.beta : 0,
                          .a = matrix_a(g),
                          .b = matrix_b(g),
                          .out = matrix_out(g)};
  TRY(reserve_temporary(g, &call));
  recorded_launch l = {.class = blas_class(g)};
  TRY(record_instead(g, &l.instead));
  l.blas = malloc(sizeof call);
  if (l.blas) {
    *l.blas = call;
    return recorder_add(g->s, &l, NULL);
  }
  opencl_recording_destroy(&g->s->device->base, &l.instead->base);
  return status_no_memory();
}
