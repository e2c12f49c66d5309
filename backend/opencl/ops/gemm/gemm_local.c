/* Products on GPUs: square tiles that groups of work-items stage in local memory. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "backend/opencl/ops/parts.h"

/* As in kernels_cl/gemm/gemm_local.cl. */
enum { SIDE = 16, GROUP = SIDE * SIDE, DEPTH = 16, SMALL = 64, LARGE = 128 };

/* 1: k is contiguous, 0: rows of a, or columns of b, are, -1: neither. */
static int order_of(int64_t step, int64_t k_step, int64_t rows, int64_t k) {
  return k_step == 1 || k == 1 ? 1 : step == 1 || rows == 1 ? 0 : -1;
}
static int order_of_a(const gemm *g) { return order_of(g->f.a_m, g->f.a_k, g->f.m, g->f.k); }
static int order_of_b(const gemm *g) { return order_of(g->f.b_n, g->f.b_k, g->f.n, g->f.k); }

void gemm_define_orders(launch *l, const gemm *g) {
  launch_define(l, "A_ORDER", order_of_a(g));
  launch_define(l, "B_ORDER", order_of_b(g));
}

/* Two operands of DEPTH k, each row padded by a float4. */
static bool fits(const device_traits *t, int64_t tile) {
  return t->max_local >= GROUP && t->local_memory >= 2 * sizeof(float) * DEPTH * (size_t)(tile + 4);
}

bool gemm_local_usable(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  return !t->is_cpu && !g->grouped && !gemm_is_encoded(g) && g->f.k > 0 &&
         gemm_is_small_float(g->f.a->t.type) && gemm_is_small_float(g->f.b->t.type) &&
         gemm_is_small_float(g->f.out->t.type) && order_of_a(g) >= 0 && order_of_b(g) >= 0 &&
         fits(t, SMALL);
}

bool gemm_local_takes(const gemm *g, int64_t tile) { return fits(recorder_traits(g->s), tile); }

int64_t gemm_groups(const gemm *g, int64_t tile) {
  return ceil_div(g->f.m, tile) * ceil_div(g->f.n, tile) * g->f.batches;
}

/* A tile of 128 reads half of what tiles of 64 read, and wants four times the registers: of GPUs
 * with memory of their own, where two groups for each unit remain. */
static int64_t tile_of(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  if (g->each) return g->each;
  bool large = !t->shares_host_memory && fits(t, LARGE) &&
               gemm_groups(g, LARGE) >= 2 * (int64_t)t->compute_units;
  return large ? LARGE : SMALL;
}

/* Smaller products leave most of a tile empty. */
bool gemm_local_is_better(const gemm *g) {
  return gemm_local_usable(g) && g->f.m > SMALL / 2 && g->f.n > SMALL / 2;
}

static int64_t part_depth(const gemm *g, int64_t n_parts) {
  enum { CHAIN = 64 }; /* as in the kernels */
  return ceil_div(ceil_div(g->f.k, n_parts), CHAIN) * CHAIN;
}

int64_t gemm_parts(const gemm *g, int64_t tile) {
  enum { LEAST_DEPTH = 128, OF_A_UNIT = 2 }; /* k of a part; groups */
  const tuning_key k = gemm_key(g);
  const int64_t n = choose_parts(g->s, "matmul parts", &k, gemm_groups(g, tile), OF_A_UNIT,
                                 g->f.k / LEAST_DEPTH, g->f.batches * g->f.m * g->f.n);
  return ceil_div(g->f.k, part_depth(g, n)); /* none is empty */
}

clave_status gemm_begin_parts(const gemm *g, int64_t n_parts) {
  if (n_parts == 1) return NULL;
  return begin_parts(g->s, n_parts, g->f.batches * g->f.m * g->f.n, g->f.out->t.type);
}

parts_params gemm_parts_of(launch *l, const gemm *g, int64_t n_parts) {
  launch_define(l, "IN_PARTS", n_parts > 1);
  return (parts_params){.parts = n_parts > 1 ? scratch_arg(0) : absent_arg(),
                        .n_parts = n_parts,
                        .part_depth = part_depth(g, n_parts)};
}

clave_status gemm_local(const void *product) {
  const gemm *g = product;
  const int64_t tile = tile_of(g), n_parts = gemm_parts(g, tile);
  TRY(gemm_begin_parts(g, n_parts));
  launch l;
  gemm_begin(&l, g);
  gemm_define_orders(&l, g);
  launch_define(&l, "EACH", (int)(tile / SIDE));
  const parts_params parts = gemm_parts_of(&l, g, n_parts);
  launch_args(&l,
              &(gemm_local_args){.gemm = gemm_operands(g), .dense = gemm_dense(g), .parts = parts});
  if (n_parts == 1) launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(g->f.n, tile) * SIDE, (size_t)ceil_div(g->f.m, tile) * SIDE,
                      (size_t)(g->f.batches * n_parts)},
         local[3] = {SIDE, SIDE, 1};
  TRY(launch_run(&l, 3, global, local));
  return n_parts > 1 ? add_parts(g->s, g->node, &g->f, n_parts) : NULL;
}
