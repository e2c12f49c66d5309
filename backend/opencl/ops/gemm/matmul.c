/* Matmul: the table of implementations of products (gemm.h), and groups of rows. */
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

typedef clave_status (*gemm_function)(const void *product);

/* The implementation for a few rows of these dtypes and strides; NULL: there is none. */
static gemm_function for_few_rows(const gemm *g) {
  bool is_cpu = recorder_traits(g->s)->is_cpu;
  if (!gemm_is_small_float(g->f.out->t.type) || g->f.k == 0) return NULL;
  if (!is_cpu && !(gemm_is_small_float(g->f.a->t.type) && gemm_is_small_float(g->f.b->t.type)))
    return NULL;
  if (g->f.b_k == 1 && (g->f.a_k == 1 || g->f.k == 1)) return is_cpu ? gemm_rows : gemm_row_lanes;
  if (g->f.b_n != 1 && g->f.n != 1) return NULL;
  return is_cpu ? gemm_columns : gemm_column_lanes;
}

/* ---------------------------------------------------------------- what rows of the table can run
 */

static bool takes_few(const void *product, const kernel_variant *variant) {
  const gemm *g = product;
  return g->f.m <= FEW_ROWS && for_few_rows(g) == variant->record;
}

static bool takes_few_columns(const void *product, const kernel_variant *variant) {
  return takes_few(product, variant) && gemm_columns_takes(product, variant->parameters[0]);
}

static bool is_float_product(const gemm *g) {
  return gemm_is_small_float(g->f.out->t.type) && g->f.k > 0;
}

/* Whether the kernels for many rows, which know no groups of them, may be asked. */
static bool is_in_one_piece(const gemm *g) { return is_float_product(g) && !g->grouped; }

static bool takes_packed(const void *product, const kernel_variant *variant) {
  const int64_t columns = variant->parameters[0];
  return is_in_one_piece(product) && gemm_packed_usable(product) &&
         (!columns || gemm_packed_takes(product, columns));
}

static bool takes_panels(const void *product, const kernel_variant *variant) {
  return is_float_product(product) && gemm_panels_usable(product) &&
         gemm_panels_takes(product, variant->parameters[0]);
}

static double cost_of_panels(const void *product, const kernel_variant *variant) {
  return gemm_panels_few(product) ? variant->cost : ON_REQUEST;
}

static bool takes_local(const void *product, const kernel_variant *variant) {
  const int64_t tile = variant->parameters[0];
  return is_in_one_piece(product) && gemm_local_usable(product) &&
         (!tile || gemm_local_takes(product, tile));
}

static double cost_of_local(const void *product, const kernel_variant *variant) {
  return gemm_local_is_better(product) ? variant->cost : ON_REQUEST;
}

static bool takes_direct(const void *product, const kernel_variant *variant) {
  (void)variant;
  return is_in_one_piece(product) && gemm_direct_usable(product);
}

static double cost_of_direct(const void *product, const kernel_variant *variant) {
  return recorder_traits(((const gemm *)product)->s)->shares_badly ? variant->cost : ON_REQUEST;
}

static bool takes_image(const void *product, const kernel_variant *variant) {
  (void)variant;
  return is_in_one_piece(product) && gemm_image_usable(product);
}

static double cost_of_image(const void *product, const kernel_variant *variant) {
  return recorder_traits(((const gemm *)product)->s)->reads_images ? variant->cost : ON_REQUEST;
}

static bool takes_mma(const void *product, const kernel_variant *variant) {
  const gemm *g = product;
  const int64_t tile = variant->parameters[0];
  return is_in_one_piece(g) && g->mma != MMA_NONE && (!tile || gemm_mma_takes(g, tile));
}

static double cost_of_mma(const void *product, const kernel_variant *variant) {
  const gemm *g = product;
  return g->mma == MMA_PTX && gemm_local_is_better(g) ? variant->cost : ON_REQUEST;
}

static bool takes_clblast(const void *product, const kernel_variant *variant) {
  const gemm *g = product;
  (void)variant;
  return is_in_one_piece(g) && recorder_traits(g->s)->max_local >= CLBLAST_GROUP &&
         g->f.m > FEW_ROWS && g->f.n > FEW_ROWS && gemm_clblast_usable(g);
}

static double cost_of_clblast(const void *product, const kernel_variant *variant) {
  return clblast_is_better(product) ? variant->cost : ON_REQUEST;
}

/* ---------------------------------------------------------------- the table */

/* parameters: columns, panels or what else the implementation cuts n by, or the side of its tiles;
 * 0: by its own rule. The order of costs is that of measurements (docs/performance_products.md). */
