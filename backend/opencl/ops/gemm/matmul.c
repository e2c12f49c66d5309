/* Matmul: the table of GEMM implementations (gemm.h), and grouped products. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "opencl_ops.h"

/* Maximum rows of a for which reading b once in place is faster than packing it. */
enum { FEW_ROWS = 8 };
enum { CLBLAST_GROUP = 256 }; /* work-items of CLBlast's largest groups */

typedef clave_status (*gemm_function)(const void *product);

/* Returns the implementation for few rows of these dtypes and strides, or NULL. */
static gemm_function for_few_rows(const gemm *gemm) {
  bool is_cpu = recorder_traits(gemm->recorder)->is_cpu;
  if (!gemm_is_small_float(gemm->desc.out->tensor.type) || gemm->desc.k == 0) return NULL;
  if (!is_cpu && !(gemm_is_small_float(gemm->desc.a->tensor.type) &&
                   gemm_is_small_float(gemm->desc.b->tensor.type)))
    return NULL;
  if (gemm->desc.b_k == 1 && (gemm->desc.a_k == 1 || gemm->desc.k == 1))
    return is_cpu ? gemm_rows : gemm_row_lanes;
  if (gemm->desc.b_n != 1 && gemm->desc.n != 1) return NULL;
  return is_cpu ? gemm_columns : gemm_column_lanes;
}

/* ---------------------------------------------------------------- usability and cost of rows */

static bool accepts_few(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  return gemm->desc.m <= FEW_ROWS && for_few_rows(gemm) == variant->record;
}

static bool accepts_few_columns(const void *product, const kernel_variant *variant) {
  return accepts_few(product, variant) && gemm_columns_accepts(product, variant->parameters[0]);
}

static bool is_float_product(const gemm *gemm) {
  return gemm_is_small_float(gemm->desc.out->tensor.type) && gemm->desc.k > 0;
}

/* True if kernels for many rows may be used; they do not support grouped products. */
static bool is_in_one_piece(const gemm *gemm) { return is_float_product(gemm) && !gemm->grouped; }

static bool opencl_matmul_accepts_packed(const void *product, const kernel_variant *variant) {
  const int64_t columns = variant->parameters[0];
  return is_in_one_piece(product) && gemm_packed_usable(product) &&
         (!columns || gemm_packed_accepts(product, columns));
}

static bool opencl_matmul_accepts_panels(const void *product, const kernel_variant *variant) {
  return is_float_product(product) && gemm_panels_usable(product) &&
         gemm_panels_accepts(product, variant->parameters[0]);
}

static double cost_of_panels(const void *product, const kernel_variant *variant) {
  return gemm_panels_few(product) ? variant->cost : ON_REQUEST;
}

static bool accepts_local(const void *product, const kernel_variant *variant) {
  const int64_t tile = variant->parameters[0];
  return is_in_one_piece(product) && gemm_local_usable(product) &&
         (!tile || gemm_local_accepts(product, tile));
}

static double cost_of_local(const void *product, const kernel_variant *variant) {
  return gemm_local_is_better(product) ? variant->cost : ON_REQUEST;
}

static bool opencl_matmul_accepts_direct(const void *product, const kernel_variant *variant) {
  (void)variant;
  return is_in_one_piece(product) && gemm_direct_usable(product);
}

static double opencl_matmul_cost_of_direct(const void *product, const kernel_variant *variant) {
  return recorder_traits(((const gemm *)product)->recorder)->shares_badly ? variant->cost
                                                                          : ON_REQUEST;
}

static bool accepts_image(const void *product, const kernel_variant *variant) {
  (void)variant;
  return is_in_one_piece(product) && gemm_image_usable(product);
}

static double cost_of_image(const void *product, const kernel_variant *variant) {
  return recorder_traits(((const gemm *)product)->recorder)->reads_images ? variant->cost
                                                                          : ON_REQUEST;
}

static bool accepts_mma(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  const int64_t tile = variant->parameters[0];
  return is_in_one_piece(gemm) && gemm->mma.kind != MMA_NONE &&
         (!tile || gemm_mma_accepts(gemm, tile));
}

static double cost_of_mma(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  return !gemm->mma.emulated && gemm_local_is_better(gemm) ? variant->cost : ON_REQUEST;
}

static bool accepts_clblast(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  (void)variant;
  return is_in_one_piece(gemm) && recorder_traits(gemm->recorder)->max_local >= CLBLAST_GROUP &&
         gemm->desc.m > FEW_ROWS && gemm->desc.n > FEW_ROWS && gemm_clblast_usable(gemm);
}

/* ---------------------------------------------------------------- the table */

