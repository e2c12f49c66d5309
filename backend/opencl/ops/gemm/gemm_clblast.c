/* Products by CLBlast. */
#include <stdlib.h>

#include "backend/opencl/launch/clblast.h"
#include "backend/opencl/ops/gemm/gemm.h"

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
         clblast_of(g->s->device) != NULL;
}

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

/* Of its temporary buffer, which is the largest where no operand is at the begin of its memory. */
static clave_status reserve_temporary(const gemm *g, const blas_call *c) {
  clblast *lib = clblast_of(g->s->device);
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

clave_status gemm_clblast(const void *product) {
  const gemm *g = product;
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
