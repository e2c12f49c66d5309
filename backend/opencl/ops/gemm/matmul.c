/* Matmul: chooses the implementation of gemm.h that runs a product. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "opencl_ops.h"

/* Rows of a up to which reading b once in place beats packing it. */
enum { FEW_ROWS = 8 };
/* From this size on CLBlast is faster than our tiles on integrated GPUs, less than its set-up costs
 * below (multiply-adds); on an H100 our tiles are faster, by 1.1 with 4096 on a side, and few tiles
 * are cut in parts. On CPUs it is never: 15-22 GFLOP/s on 2 Zen 4 cores, and 6 s of compiling,
 * where our packed kernel makes 200. */
static const double clblast_from = 1 << 21;
enum { CLBLAST_SIDE = 64, CLBLAST_GROUP = 256 }; /* of its largest work-groups */

static bool clblast_is_better(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  if (!t->is_gpu || t->max_local < CLBLAST_GROUP) return false;
  if (!t->shares_host_memory && gemm_local_is_better(g)) return false;
  if (g->f.m < CLBLAST_SIDE || g->f.n < CLBLAST_SIDE) return false;
  return (double)g->f.m * (double)g->f.n * (double)g->f.k >= clblast_from && gemm_clblast_usable(g);
}

/* What multiplies a few rows; GEMM_TILE: nothing does. */
static gemm_kind choose_for_few(const gemm *g) {
  bool is_cpu = recorder_traits(g->s)->is_cpu;
  if (!gemm_is_small_float(g->f.out->t.type) || g->f.k == 0) return GEMM_TILE;
  if (!is_cpu && !(gemm_is_small_float(g->f.a->t.type) && gemm_is_small_float(g->f.b->t.type)))
    return GEMM_TILE;
  if (g->f.b_k == 1 && (g->f.a_k == 1 || g->f.k == 1)) return is_cpu ? GEMM_ROWS : GEMM_ROW_LANES;
  if (g->f.b_n != 1 && g->f.n != 1) return GEMM_TILE;
  return is_cpu ? GEMM_COLUMNS : GEMM_COLUMN_LANES;
}

/* The rule, from dtype, sizes, strides and the kind of device. */
static gemm_kind choose(const gemm *g) {
  if (gemm_is_encoded(g)) return GEMM_ENCODED;
  if (gemm_is_small_float(g->f.out->t.type) && gemm_panels_usable(g) && gemm_panels_few(g))
    return GEMM_PANELS;
  gemm_kind few = choose_for_few(g);
  if (g->f.m <= FEW_ROWS && few != GEMM_TILE) return few;
  if (g->grouped || !gemm_is_small_float(g->f.out->t.type) || g->f.k == 0) return GEMM_TILE;
  if (g->mma == MMA_PTX && gemm_local_is_better(g)) return GEMM_MMA;
  if (clblast_is_better(g)) return GEMM_CLBLAST;
  if (gemm_packed_usable(g)) return GEMM_PACKED;
  const device_traits *t = recorder_traits(g->s);
  if (t->reads_images && gemm_image_usable(g)) return GEMM_IMAGE;
  if (t->shares_badly && gemm_direct_usable(g)) return GEMM_DIRECT;
  return gemm_local_is_better(g) ? GEMM_LOCAL : GEMM_TILE;
}

