/* Matmul: chooses the implementation of gemm.h that runs a product. */
#include "backend/opencl/gemm.h"
#include "opencl_ops.h"

static bool is_small_float(dtype t) { return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16; }

/* Rows of a up to which reading b once in place beats packing it. */
enum { FEW_ROWS = 8 };
/* From this size on CLBlast is faster than our tiles on GPUs, less than its set-up costs below
 * (multiply-adds). On CPUs it is never: 15-22 GFLOP/s on 2 Zen 4 cores, and 6 s of compiling, where
 * our packed kernel makes 200. */
static const double clblast_from = 1 << 21;
enum { CLBLAST_SIDE = 64, CLBLAST_GROUP = 256 }; /* of its largest work-groups */

static bool clblast_is_better(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  if (!t->is_gpu || t->max_local < CLBLAST_GROUP) return false;
  if (g->f.m < CLBLAST_SIDE || g->f.n < CLBLAST_SIDE) return false;
  return (double)g->f.m * (double)g->f.n * (double)g->f.k >= clblast_from && gemm_clblast_usable(g);
}

/* The one choice, from dtype, sizes, strides and the kind of device. */
static gemm_kind choose(const gemm *g) {
  if (!is_small_float(g->f.out->t.type) || g->f.k == 0) return GEMM_TILE;
  if (g->f.m <= FEW_ROWS && g->f.b_k == 1 && (g->f.a_k == 1 || g->f.k == 1)) return GEMM_ROWS;
  if (g->f.m <= FEW_ROWS && (g->f.b_n == 1 || g->f.n == 1)) return GEMM_COLUMNS;
  if (clblast_is_better(g)) return GEMM_CLBLAST;
  return gemm_packed_usable(g) ? GEMM_PACKED : GEMM_TILE;
}

clave_status gemm_record(const gemm *g) {
  static clave_status (*const implementations[])(const gemm *) = {[GEMM_TILE] = gemm_tile,
                                                                  [GEMM_PACKED] = gemm_packed,
                                                                  [GEMM_ROWS] = gemm_rows,
                                                                  [GEMM_COLUMNS] = gemm_columns,
                                                                  [GEMM_CLBLAST] = gemm_clblast};
  return implementations[choose(g)](g);
}

clave_status opencl_matmul(cl_recorder *s, const node *n) {
  gemm g = {.s = s, .node = n};
  describe_matmul(n, &g.f);
  return gemm_record(&g);
}
