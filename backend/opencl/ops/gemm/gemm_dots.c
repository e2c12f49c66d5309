/* Products of integers on GPUs: one launch rounds a to 8 bits and packs it in tiles, another
 * multiplies. */
#include "backend/opencl/ops/gemm/gemm_dots.h"

#include "backend/opencl/ops/families.h"
#include "base/rounded.h"

bool gemm_dots_usable(const gemm *g, code_panels *p) {
  return recorder_is_fast(g->s) && !recorder_traits(g->s)->is_cpu && gemm_codes_of(g, p) &&
         code_panels_take_rounded(p);
}

/* What is side by side in registers, and how products are added: as in kernels_cl/gemm/dots.h. */
typedef struct tile {
  dots_kind dots;
  int rows, panels;
  int lanes; /* of few rows: work-items that share a column; 0: by rule */
} tile;

/* A work-item has a register for each sum. Up to LANES_ROWS rows are a tile, of one panel,
 * by gemv_dots; more make tiles of which a group of matmul_dots has LANES. */
enum { LANES_ROWS = 8, LANES = 4, LANES_PANELS = 2 };

static bool is_few(const gemm *g) { return g->f.m <= LANES_ROWS; }

static void choose_lanes_tile(const gemm *g, tile *t) {
  int64_t rows = is_few(g) ? g->f.m : ceil_div(g->f.m, LANES);
  while (t->rows < LANES_ROWS && t->rows < rows) t->rows *= 2;
  t->panels = is_few(g) ? 1 : LANES_PANELS;
}

/* None changes a bit: sums are of integers, and a part's are added in order. */
typedef struct tile_problem {
  const gemm *g;
  const code_panels *p;
} tile_problem;

/* parameters: rows and panels of a tile, of many rows; lanes that share a column, of few. */
static bool takes_rows(const void *problem, const kernel_variant *variant) {
  (void)variant;
  return !is_few(((const tile_problem *)problem)->g);
}

static bool takes_lanes(const void *problem, const kernel_variant *variant) {
  const tile_problem *c = problem;
  const int64_t lanes = variant->parameters[2];
  return is_few(c->g) && c->p->parts >= lanes &&
         recorder_traits(c->g->s)->max_local >= (size_t)(lanes * CODE_PANEL);
}

static const kernel_variant tile_variants[] = {{.name = "rule"},
                                               {"2x2", takes_rows, .parameters = {2, 2, 0}},
                                               {"4x2", takes_rows, .parameters = {4, 2, 0}},
                                               {"lanes 4", takes_lanes, .parameters = {0, 0, 4}},
                                               {"lanes 8", takes_lanes, .parameters = {0, 0, 8}},
                                               {"lanes 16", takes_lanes, .parameters = {0, 0, 16}}};

/* Puts what the tuning table has in the place of t. */
static void tune_tile(const tile_problem *c, tile *t) {
  const gemm *g = c->g;
  tuning_key k = gemm_key(g);
  tuning_key_encoding(&k, "encoding", &g->f.b->t.encoding);
  const variants all = {.family = "dots tile",
                        .rows = tile_variants,
                        .n = sizeof tile_variants / sizeof *tile_variants,
                        .problem = c};
  const int64_t *taken = recorder_choose(g->s, &all, &k)->parameters;
  t->lanes = (int)taken[2];
  if (!taken[0]) return;
  t->rows = (int)taken[0];
  t->panels = (int)taken[1];
}

static clave_status choose_tile(const gemm *g, const code_panels *p, tile *t) {
  const tile_problem c = {.g = g, .p = p};
  *t = (tile){.rows = 1};
  TRY(recorder_dots(g->s, &t->dots));
  choose_lanes_tile(g, t);
  tune_tile(&c, t);
  return NULL;
}

static int64_t count_tiles(const gemm *g, const tile *t) { return ceil_div(g->f.m, t->rows); }

static int64_t tile_words(const code_panels *p, const tile *t) {
  return (int64_t)(ROUNDED_GROUP / 4 + 1 + p->spans) * t->rows;
}

static void define_tile(launch *l, const code_panels *p, const tile *t) {
  gemm_codes_define(l, p);
  launch_dots(l, t->dots);
  launch_define(l, "M", t->rows);
}

/* The tiles of rows of a grouped product lie before a, three numbers of 64 bits each. */
static arg_buffer packed_a(const gemm *g) { return scratch_arg(g->grouped ? 6 * g->f.batches : 0); }
static arg_buffer tiles_of_rows(const gemm *g) {
  return g->grouped ? scratch_arg(0) : absent_arg();
}

