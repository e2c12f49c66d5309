/* Products with an encoded b. A few rows of a are multiplied as they lie; more by the kernels of
 * gemm.cl and matmul.cl, which decode b on their way. */
#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm_codes.h"
#include "backend/opencl/ops/gemm/gemm_dots.h"

/* As in kernels_cl/gemm/gemv_encoded.cl. */
enum { GROUP = 64, MOST_ROWS = 8 };

static int rows_at_once(const gemm *g) {
  int rows = 1;
  while (rows < MOST_ROWS && rows < g->f.m) rows *= 2;
  return rows;
}

/* Work-items of a GPU that share a row of b, of two parts each at least where that leaves 4. */
static int lanes_of(const gemm *g) {
  int64_t parts = ceil_div(g->f.k, DECODED_AT_ONCE);
  int lanes = 4;
  while (lanes < GROUP && 4 * lanes <= parts) lanes *= 2;
  return lanes;
}

/* More rows than those on GPUs. */
static clave_status multiply_tiles(const gemm *g, const code_panels *none) {
  enum { BLOCK_M = 4, BLOCK_N = 8, SIDE = 8 }; /* as in kernels_cl/gemm/matmul_encoded.cl */
  launch l;
  (void)none;
  gemm_begin(&l, g);
  launch_args(&l, &(matmul_encoded_args){.a = buffer_arg(g->f.a),
                                         .a_batch = strides_arg(&g->f.batch_a),
                                         .a_m = g->f.a_m,
                                         .a_k = g->f.a_k,
                                         .encoded = encoded_operand(g->f.b),
                                         .bias = optional_arg(g->f.bias),
                                         .bias_batch = strides_arg(&g->f.batch_bias),
                                         .bias_m = g->f.bias_m,
                                         .bias_n = g->f.bias_n,
                                         .out = buffer_arg(g->f.out),
                                         .batch_dims = dims_arg(&g->f.batch_a),
                                         .m_size = g->f.m,
                                         .n_size = g->f.n,
                                         .k_size = g->f.k,
                                         .alpha = g->f.alpha,
                                         .beta = g->f.beta});
  launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(g->f.n, BLOCK_N), (size_t)ceil_div(g->f.m, BLOCK_M),
                      (size_t)g->f.batches},
         local[3] = {SIDE, SIDE, 1};
  return launch_run(&l, 3, global, local);
}

static clave_status multiply_few(const gemm *g, const code_panels *none) {
  bool is_cpu = recorder_traits(g->s)->is_cpu;
  int rows = rows_at_once(g), lanes = lanes_of(g);
  int64_t wanted = 4 * (int64_t)recorder_traits(g->s)->compute_units,
          each = is_cpu ? max_i64(1, min_i64(64, g->f.n * g->f.batches / wanted)) : 1;
  launch l;
  (void)none;
  gemm_begin(&l, g);
  launch_define(&l, "A_ORDER", g->f.a_k == 1);
  launch_define(&l, "M", rows);
  if (!is_cpu) launch_define(&l, "LANES", lanes);
  launch_args(&l, &(gemv_encoded_args){
                      .a = buffer_arg(g->f.a),
                      .a_batch = strides_arg(&g->f.batch_a),
                      .a_m = g->f.a_m,
                      .a_k = g->f.a_k,
                      .encoded = encoded_operand(g->f.b),
                      .bias = optional_arg(g->f.bias),
                      .bias_batch = strides_arg(&g->f.batch_bias),
                      .bias_m = g->f.bias_m,
                      .bias_n = g->f.bias_n,
                      .out = buffer_arg(g->f.out),
                      .tiles = g->grouped ? scratch_arg(0) : absent_arg(),
                      .batch_dims = dims_arg(&g->f.batch_a),
                      .m_size = g->f.m,
                      .n_size = g->f.n,
                      .k_size = g->f.k,
                      .each = each,
                      .alpha = g->f.alpha,
                      .beta = g->f.beta,
                      .scratch = local_arg(sizeof(float) * (is_cpu ? 1 : (size_t)rows * GROUP))});
  launch_epilogue(&l);
  size_t items =
      is_cpu ? (size_t)ceil_div(g->f.n, each) : (size_t)ceil_div(g->f.n, GROUP / lanes) * GROUP;
  size_t global[3] = {items, (size_t)ceil_div(g->f.m, rows), (size_t)g->f.batches},
         local[3] = {is_cpu ? 1 : GROUP, 1, 1};
  return launch_run(&l, 3, global, local);
}