/* Of each kind the first is what the rule takes. */
static const struct gemm_variant {
  const char *name;
  gemm_kind kind;
  int64_t each;
} gemm_variants[] = {{"tile", GEMM_TILE, 0},
                     {"packed", GEMM_PACKED, 0},
                     {"packed 32", GEMM_PACKED, 32},
                     {"packed 64", GEMM_PACKED, 64},
                     {"packed 256", GEMM_PACKED, 256},
                     {"panels", GEMM_PANELS, 0},
                     {"panels 4", GEMM_PANELS, 4},
                     {"panels 8", GEMM_PANELS, 8},
                     {"panels 16", GEMM_PANELS, 16},
                     {"rows", GEMM_ROWS, 0},
                     {"rows 4", GEMM_ROWS, 4},
                     {"rows 16", GEMM_ROWS, 16},
                     {"rows 64", GEMM_ROWS, 64},
                     {"columns", GEMM_COLUMNS, 0},
                     {"columns 64", GEMM_COLUMNS, 64},
                     {"columns 256", GEMM_COLUMNS, 256},
                     {"columns 1024", GEMM_COLUMNS, 1024},
                     {"clblast", GEMM_CLBLAST, 0},
                     {"local", GEMM_LOCAL, 0},
                     {"local 64", GEMM_LOCAL, 64},
                     {"local 128", GEMM_LOCAL, 128},
                     {"direct", GEMM_DIRECT, 0},
                     {"direct 2", GEMM_DIRECT, 2},
                     {"direct 4", GEMM_DIRECT, 4},
                     {"direct 8", GEMM_DIRECT, 8},
                     {"image", GEMM_IMAGE, 0},
                     {"image 2", GEMM_IMAGE, 2},
                     {"image 4", GEMM_IMAGE, 4},
                     {"image 8", GEMM_IMAGE, 8},
                     {"mma", GEMM_MMA, 0},
                     {"mma 64", GEMM_MMA, 64},
                     {"mma 128", GEMM_MMA, 128},
                     {"row lanes", GEMM_ROW_LANES, 0},
                     {"row lanes 16", GEMM_ROW_LANES, 16},
                     {"row lanes 64", GEMM_ROW_LANES, 64},
                     {"column lanes", GEMM_COLUMN_LANES, 0},
                     {"column lanes 4", GEMM_COLUMN_LANES, 4},
                     {"column lanes 16", GEMM_COLUMN_LANES, 16}};
enum { N_GEMM_VARIANTS = sizeof gemm_variants / sizeof *gemm_variants };

static bool variant_is_usable(const void *ctx, int i) {
  const gemm *g = ctx;
  const struct gemm_variant *v = &gemm_variants[i];
  bool is_few = g->f.m <= FEW_ROWS && choose_for_few(g) == v->kind;
  if (v->kind == GEMM_TILE) return true;
  if (!gemm_is_small_float(g->f.out->t.type) || g->f.k == 0) return false;
  switch (v->kind) {
    case GEMM_PACKED:
      return gemm_packed_usable(g) && (!v->each || gemm_packed_takes(g, v->each));
    case GEMM_PANELS:
      return gemm_panels_usable(g) && gemm_panels_takes(g, v->each);
    case GEMM_LOCAL:
      return gemm_local_usable(g) && (!v->each || gemm_local_takes(g, v->each));
    case GEMM_DIRECT:
      return gemm_direct_usable(g);
    case GEMM_IMAGE:
      return gemm_image_usable(g);
    case GEMM_MMA:
      return g->mma != MMA_NONE && (!v->each || gemm_mma_takes(g, v->each));
    case GEMM_COLUMNS:
      return is_few && (!v->each || gemm_columns_takes(g, v->each));
    case GEMM_CLBLAST:
      return !g->grouped && recorder_traits(g->s)->max_local >= CLBLAST_GROUP &&
             g->f.m > FEW_ROWS && g->f.n > FEW_ROWS && gemm_clblast_usable(g);
    default:
      return is_few;
  }
}

static const struct gemm_variant *choose_variant(const gemm *g) {
  const tuning_key k = gemm_key(g);
  const variants all = {.family = "matmul",
                        .rows = gemm_variants,
                        .row_size = sizeof *gemm_variants,
                        .n = N_GEMM_VARIANTS,
                        .is_usable = variant_is_usable,
                        .ctx = g};
  gemm_kind kind = choose(g);
  int by_rule = 0;
  while (gemm_variants[by_rule].kind != kind) by_rule++;
  return &gemm_variants[recorder_choose(g->s, &all, &k, by_rule)];
}

clave_status gemm_record(const gemm *g) {
  static clave_status (*const implementations[])(const gemm *) = {
      [GEMM_TILE] = gemm_tile,           [GEMM_LOCAL] = gemm_local,
      [GEMM_PACKED] = gemm_packed,       [GEMM_PANELS] = gemm_panels,
      [GEMM_ENCODED] = gemm_encoded,     [GEMM_MMA] = gemm_mma,
      [GEMM_DIRECT] = gemm_direct,       [GEMM_IMAGE] = gemm_image,
      [GEMM_ROWS] = gemm_rows,           [GEMM_COLUMNS] = gemm_columns,
      [GEMM_ROW_LANES] = gemm_row_lanes, [GEMM_COLUMN_LANES] = gemm_column_lanes,
      [GEMM_CLBLAST] = gemm_clblast};
  gemm chosen = *g;
  if (g->grouped || gemm_is_encoded(g)) return implementations[choose(g)](g);
  if (chosen.codes) return gemm_packed(&chosen);
  TRY(gemm_choose_mma(&chosen));
  const struct gemm_variant *v = choose_variant(&chosen);
  chosen.each = v->each;
  return implementations[v->kind](&chosen);
}

