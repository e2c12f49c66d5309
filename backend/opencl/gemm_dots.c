/* Products of integers, on CPUs: one launch rounds a to 8 bits and packs it in tiles, another
 * multiplies. */
#include "backend/opencl/gemm_dots.h"

#include "backend/opencl/families.h"
#include "base/rounded.h"

bool gemm_dots_usable(const gemm *g, code_panels *p) {
  return recorder_is_fast(g->s) && gemm_codes_of(g, p) && code_panels_take_rounded(p);
}

/* What is side by side in registers, and how products are added: as in kernels_cl/dots.h. */
typedef struct tile {
  dots_kind dots;
  int rows, panels;
} tile;

/* A register of sums for each and as many of totals: 8 of 32 registers, 4 of 16. Assembly unpacks
 * codes fast enough to do so for every 4 rows; several panels of one row are several streams of
 * reads, without which memory waits. */
static clave_status choose_tile(const gemm *g, tile *t) {
  *t = (tile){.rows = 1};
  TRY(recorder_dots(g->s, &t->dots));
  bool wide = t->dots != DOTS_AVX_VNNI && recorder_traits(g->s)->vector_width == 16;
  int sums = wide ? 8 : 4, most = t->dots == DOTS_PORTABLE ? sums : 4;
  while (t->rows < most && t->rows < g->f.m) t->rows *= 2;
  t->panels = (int)min_i64(4, sums / t->rows);
  return NULL;
}

static int64_t count_tiles(const gemm *g, const tile *t) { return ceil_div(g->f.m, t->rows); }

static int64_t tile_words(const code_panels *p, const tile *t) {
  int words = t->dots == DOTS_PORTABLE ? ROUNDED_GROUP : ROUNDED_GROUP / 4;
  return (int64_t)(words + 1 + p->spans) * t->rows;
}

static void define_tile(launch *l, const code_panels *p, const tile *t) {
  gemm_codes_define(l, p);
  launch_define(l, "DOTS", (int)t->dots);
  launch_define(l, "M", t->rows);
}

static clave_status pack_a(const gemm *g, const code_panels *p, const tile *t) {
  enum { PARTS = 64 }; /* of a work-item */
  launch l;
  launch_begin(&l, g->s, g->node);
  launch_dtype(&l, "A_TYPE", g->f.a->t.type);
  launch_define(&l, "A_ORDER", g->f.a_k == 1);
  define_tile(&l, p, t);
  launch_args(&l, &(gemm_dots_pack_args){.a = buffer_arg(g->f.a),
                                         .a_batch = strides_arg(&g->f.batch_a),
                                         .a_m = g->f.a_m,
                                         .a_k = g->f.a_k,
                                         .packed = scratch_arg(0),
                                         .batch_dims = dims_arg(&g->f.batch_a),
                                         .m_size = g->f.m,
                                         .k_size = g->f.k,
                                         .parts = p->parts,
                                         .each = PARTS});
  size_t global[3] = {(size_t)count_tiles(g, t), (size_t)ceil_div(p->parts, PARTS),
                      (size_t)g->f.batches},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

/* What a work-item of gemm_dots does. */
typedef struct share {
  int64_t rows;   /* whole tiles */
  int64_t each;   /* groups of panels */
  int64_t depth;  /* parts at a time */
  int64_t groups; /* of panels, in all */
} share;

/* Several work-items for each core; codes of a panel that stay in the first-level cache from one
 * tile to the next. */
static share share_panels(const gemm *g, const code_panels *p, const tile *t) {
  enum { ROWS = 128, CODE_BYTES = 8192 };
  int64_t tiles = count_tiles(g, t), part_bytes = DECODED_AT_ONCE * CODE_PANEL * p->bits / 8;
  share s = {.rows = min_i64(tiles, ROWS / t->rows) * t->rows,
             .depth = tiles > 1 ? min_i64(p->parts, CODE_BYTES / part_bytes) : p->parts,
             .groups = ceil_div(g->f.n, t->panels * CODE_PANEL)};
  int64_t wanted = (tiles > 1 ? 16 : 4) * (int64_t)recorder_traits(g->s)->compute_units,
          chunks = ceil_div(g->f.m, s.rows) * g->f.batches;
  s.each = max_i64(1, s.groups * chunks / wanted);
  return s;
}

static clave_status multiply(const gemm *g, const code_panels *p, const tile *t, int b) {
  share s = share_panels(g, p, t);
  launch l;
  launch_begin(&l, g->s, g->node);
  launch_dtype(&l, "OUT_TYPE", g->f.out->t.type);
  launch_dtype(&l, "BIAS_TYPE", g->f.bias ? g->f.bias->t.type : g->f.out->t.type);
  launch_define(&l, "HAS_BIAS", g->f.bias != NULL);
  define_tile(&l, p, t);
  launch_define(&l, "PANELS", t->panels);
  size_t sums = sizeof(float) * CODE_PANEL * (size_t)(s.rows * t->panels);
  launch_args(&l, &(gemm_dots_args){.a = scratch_arg(0),
                                    .codes = gemm_codes_operand(p, b),
                                    .bias = optional_arg(g->f.bias),
                                    .bias_batch = strides_arg(&g->f.batch_bias),
                                    .bias_m = g->f.bias_m,
                                    .bias_n = g->f.bias_n,
                                    .out = buffer_arg(g->f.out),
                                    .batch_dims = dims_arg(&g->f.batch_a),
                                    .m_size = g->f.m,
                                    .n_size = g->f.n,
                                    .rows = s.rows,
                                    .each = s.each,
                                    .depth = s.depth,
                                    .alpha = g->f.alpha,
                                    .beta = g->f.beta,
                                    .sums = local_arg(sums)});
  launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(s.groups, s.each), (size_t)ceil_div(g->f.m, s.rows),
                      (size_t)g->f.batches},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

clave_status gemm_dots(const gemm *g, const code_panels *p) {
  tile t;
  int b;
  TRY(choose_tile(g, &t));
  TRY(gemm_codes_form(g, p, &b));
  int64_t words = g->f.batches * count_tiles(g, &t) * p->parts * tile_words(p, &t);
  TRY(recorder_scratch(g->s, sizeof(int32_t) * (size_t)words));
  recorder_rounds(g->s, ROUNDS_ROWS);
  TRY(pack_a(g, p, &t));
  return multiply(g, p, &t, b);
}