/* ---------------------------------------------------------------- the choice */

typedef enum encoded_kind { BY_DOTS, BY_CODES, BY_PACKED, BY_FEW, BY_TILES } encoded_kind;

static encoded_kind choose(const gemm *g) {
  code_panels p;
  if (gemm_dots_usable(g, &p)) return BY_DOTS;
  if (gemm_codes_few(g) && gemm_codes_usable(g, &p)) return BY_CODES;
  if (gemm_packed_usable(g) && gemm_codes_usable(g, &p)) return BY_PACKED;
  if (g->f.m <= MOST_ROWS || g->f.k == 0) return BY_FEW;
  if (!recorder_traits(g->s)->is_cpu) return BY_TILES;
  return gemm_packed_usable(g) ? BY_PACKED : BY_FEW;
}

static bool takes_codes(const gemm *g, code_panels *p) {
  enum { MOST_CODES = 64 }; /* rows of a, whose sums fit local memory */
  return g->f.m <= MOST_CODES && gemm_codes_usable(g, p);
}

static bool takes_packed(const gemm *g, code_panels *none) {
  (void)none;
  return gemm_packed_usable(g);
}

static bool takes_any(const gemm *g, code_panels *none) {
  (void)g;
  (void)none;
  return true;
}

static bool takes_tiles(const gemm *g, code_panels *none) {
  (void)none;
  return !recorder_traits(g->s)->is_cpu && g->f.k > 0;
}

static clave_status multiply_packed(const gemm *g, const code_panels *none) {
  (void)none;
  return gemm_packed(g);
}

/* usable: says which panels `multiply` takes, if it takes any. */
static const struct encoded_variant {
  const char *name;
  bool (*usable)(const gemm *g, code_panels *p);
  clave_status (*multiply)(const gemm *g, const code_panels *p);
} encoded_variants[] = {[BY_DOTS] = {"dots", gemm_dots_usable, gemm_dots},
                        [BY_CODES] = {"codes", takes_codes, gemm_codes_rows},
                        [BY_PACKED] = {"packed", takes_packed, multiply_packed},
                        [BY_FEW] = {"few", takes_any, multiply_few},
                        [BY_TILES] = {"tiles", takes_tiles, multiply_tiles}};

static bool is_usable(const void *ctx, int i) {
  code_panels p;
  return encoded_variants[i].usable(ctx, &p);
}

static encoded_kind choose_variant(const gemm *g) {
  tuning_key k = gemm_key(g);
  tuning_key_encoding(&k, "encoding", &g->f.b->t.encoding);
  const variants all = {.family = "encoded matmul",
                        .rows = encoded_variants,
                        .row_size = sizeof *encoded_variants,
                        .n = sizeof encoded_variants / sizeof *encoded_variants,
                        .is_usable = is_usable,
                        .ctx = g};
  return (encoded_kind)recorder_choose(g->s, &all, &k, (int)choose(g));
}

/* Groups of rows are multiplied as they lie where digits do not do. */
clave_status gemm_encoded(const gemm *g) {
  code_panels p = {0};
  if (g->grouped) return gemm_dots_usable(g, &p) ? gemm_dots(g, &p) : multiply_few(g, &p);
  const struct encoded_variant *v = &encoded_variants[choose_variant(g)];
  (void)v->usable(g, &p);
  return v->multiply(g, &p);
}