clave_status opencl_matmul(cl_recorder *s, const node *n) {
  gemm g = {.s = s, .node = n};
  describe_matmul(n, &g.f);
  return gemm_record(&g);
}

/* ---------------------------------------------------------------- groups of rows */

/* As a product whose batches are tiles of rows, before those are known. */
static gemm begin_grouped(cl_recorder *s, const node *n, const grouped_matmul_form *f) {
  const tensor *a = &f->a->t;
  gemm g = {.s = s, .node = n, .grouped = true};
  g.f = (matmul_form){.a = f->a, .b = f->b, .out = f->out, .n = f->n, .k = f->k, .alpha = 1};
  g.f.a_m = a->strides[0];
  g.f.a_k = a->strides[1];
  g.f.b_k = f->b_k;
  g.f.b_n = f->b_n;
  g.f.batch_b = take_dims(&f->b->t, 0, 1);
  return g;
}

/* Rows of a tile: what suits groups of the mean size. A CPU multiplies more of them in turns, which
 * is faster than tiles of columns, too; and so are all where b is encoded. */
static int64_t choose_tile_rows(const gemm *g, const grouped_matmul_form *f) {
  int64_t mean = ceil_div(f->rows, max_i64(f->groups, 1)), rows = 1;
  bool few = mean <= FEW_ROWS || recorder_traits(g->s)->is_cpu;
  if (!gemm_is_encoded(g) && (!few || choose_for_few(g) == GEMM_TILE)) return gemm_tile_rows(g);
  while (rows < mean && rows < FEW_ROWS) rows *= 2;
  return rows;
}

static const struct rows_variant {
  const char *name;
  int64_t rows; /* 0: by rule */
} rows_variants[] = {{"rule", 0}, {"1", 1}, {"2", 2}, {"4", 4}, {"8", 8}};

/* What multiplies few rows takes any number of them. */
static bool takes_any_rows(const void *ctx, int i) {
  const gemm *g = ctx;
  (void)i;
  return gemm_is_encoded(g) || choose_for_few(g) != GEMM_TILE;
}

static int64_t tile_rows(const gemm *g, const grouped_matmul_form *f) {
  tuning_key k = gemm_key(g);
  tuning_key_int(&k, "rows", f->rows);
  tuning_key_int(&k, "groups", f->groups);
  const variants all = {.family = "grouped matmul rows",
                        .rows = rows_variants,
                        .row_size = sizeof *rows_variants,
                        .n = sizeof rows_variants / sizeof *rows_variants,
                        .is_usable = takes_any_rows,
                        .ctx = g};
  int64_t rows = rows_variants[recorder_choose(g->s, &all, &k, 0)].rows;
  return rows ? rows : choose_tile_rows(g, f);
}

/* The most tiles that there can be: a group begins one of its own. */
static int64_t count_tiles(const grouped_matmul_form *f, int64_t tile_rows) {
  return min_i64(f->rows, (f->rows + (f->groups + 1) * (tile_rows - 1)) / tile_rows);
}

static clave_status launch_tiles(const gemm *g, const grouped_matmul_form *f) {
  TRY(recorder_scratch(g->s, (size_t)g->f.batches * 3 * sizeof(cl_long)));
  launch l;
  launch_begin(&l, g->s, g->node);
  launch_dtype(&l, "INDEX_TYPE", f->ends->t.type);
  launch_args(&l, &(group_tiles_args){.ends = buffer_arg(f->ends),
                                      .tiles = scratch_arg(0),
                                      .n_tiles = g->f.batches,
                                      .groups = f->groups,
                                      .end_step = f->ends->t.strides[0],
                                      .rows = f->rows,
                                      .tile_rows = g->f.m});
  return launch_items(&l, g->f.batches);
}

clave_status opencl_grouped_matmul(cl_recorder *s, const node *n) {
  grouped_matmul_form f;
  describe_grouped_matmul(n, &f);
  if (f.rows * f.n == 0) return NULL;
  gemm g = begin_grouped(s, n, &f);
  g.f.m = tile_rows(&g, &f);
  g.f.batches = count_tiles(&f, g.f.m);
  TRY(launch_tiles(&g, &f));
  return gemm_record(&g);
}