/* CLBlast is chosen only where it was measured to be faster. It is tuned for some devices only, it
 * packs and transposes operands in separate launches (six for a product), and it compiles for
 * seconds. On an H100, clave's tiles are 1.1 times as fast for a product of 4096 x 4096 matrices.
 *
 * parameters: columns, panels or another size that divides n, or the side of tiles; 0: chosen by
 * rule. Costs are ordered by measurement (docs/notebook/2026-11-26-products.md). */
static const kernel_variant gemm_variants[] = {
    {"tile", .cost = 9, .record = gemm_tile},
    {"packed", opencl_matmul_accepts_packed, .cost = 5, .record = gemm_packed},
    {"packed 32", opencl_matmul_accepts_packed, .cost = 5, .record = gemm_packed,
     .parameters = {32}},
    {"packed 64", opencl_matmul_accepts_packed, .cost = 5, .record = gemm_packed,
     .parameters = {64}},
    {"packed 256", opencl_matmul_accepts_packed, .cost = 5, .record = gemm_packed,
     .parameters = {256}},
    {"panels", opencl_matmul_accepts_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels},
    {"panels 4", opencl_matmul_accepts_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels, .parameters = {4}},
    {"panels 8", opencl_matmul_accepts_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels, .parameters = {8}},
    {"panels 16", opencl_matmul_accepts_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels, .parameters = {16}},
    {"rows", accepts_few, .cost = 2, .record = gemm_rows},
    {"rows 4", accepts_few, .cost = 2, .record = gemm_rows, .parameters = {4}},
    {"rows 16", accepts_few, .cost = 2, .record = gemm_rows, .parameters = {16}},
    {"rows 64", accepts_few, .cost = 2, .record = gemm_rows, .parameters = {64}},
    {"columns", accepts_few, .cost = 2, .record = gemm_columns},
    {"columns 64", accepts_few_columns, .cost = 2, .record = gemm_columns, .parameters = {64}},
    {"columns 256", accepts_few_columns, .cost = 2, .record = gemm_columns, .parameters = {256}},
    {"columns 1024", accepts_few_columns, .cost = 2, .record = gemm_columns, .parameters = {1024}},
    {"clblast", accepts_clblast, .cost = ON_REQUEST, .record = gemm_clblast},
    {"local", accepts_local, .cost = 8, .cost_of = cost_of_local, .record = gemm_local},
    {"local 64", accepts_local, .cost = 8, .cost_of = cost_of_local, .record = gemm_local,
     .parameters = {64}},
    {"local 128", accepts_local, .cost = 8, .cost_of = cost_of_local, .record = gemm_local,
     .parameters = {128}},
    {"direct", opencl_matmul_accepts_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct},
    {"direct 2", opencl_matmul_accepts_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct, .parameters = {2}},
    {"direct 4", opencl_matmul_accepts_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct, .parameters = {4}},
    {"direct 8", opencl_matmul_accepts_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct, .parameters = {8}},
    {"image", accepts_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image},
    {"image 2", accepts_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image,
     .parameters = {2}},
    {"image 4", accepts_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image,
     .parameters = {4}},
    {"image 8", accepts_image, .cost = 6, .cost_of = cost_of_image, .record = gemm_image,
     .parameters = {8}},
    {"mma", accepts_mma, .cost = 3, .cost_of = cost_of_mma, .record = gemm_mma},
    {"mma 64", accepts_mma, .cost = 3, .cost_of = cost_of_mma, .record = gemm_mma,
     .parameters = {64}},
    {"mma 128", accepts_mma, .cost = 3, .cost_of = cost_of_mma, .record = gemm_mma,
     .parameters = {128}},
    {"row lanes", accepts_few, .cost = 2, .record = gemm_row_lanes},
    {"row lanes 16", accepts_few, .cost = 2, .record = gemm_row_lanes, .parameters = {16}},
    {"row lanes 64", accepts_few, .cost = 2, .record = gemm_row_lanes, .parameters = {64}},
    {"column lanes", accepts_few, .cost = 2, .record = gemm_column_lanes},
    {"column lanes 4", accepts_few, .cost = 2, .record = gemm_column_lanes, .parameters = {4}},
    {"column lanes 16", accepts_few, .cost = 2, .record = gemm_column_lanes, .parameters = {16}}};

clave_status gemm_record(const gemm *product) {
  gemm chosen = *product;
  if (gemm_is_encoded(product)) return gemm_encoded(product);
  if (product->codes) return gemm_packed(product);
  if (!product->grouped) TRY(gemm_choose_mma(&chosen));
  const tuning_key key = gemm_key(product);
  const variants all = {.family = "matmul",
                        .rows = gemm_variants,
                        .n = sizeof gemm_variants / sizeof *gemm_variants,
                        .problem = &chosen};
  const kernel_variant *variant =
      product->grouped ? variant_by_cost(&all) : recorder_choose(product->recorder, &all, &key);
  chosen.each = variant->parameters[0];
  return variant->record(&chosen);
}