static const kernel_variant gemm_variants[] = {
    {"tile", .cost = 9, .record = gemm_tile},
    {"packed", takes_packed, .cost = 5, .record = gemm_packed},
    {"packed 32", takes_packed, .cost = 5, .record = gemm_packed, .parameters = {32}},
    {"packed 64", takes_packed, .cost = 5, .record = gemm_packed, .parameters = {64}},
    {"packed 256", takes_packed, .cost = 5, .record = gemm_packed, .parameters = {256}},
    {"panels", takes_panels, .cost = 1, .cost_of = cost_of_panels, .record = gemm_panels},
    {"panels 4", takes_panels, .cost = 1, .cost_of = cost_of_panels, .record = gemm_panels,
     .parameters = {4}},
    {"panels 8", takes_panels, .cost = 1, .cost_of = cost_of_panels, .record = gemm_panels,
     .parameters = {8}},
    {"panels 16", takes_panels, .cost = 1, .cost_of = cost_of_panels, .record = gemm_panels,
     .parameters = {16}},
    {"rows", takes_few, .cost = 2, .record = gemm_rows},
    {"rows 4", takes_few, .cost = 2, .record = gemm_rows, .parameters = {4}},
    {"rows 16", takes_few, .cost = 2, .record = gemm_rows, .parameters = {16}},
    {"rows 64", takes_few, .cost = 2, .record = gemm_rows, .parameters = {64}},
    {"columns", takes_few, .cost = 2, .record = gemm_columns},
    {"columns 64", takes_few_columns, .cost = 2, .record = gemm_columns, .parameters = {64}},
    {"columns 256", takes_few_columns, .cost = 2, .record = gemm_columns, .parameters = {256}},
    {"columns 1024", takes_few_columns, .cost = 2, .record = gemm_columns, .parameters = {1024}},
    {"clblast", takes_clblast, .cost = 4, .cost_of = cost_of_clblast, .record = gemm_clblast},
    {"local", takes_local, .cost = 8, .cost_of = cost_of_local, .record = gemm_local},
    {"local 64", takes_local, .cost = 8, .cost_of = cost_of_local, .record = gemm_local,
     .parameters = {64}},
    {"local 128", takes_local, .cost = 8, .cost_of = cost_of_local, .record = gemm_local,
     .parameters = {128}},
    {"direct", takes_direct, .cost = 7, .cost_of = cost_of_direct, .record = gemm_direct},
    {"direct 2", takes_direct, .cost = 7, .cost_of = cost_of_direct, .record = gemm_direct,
     .parameters = {2}},
    {"direct 4", takes_direct, .cost = 7, .cost_of = cost_of_direct, .record = gemm_direct,
     .parameters = {4}},
    {"direct 8", takes_direct, .cost = 7, .cost_of = cost_of_direct, .record = gemm_direct,
     .parameters = {8}},
    {"image", takes_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image},
    {"image 2", takes_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image,
     .parameters = {2}},
    {"image 4", takes_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image,
     .parameters = {4}},
    {"image 8", takes_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image,
     .parameters = {8}},
    {"mma", takes_mma, .cost = 3, .cost_of = cost_of_mma, .record = gemm_mma},
    {"mma 64", takes_mma, .cost = 3, .cost_of = cost_of_mma, .record = gemm_mma,
     .parameters = {64}},
    {"mma 128", takes_mma, .cost = 3, .cost_of = cost_of_mma, .record = gemm_mma,
     .parameters = {128}},
    {"row lanes", takes_few, .cost = 2, .record = gemm_row_lanes},
    {"row lanes 16", takes_few, .cost = 2, .record = gemm_row_lanes, .parameters = {16}},
    {"row lanes 64", takes_few, .cost = 2, .record = gemm_row_lanes, .parameters = {64}},
    {"column lanes", takes_few, .cost = 2, .record = gemm_column_lanes},
    {"column lanes 4", takes_few, .cost = 2, .record = gemm_column_lanes, .parameters = {4}},
    {"column lanes 16", takes_few, .cost = 2, .record = gemm_column_lanes, .parameters = {16}}};

clave_status gemm_record(const gemm *g) {
  gemm chosen = *g;
  if (gemm_is_encoded(g)) return gemm_encoded(g);
  if (g->codes) return gemm_packed(g);
  if (!g->grouped) TRY(gemm_choose_mma(&chosen));
  const tuning_key k = gemm_key(g);
  const variants all = {.family = "matmul",
                        .rows = gemm_variants,
                        .n = sizeof gemm_variants / sizeof *gemm_variants,
                        .problem = &chosen};
  const kernel_variant *variant =
      g->grouped ? variant_by_cost(&all) : recorder_choose(g->s, &all, &k);
  chosen.each = variant->parameters[0];
  return variant->record(&chosen);
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
  if (!gemm_is_encoded(g) && (!few || !for_few_rows(g))) return gemm_tile_rows(g);
  while (rows < mean && rows < FEW_ROWS) rows *= 2;
  return rows;
}

/* parameters: rows of a tile. What multiplies few rows takes any number of them. */
static bool takes_any_rows(const void *product, const kernel_variant *variant) {
  (void)variant;
  return gemm_is_encoded(product) || for_few_rows(product);
}

static const kernel_variant rows_variants[] = {{.name = "rule"},
                                               {"1", takes_any_rows, .parameters = {1}},
                                               {"2", takes_any_rows, .parameters = {2}},
                                               {"4", takes_any_rows, .parameters = {4}},
                                               {"8", takes_any_rows, .parameters = {8}}};

static int64_t tile_rows(const gemm *g, const grouped_matmul_form *f) {
  tuning_key k = gemm_key(g);
  tuning_key_int(&k, "rows", f->rows);
  tuning_key_int(&k, "groups", f->groups);
  const variants all = {.family = "grouped matmul rows",
                        .rows = rows_variants,
                        .n = sizeof rows_variants / sizeof *rows_variants,
                        .problem = g};
  const int64_t rows = recorder_choose(g->s, &all, &k)->parameters[0];
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
