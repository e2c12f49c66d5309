/* Products with an encoded b. A few rows of a are multiplied as they lie; more by the kernels of
 * gemm.cl and matmul.cl, which decode b on their way. */
#include "backend/opencl/encoded.h"
#include "backend/opencl/families.h"
#include "backend/opencl/gemm_codes.h"
#include "backend/opencl/gemm_dots.h"

/* As in kernels_cl/gemv_encoded.cl. */
enum { GROUP = 64, MOST_ROWS = 8 };

bool gemm_is_encoded(const gemm *g) { return g->f.b->t.encoding.kind != ENCODING_PLAIN; }

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
static clave_status multiply_tiles(const gemm *g) {
  enum { BLOCK_M = 4, BLOCK_N = 8, SIDE = 8 }; /* as in kernels_cl/matmul_encoded.cl */
  launch l;
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

static clave_status multiply_few(const gemm *g) {
  bool is_cpu = recorder_traits(g->s)->is_cpu;
  int rows = rows_at_once(g), lanes = lanes_of(g);
  int64_t wanted = 4 * (int64_t)recorder_traits(g->s)->compute_units,
          each = is_cpu ? max_i64(1, min_i64(64, g->f.n * g->f.batches / wanted)) : 1;
  launch l;
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

static const char *const encoded_variants[] = {"dots", "codes", "packed", "few", "tiles"};

static bool is_usable(const void *ctx, int i) {
  enum { MOST_CODES = 64 }; /* rows of a, whose sums fit local memory */
  const gemm *g = ctx;
  code_panels p;
  switch ((encoded_kind)i) {
    case BY_DOTS:
      return gemm_dots_usable(g, &p);
    case BY_CODES:
      return g->f.m <= MOST_CODES && gemm_codes_usable(g, &p);
    case BY_PACKED:
      return gemm_packed_usable(g);
    case BY_FEW:
      return true;
    case BY_TILES:
      return !recorder_traits(g->s)->is_cpu && g->f.k > 0;
  }
  return false;
}

static encoded_kind choose_variant(const gemm *g) {
  char e[64];
  tuning_key k = gemm_key(g);
  if (k.is_wanted) tuning_key_text(&k, "encoding", encoding_text(&g->f.b->t.encoding, e, sizeof e));
  const variants all = {.family = "encoded matmul",
                        .rows = encoded_variants,
                        .row_size = sizeof *encoded_variants,
                        .n = sizeof encoded_variants / sizeof *encoded_variants,
                        .is_usable = is_usable,
                        .ctx = g};
  return (encoded_kind)recorder_choose(g->s, &all, &k, (int)choose(g));
}

clave_status gemm_encoded(const gemm *g) {
  code_panels p;
  if (g->grouped) return gemm_dots_usable(g, &p) ? gemm_dots(g, &p) : multiply_few(g);
  encoded_kind kind = choose_variant(g);
  if (kind == BY_DOTS) return gemm_dots_usable(g, &p) ? gemm_dots(g, &p) : multiply_few(g);
  if (kind == BY_CODES) return gemm_codes_usable(g, &p) ? gemm_codes_rows(g, &p) : multiply_few(g);
  if (kind == BY_PACKED) return gemm_packed(g);
  return kind == BY_TILES ? multiply_tiles(g) : multiply_few(g);
}