clave_status opencl_matmul(cl_recorder *recorder, const node *node) {
  gemm gemm = {.recorder = recorder, .node = node};
  describe_matmul(node, &gemm.desc);
  return gemm_record(&gemm);
}

/* ---------------------------------------------------------------- grouped products */

/* Returns the product whose batches are tiles of rows, before their number is known. */
static gemm begin_grouped(cl_recorder *recorder, const node *node,
                          const grouped_matmul_desc *desc) {
  const tensor *tensor = &desc->a->tensor;
  gemm gemm = {.recorder = recorder, .node = node, .grouped = true};
  gemm.desc = (matmul_desc){
      .a = desc->a, .b = desc->b, .out = desc->out, .n = desc->n, .k = desc->k, .alpha = 1};
  gemm.desc.a_m = tensor->strides[0];
  gemm.desc.a_k = tensor->strides[1];
  gemm.desc.b_k = desc->b_k;
  gemm.desc.b_n = desc->b_n;
  gemm.desc.batch_b = take_dims(&desc->b->tensor, 0, 1);
  return gemm;
}

/* Returns the rows per tile, chosen by the mean group size. A CPU, and any device if b is encoded,
 * multiplies further rows in turns, which is faster than tiles of columns, too. */
static int64_t choose_tile_rows(const gemm *gemm, const grouped_matmul_desc *desc) {
  int64_t mean = ceil_div(desc->rows, max_i64(desc->groups, 1)), rows = 1;
  bool few = mean <= FEW_ROWS || recorder_traits(gemm->recorder)->is_cpu;
  if (!gemm_is_encoded(gemm) && (!few || !for_few_rows(gemm))) return gemm_tile_rows(gemm);
  while (rows < mean && rows < FEW_ROWS) rows *= 2;
  return rows;
}

/* parameters: rows per tile. The kernels for few rows support any number. */
static bool accepts_any_rows(const void *product, const kernel_variant *variant) {
  (void)variant;
  return gemm_is_encoded(product) || for_few_rows(product);
}

static const kernel_variant rows_variants[] = {{.name = "rule"},
                                               {"1", accepts_any_rows, .parameters = {1}},
                                               {"2", accepts_any_rows, .parameters = {2}},
                                               {"4", accepts_any_rows, .parameters = {4}},
                                               {"8", accepts_any_rows, .parameters = {8}}};

static int64_t opencl_matmul_tile_rows(const gemm *gemm, const grouped_matmul_desc *desc) {
  tuning_key key = gemm_key(gemm);
  tuning_key_int(&key, "rows", desc->rows);
  tuning_key_int(&key, "groups", desc->groups);
  const variants all = {.family = "grouped matmul rows",
                        .rows = rows_variants,
                        .n = sizeof rows_variants / sizeof *rows_variants,
                        .problem = gemm};
  const int64_t rows = recorder_choose(gemm->recorder, &all, &key)->parameters[0];
  return rows ? rows : choose_tile_rows(gemm, desc);
}

/* Returns an upper bound on the number of tiles, since each group begins a new tile. */
static int64_t opencl_matmul_count_tiles(const grouped_matmul_desc *desc, int64_t tile_rows) {
  return min_i64(desc->rows, (desc->rows + (desc->groups + 1) * (tile_rows - 1)) / tile_rows);
}

static clave_status launch_tiles(const gemm *gemm, const grouped_matmul_desc *desc) {
  TRY(recorder_scratch(gemm->recorder, (size_t)gemm->desc.batches * 3 * sizeof(cl_long)));
  launch launch;
  launch_begin(&launch, gemm->recorder, gemm->node);
  launch_dtype(&launch, "INDEX_TYPE", desc->ends->tensor.type);
  launch_args(&launch, &(group_tiles_args){.ends = buffer_arg(desc->ends),
                                           .tiles = scratch_arg(0),
                                           .n_tiles = gemm->desc.batches,
                                           .groups = desc->groups,
                                           .end_stride = desc->ends->tensor.strides[0],
                                           .rows = desc->rows,
                                           .tile_rows = gemm->desc.m});
  return launch_items(&launch, gemm->desc.batches);
}

clave_status opencl_grouped_matmul(cl_recorder *recorder, const node *node) {
  grouped_matmul_desc desc;
  describe_grouped_matmul(node, &desc);
  if (desc.rows * desc.n == 0) return NULL;
  gemm gemm = begin_grouped(recorder, node, &desc);
  gemm.desc.m = opencl_matmul_tile_rows(&gemm, &desc);
  gemm.desc.batches = opencl_matmul_count_tiles(&desc, gemm.desc.m);
  TRY(launch_tiles(&gemm, &desc));
  return gemm_record(&gemm);
}
