/* Products with an encoded constant b: its codes are packed once, in panels, a form that
 * products of any number of rows read. */
#include "backend/opencl/ops/gemm/gemm_codes.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"

enum { FEW_ROWS = 32 }; /* multiplied as they lie; more are packed, too */

bool gemm_codes_of(const gemm *g, code_panels *p) {
  return gemm_is_encoded(g) && g->f.k > 0 && recorder_may_pack(g->s, g->f.b) &&
         code_panels_of(&g->f.b->t.encoding, g->f.k, p);
}

bool gemm_codes_usable(const gemm *g, code_panels *p) {
  const device_traits *t = recorder_traits(g->s);
  return t->is_cpu && t->vector_width >= 8 && gemm_codes_of(g, p);
}

/* Each has panels of its own. */
static int64_t count_matrices(const gemm *g) { return g->grouped ? g->f.b->t.dims[0] : 1; }
static int64_t count_panels(const gemm *g) { return ceil_div(g->f.n, CODE_PANEL); }

void gemm_codes_define(launch *l, const code_panels *p) {
  launch_define(l, "CODE_BITS", p->bits);
  launch_define(l, "LEAST", p->least);
  launch_define(l, "SPANS", p->spans);
  launch_define(l, "HAS_SUBS", p->has_subs);
  launch_define(l, "HAS_LOWS", p->has_lows);
  launch_define(l, "WIDE_FACTORS", p->wide);
  launch_define(l, "BLOCK", p->block);
  launch_define(l, "PERIOD", p->period);
  launch_define(l, "FLOAT_CODES", p->code == CODE_E4M3 ? 3 : p->code == CODE_E5M2 ? 2 : 0);
}

static clave_status pack_codes(cl_recorder *s, const gemm *g) {
  code_panels p;
  if (!code_panels_of(&g->f.b->t.encoding, g->f.k, &p))
    return UNSUPPORTED("b has no panels of codes");
  launch l;
  launch_begin(&l, s, g->node);
  launch_encoding(&l, &g->f.b->t.encoding);
  gemm_codes_define(&l, &p);
  launch_args(&l, &(gemm_codes_pack_args){.encoded = encoded_operand(g->f.b),
                                          .packed = scratch_arg(0),
                                          .panel_bytes = (int64_t)p.bytes,
                                          .n_size = g->f.n,
                                          .k_size = g->f.k});
  size_t global[3] = {(size_t)count_panels(g), (size_t)p.parts, (size_t)count_matrices(g)},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

clave_status gemm_codes_form(const gemm *g, const code_panels *p, int *number) {
  const pack_request f = {.x = g->f.b,
                          .kind = PACKED_GEMM_CODES,
                          .size = {CODE_PANEL, g->f.n, g->f.k},
                          .bytes = p->bytes * (size_t)(count_panels(g) * count_matrices(g))};
  cl_recorder *pack;
  TRY(recorder_pack(g->s, &f, number, &pack));
  return pack_codes(pack, g);
}

codes_params gemm_codes_operand(const code_panels *p, int form) {
  return (codes_params){.b = packed_arg(form), .panel_bytes = (int64_t)p->bytes, .parts = p->parts};
}

bool gemm_codes_few(const gemm *g) { return g->f.m <= FEW_ROWS; }

/* Rows at once: a register of sums for each and as many of totals, of 32, or twice as many of 16.
 */
static int rows_at_once(const gemm *g) {
  int most = recorder_traits(g->s)->vector_width == 16 ? 8 : 4, rows = 1;
  while (rows < most && rows < g->f.m) rows *= 2;
  return rows;
}

/* What a work-item of gemv_codes does. */
typedef struct share {
  int64_t rows;  /* rounded up to those at once */
  int64_t each;  /* panels */
  int64_t depth; /* parts */
  size_t floats; /* of local memory */
} share;

/* Several work-items for each core, whose sums fit in 8 KB and rows of a in 16 KB. */
static share share_panels(const gemm *g, const code_panels *p) {
  enum { SUMS = 2048, FLOATS = 4096 };
  int64_t at_once = rows_at_once(g);
  share s = {.rows = ceil_div(g->f.m, at_once) * at_once};
  int64_t wanted = 4 * (int64_t)recorder_traits(g->s)->compute_units,
          most = SUMS / (s.rows * CODE_PANEL);
  s.each = max_i64(1, min_i64(most, count_panels(g) * g->f.batches / wanted));
  s.depth = min_i64(p->parts, max_i64(1, FLOATS / (g->f.m * DECODED_AT_ONCE)));
  int64_t sums = p->has_lows ? g->f.m * s.depth * p->spans : 0;
  s.floats = (size_t)(s.each * s.rows * CODE_PANEL + g->f.m * s.depth * DECODED_AT_ONCE + sums);
  return s;
}

clave_status gemm_codes_rows(const gemm *g, const code_panels *p) {
  share s = share_panels(g, p);
  int b;
  TRY(gemm_codes_form(g, p, &b));
  launch l;
  gemm_begin_a(&l, g);
  gemm_codes_define(&l, p);
  launch_define(&l, "M", rows_at_once(g));
  launch_args(&l, &(gemv_codes_args){.gemm = gemm_operands(g),
                                     .codes = gemm_codes_operand(p, b),
                                     .padded = s.rows,
                                     .each = s.each,
                                     .depth = s.depth,
                                     .scratch = local_arg(sizeof(float) * s.floats)});
  launch_epilogue(&l);
  size_t global[2] = {(size_t)ceil_div(count_panels(g), s.each), (size_t)g->f.batches},
         local[2] = {1, 1};
  return launch_run(&l, 2, global, local);
}
