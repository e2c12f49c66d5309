/* Products with a constant b on a CPU: b is packed once, in panels of columns, a form that products
 * of any number of rows read; a few rows are multiplied as they lie. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

enum {
  FEW_ROWS = 32,     /* multiplied as they lie; more are packed, too */
  PACK_DEPTH = 256,  /* k of a panel that a work-item packs */
  CACHED_DEPTH = 256 /* k of a panel that stay in the first-level cache for several rows */
};

static int width_of(const gemm *g) { return (int)recorder_traits(g->s)->vector_width; }
int64_t gemm_panel_columns(const cl_recorder *s) { return 2 * recorder_traits(s)->vector_width; }
static int columns_of(const gemm *g) { return (int)gemm_panel_columns(g->s); }
static int64_t count_panels(const gemm *g) { return ceil_div(g->f.n, columns_of(g)); }
/* The most panels that a work-item reads at once, each a stream of its own; the form has whole
 * groups. */
static int64_t most_at_once(const gemm *g) {
  return count_panels(g) >= 4 ? 4 : count_panels(g) >= 2 ? 2 : 1;
}
static int64_t padded_panels(const gemm *g) {
  return ceil_div(count_panels(g), most_at_once(g)) * most_at_once(g);
}

bool gemm_has_one_b(const gemm *g) {
  for (int i = 0; i < g->f.batch_b.rank; i++)
    if (g->f.batch_b.dims[i] > 1 && g->f.batch_b.strides[i] != 0) return false;
  return true;
}

bool gemm_panels_usable(const gemm *g) {
  return recorder_traits(g->s)->is_cpu && !g->grouped && !gemm_is_encoded(g) && g->f.k > 0 &&
         gemm_has_one_b(g) && recorder_may_pack(g->s, g->f.b);
}

bool gemm_panels_few(const gemm *g) { return g->f.m <= FEW_ROWS; }

static clave_status pack_b(cl_recorder *s, const gemm *g) {
  launch l;
  launch_begin(&l, s, g->node);
  launch_dtype(&l, "B_TYPE", moved_type(g->f.b->t.type));
  launch_define(&l, "WIDTH", width_of(g));
  launch_define(&l, "B_ORDER", g->f.b_k == 1);
  launch_args(&l, &(gemm_panels_pack_args){.b = buffer_arg(g->f.b),
                                           .b_k = g->f.b_k,
                                           .b_n = g->f.b_n,
                                           .packed = scratch_arg(0),
                                           .n_size = g->f.n,
                                           .k_size = g->f.k,
                                           .depth = PACK_DEPTH});
  size_t global[2] = {(size_t)padded_panels(g), (size_t)ceil_div(g->f.k, PACK_DEPTH)},
         local[2] = {1, 1};
  return launch_run(&l, 2, global, local);
}

clave_status gemm_b_panels(const gemm *g, arg_buffer *panels) {
  const pack_request f = {
      .x = g->f.b,
      .kind = PACKED_GEMM_B,
      .size = {columns_of(g), g->f.n, g->f.b_n}, /* a square matrix is not its transpose */
      .bytes = dtype_size(g->f.b->t.type) * (size_t)(padded_panels(g) * columns_of(g) * g->f.k)};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(g->s, &f, &number, &pack));
  TRY(pack_b(pack, g));
  *panels = packed_arg(number);
  return NULL;
}

/* Rows at once: two registers of sums for each, of 32, or of 16 where they are narrow. */
static int rows_at_once(const gemm *g) {
  int most = width_of(g) == 16 ? 8 : 4, rows = 1;
  while (rows < most && rows < g->f.m) rows *= 2;
  return rows;
}

/* Eight registers of sums in all. */
static int64_t panels_at_once(const gemm *g) {
  return min_i64(rows_at_once(g) >= 4 ? 1 : 4 / rows_at_once(g), most_at_once(g));
}

/* What a work-item of gemm_panels does. */
typedef struct share {
  int64_t rows; /* rounded up to those at once */
  int64_t each; /* panels */
  int64_t depth;
  size_t floats; /* of local memory */
} share;

/* Sums, and rows of a: 16 KB each. */
enum { FLOATS = 4096 };

/* Panels of a work-item whose sums fit. */
static int64_t most_panels(const gemm *g) {
  int64_t rows = ceil_div(g->f.m, rows_at_once(g)) * rows_at_once(g);
  return FLOATS / (rows * columns_of(g));
}

bool gemm_panels_takes(const gemm *g, int64_t panels) {
  return max_i64(panels, 1) <= most_panels(g) && panels % panels_at_once(g) == 0 &&
         panels <= count_panels(g);
}

/* Several work-items for each core. */
static share share_panels(const gemm *g) {
  int64_t at_once = rows_at_once(g), unit = panels_at_once(g);
  bool copies = g->f.a->t.type != DTYPE_F32;
  share s = {.rows = ceil_div(g->f.m, at_once) * at_once, .depth = g->f.k};
  int64_t wanted = 4 * (int64_t)recorder_traits(g->s)->compute_units,
          each = g->each ? g->each : count_panels(g) * g->f.batches / wanted;
  s.each = max_i64(1, min_i64(most_panels(g), each) / unit) * unit;
  if (g->f.m > at_once) s.depth = CACHED_DEPTH;
  if (copies) s.depth = min_i64(s.depth, FLOATS / s.rows);
  s.floats = (size_t)(s.each * s.rows * columns_of(g) + (copies ? s.rows * s.depth : 0));
  return s;
}

clave_status gemm_panels(const void *product) {
  const gemm *g = product;
  share s = share_panels(g);
  arg_buffer b;
  TRY(gemm_b_panels(g, &b));
  launch l;
  gemm_begin_a(&l, g);
  launch_dtype(&l, "B_TYPE", g->f.b->t.type);
  launch_define(&l, "WIDTH", width_of(g));
  launch_define(&l, "A_ORDER", g->f.a_k == 1);
  launch_define(&l, "M", rows_at_once(g));
  launch_define(&l, "P", (int)panels_at_once(g));
  launch_args(&l, &(gemm_panels_args){.gemm = gemm_operands(g),
                                      .b = b,
                                      .padded = s.rows,
                                      .each = s.each,
                                      .depth = s.depth,
                                      .scratch = local_arg(sizeof(float) * s.floats)});
  launch_epilogue(&l);
  size_t global[2] = {(size_t)ceil_div(count_panels(g), s.each), (size_t)g->f.batches},
         local[2] = {1, 1};
  return launch_run(&l, 2, global, local);
}