static clave_status pack_a(const gemm *g, const code_panels *p, const tile *t) {
  launch l;
  launch_begin(&l, g->s, g->node);
  launch_dtype(&l, "A_TYPE", g->f.a->t.type);
  launch_define(&l, "A_ORDER", g->f.a_k == 1);
  launch_define(&l, "GROUPED", g->grouped);
  define_tile(&l, p, t);
  launch_args(&l, &(gemm_dots_pack_args){.a = buffer_arg(g->f.a),
                                         .a_batch = strides_arg(&g->f.batch_a),
                                         .a_m = g->f.a_m,
                                         .a_k = g->f.a_k,
                                         .packed = packed_a(g),
                                         .row_tiles = tiles_of_rows(g),
                                         .batch_dims = dims_arg(&g->f.batch_a),
                                         .m_size = g->f.m,
                                         .k_size = g->f.k,
                                         .parts = p->parts});
  size_t global[3] = {(size_t)count_tiles(g, t), (size_t)p->parts, (size_t)g->f.batches},
         local[3] = {1, LOCAL_SIZE, 1};
  return launch_run(&l, 3, global, local);
}

static void begin_multiply(launch *l, const gemm *g, const code_panels *p, const tile *t) {
  launch_begin(l, g->s, g->node);
  launch_dtype(l, "OUT_TYPE", g->f.out->t.type);
  launch_dtype(l, "BIAS_TYPE", g->f.bias ? g->f.bias->t.type : g->f.out->t.type);
  launch_define(l, "HAS_BIAS", g->f.bias != NULL);
  launch_define(l, "GROUPED", g->grouped);
  define_tile(l, p, t);
}

static dots_params operands(const gemm *g) {
  return (dots_params){.a = packed_a(g),
                       .row_tiles = tiles_of_rows(g),
                       .bias = optional_arg(g->f.bias),
                       .bias_batch = strides_arg(&g->f.batch_bias),
                       .bias_m = g->f.bias_m,
                       .bias_n = g->f.bias_n,
                       .out = buffer_arg(g->f.out),
                       .batch_dims = dims_arg(&g->f.batch_a),
                       .m_size = g->f.m,
                       .n_size = g->f.n,
                       .alpha = g->f.alpha,
                       .beta = g->f.beta};
}

/* Work-items that share a column: more of them where groups may be as large and k has parts for
 * them. */
static int choose_lanes(const gemm *g, const code_panels *p, const tile *t) {
  enum { MORE = 16 };
  if (t->lanes) return t->lanes;
  return recorder_traits(g->s)->max_local >= MORE * CODE_PANEL && p->parts >= 2 * MORE ? MORE
                                                                                       : LANES;
}

static clave_status multiply_few(const gemm *g, const code_panels *p, const tile *t, int b) {
  int lanes = choose_lanes(g, p, t);
  launch l;
  begin_multiply(&l, g, p, t);
  launch_define(&l, "LANES", lanes);
  launch_define(&l, "TURNS", t->rows < LANES ? LANES / t->rows : 1);
  launch_args(&l, &(gemv_dots_args){.dots = operands(g), .codes = gemm_codes_operand(p, b)});
  launch_epilogue(&l);
  size_t group = (size_t)(CODE_PANEL * lanes);
  size_t global[3] = {(size_t)ceil_div(g->f.n, CODE_PANEL) * group, (size_t)count_tiles(g, t),
                      (size_t)g->f.batches},
         local[3] = {group, 1, 1};
  return launch_run(&l, 3, global, local);
}

static clave_status multiply_tiles(const gemm *g, const code_panels *p, const tile *t, int b) {
  launch l;
  begin_multiply(&l, g, p, t);
  launch_define(&l, "PANELS", t->panels);
  launch_args(&l, &(matmul_dots_args){.dots = operands(g), .codes = gemm_codes_operand(p, b)});
  launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(g->f.n, LANES_PANELS * CODE_PANEL) * CODE_PANEL,
                      (size_t)count_tiles(g, t), (size_t)g->f.batches},
         local[3] = {CODE_PANEL, LANES, 1};
  return launch_run(&l, 3, global, local);
}

clave_status gemm_dots(const gemm *g, const code_panels *p) {
  tile t;
  int b;
  TRY(choose_tile(g, p, &t));
  TRY(gemm_codes_form(g, p, &b));
  int64_t words = g->f.batches * (6 + count_tiles(g, &t) * p->parts * tile_words(p, &t));
  TRY(recorder_scratch(g->s, sizeof(int32_t) * (size_t)words));
  recorder_rounds(g->s, ROUNDS_ROWS);
  TRY(pack_a(g, p, &t));
  return is_few(g) ? multiply_few(g, p, &t, b) : multiply_tiles(g, p, &t, b);
}
