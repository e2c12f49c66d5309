/* The choice of a GEMM implementation, and the arguments they share. Every threshold has its
 * measurement. */
#include "backend/opencl/gemm.h"

void gemm_begin(launch *l, const gemm *g, const char *stem, const char *kernel) {
  launch_begin(l, g->s, g->node, stem, kernel);
  launch_dtype(l, "A_TYPE", g->a->t.type);
  launch_dtype(l, "B_TYPE", g->b->t.type);
  launch_dtype(l, "OUT_TYPE", g->out->t.type);
  launch_dtype(l, "BIAS_TYPE", g->bias ? g->bias->t.type : g->out->t.type);
  launch_define(l, "HAS_BIAS", g->bias != NULL);
  launch_compute(l, g->out->t.type);
}

void gemm_push_operands(launch *l, const gemm *g) {
  launch_buffer(l, g->a);
  launch_strides(l, &g->batch_a);
  launch_int(l, g->a_m);
  launch_int(l, g->a_k);
  launch_buffer(l, g->b);
  launch_strides(l, &g->batch_b);
  launch_int(l, g->b_k);
  launch_int(l, g->b_n);
  if (g->bias)
    launch_buffer(l, g->bias);
  else
    launch_absent(l);
  launch_strides(l, &g->batch_bias);
  launch_int(l, g->bias_m);
  launch_int(l, g->bias_n);
  launch_buffer(l, g->out);
  launch_dims(l, &g->batch_a);
  launch_int(l, g->m);
  launch_int(l, g->n);
  launch_int(l, g->k);
  launch_float(l, g->alpha);
  launch_float(l, g->beta);
}

clave_status gemm_tile(const gemm *g) {
  enum { BLOCK = 4, SIDE = 8 };
  launch l;
  gemm_begin(&l, g, "matmul", "matmul");
  gemm_push_operands(&l, g);
  size_t global[3] = {(size_t)((g->n + BLOCK - 1) / BLOCK), (size_t)((g->m + BLOCK - 1) / BLOCK),
                      (size_t)g->batches};
  size_t side = stream_traits(g->s)->is_cpu ? 1 : SIDE, local[3] = {side, side, 1};
  return launch_run(&l, 3, global, local);
}

static bool is_small_float(dtype t) { return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16; }

/* Rows of a up to which reading b once in place beats packing it. */
enum { FEW_ROWS = 8 };
/* From this size on CLBlast is faster than our tiles on GPUs, less than its set-up costs below
 * (multiply-adds). On CPUs it is never: 15-22 GFLOP/s on 2 Zen 4 cores, and 6 s of compiling, where
 * our packed kernel makes 200. */
static const double clblast_from = 1 << 21;
enum { CLBLAST_SIDE = 64 };

static bool clblast_is_better(const gemm *g) {
  if (!stream_traits(g->s)->is_gpu || g->m < CLBLAST_SIDE || g->n < CLBLAST_SIDE) return false;
  return (double)g->m * (double)g->n * (double)g->k >= clblast_from && gemm_clblast_usable(g);
}

gemm_kind gemm_choose(const gemm *g) {
  if (!is_small_float(g->out->t.type) || g->k == 0) return GEMM_TILE;
  if (g->m <= FEW_ROWS && g->b_k == 1 && (g->a_k == 1 || g->k == 1)) return GEMM_ROWS;
  if (g->m <= FEW_ROWS && (g->b_n == 1 || g->n == 1)) return GEMM_COLUMNS;
  if (clblast_is_better(g)) return GEMM_CLBLAST;
  return gemm_packed_usable(g) ? GEMM_PACKED : GEMM_TILE;
}
