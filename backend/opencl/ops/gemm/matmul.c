/* Matmul: the table of GEMM implementations (gemm.h), and grouped products. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "opencl_ops.h"

/* Most rows of a for which reading b once in place is faster than packing it. */
enum { FEW_ROWS = 8 };
/* Multiply-adds from which CLBlast is faster than our tiles on integrated GPUs; below, its set-up
 * costs more. On an H100 our tiles are faster, by 1.1 with 4096 on a side, and few tiles are split
 * in parts. On CPUs CLBlast is never faster: it reaches 15-22 GFLOP/s on 2 Zen 4 cores, after 6 s
 * of compiling, and our packed kernel 200. */
static const double clblast_from = 1 << 21;
enum { CLBLAST_SIDE = 64, CLBLAST_GROUP = 256 }; /* work-items of its largest groups */

static bool clblast_is_better(const gemm *gemm) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  if (!traits->is_gpu || traits->max_local < CLBLAST_GROUP) return false;
  if (!traits->shares_host_memory && gemm_local_is_better(gemm)) return false;
  if (gemm->desc.m < CLBLAST_SIDE || gemm->desc.n < CLBLAST_SIDE) return false;
  return (double)gemm->desc.m * (double)gemm->desc.n * (double)gemm->desc.k >= clblast_from &&
         gemm_clblast_usable(gemm);
}

typedef clave_status (*gemm_function)(const void *product);

/* Returns the implementation for few rows of these dtypes and strides, or NULL if there is none. */
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

static bool takes_few(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  return gemm->desc.m <= FEW_ROWS && for_few_rows(gemm) == variant->record;
}

static bool takes_few_columns(const void *product, const kernel_variant *variant) {
  return takes_few(product, variant) && gemm_columns_takes(product, variant->parameters[0]);
}

static bool is_float_product(const gemm *gemm) {
  return gemm_is_small_float(gemm->desc.out->tensor.type) && gemm->desc.k > 0;
}

/* True if kernels for many rows may be used; they do not support grouped products. */
static bool is_in_one_piece(const gemm *gemm) { return is_float_product(gemm) && !gemm->grouped; }

static bool opencl_matmul_takes_packed(const void *product, const kernel_variant *variant) {
  const int64_t columns = variant->parameters[0];
  return is_in_one_piece(product) && gemm_packed_usable(product) &&
         (!columns || gemm_packed_takes(product, columns));
}

static bool opencl_matmul_takes_panels(const void *product, const kernel_variant *variant) {
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

static bool opencl_matmul_takes_direct(const void *product, const kernel_variant *variant) {
  (void)variant;
  return is_in_one_piece(product) && gemm_direct_usable(product);
}

static double opencl_matmul_cost_of_direct(const void *product, const kernel_variant *variant) {
  return recorder_traits(((const gemm *)product)->recorder)->shares_badly ? variant->cost
                                                                          : ON_REQUEST;
}

static bool takes_image(const void *product, const kernel_variant *variant) {
  (void)variant;
  return is_in_one_piece(product) && gemm_image_usable(product);
}

static double cost_of_image(const void *product, const kernel_variant *variant) {
  return recorder_traits(((const gemm *)product)->recorder)->reads_images ? variant->cost
                                                                          : ON_REQUEST;
}

static bool takes_mma(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  const int64_t tile = variant->parameters[0];
  return is_in_one_piece(gemm) && gemm->mma != MMA_NONE && (!tile || gemm_mma_takes(gemm, tile));
}

static double cost_of_mma(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  return gemm->mma == MMA_PTX && gemm_local_is_better(gemm) ? variant->cost : ON_REQUEST;
}

static bool takes_clblast(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  (void)variant;
  return is_in_one_piece(gemm) && recorder_traits(gemm->recorder)->max_local >= CLBLAST_GROUP &&
         gemm->desc.m > FEW_ROWS && gemm->desc.n > FEW_ROWS && gemm_clblast_usable(gemm);
}

static double cost_of_clblast(const void *product, const kernel_variant *variant) {
  return clblast_is_better(product) ? variant->cost : ON_REQUEST;
}

/* ---------------------------------------------------------------- the table */

/* parameters: columns, panels or another size that splits n, or the side of tiles; 0 means by rule.
 * Costs are ordered by measurement (docs/notebook/2026-11-26-products.md). */
static const kernel_variant gemm_variants[] = {
    {"tile", .cost = 9, .record = gemm_tile},
    {"packed", opencl_matmul_takes_packed, .cost = 5, .record = gemm_packed},
    {"packed 32", opencl_matmul_takes_packed, .cost = 5, .record = gemm_packed, .parameters = {32}},
    {"packed 64", opencl_matmul_takes_packed, .cost = 5, .record = gemm_packed, .parameters = {64}},
    {"packed 256", opencl_matmul_takes_packed, .cost = 5, .record = gemm_packed,
     .parameters = {256}},
    {"panels", opencl_matmul_takes_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels},
    {"panels 4", opencl_matmul_takes_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels, .parameters = {4}},
    {"panels 8", opencl_matmul_takes_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels, .parameters = {8}},
    {"panels 16", opencl_matmul_takes_panels, .cost = 1, .cost_of = cost_of_panels,
     .record = gemm_panels, .parameters = {16}},
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
    {"direct", opencl_matmul_takes_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct},
    {"direct 2", opencl_matmul_takes_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct, .parameters = {2}},
    {"direct 4", opencl_matmul_takes_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct, .parameters = {4}},
    {"direct 8", opencl_matmul_takes_direct, .cost = 7, .cost_of = opencl_matmul_cost_of_direct,
     .record = gemm_direct, .parameters = {8}},
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

/* Returns the rows per tile, chosen by the mean group size. A CPU multiplies more rows in turns,
 * which is also faster than tiles of columns; so do all devices if b is encoded. */
static int64_t choose_tile_rows(const gemm *gemm, const grouped_matmul_desc *desc) {
  int64_t mean = ceil_div(desc->rows, max_i64(desc->groups, 1)), rows = 1;
  bool few = mean <= FEW_ROWS || recorder_traits(gemm->recorder)->is_cpu;
  if (!gemm_is_encoded(gemm) && (!few || !for_few_rows(gemm))) return gemm_tile_rows(gemm);
  while (rows < mean && rows < FEW_ROWS) rows *= 2;
  return rows;
}

/* parameters: rows per tile. The kernels for few rows support any number. */
static bool takes_any_rows(const void *product, const kernel_variant *variant) {
  (void)variant;
  return gemm_is_encoded(product) || for_few_rows(product);
}

static const kernel_variant rows_variants[] = {{.name = "rule"},
                                               {"1", takes_any_rows, .parameters = {1}},
                                               {"2", takes_any_rows, .parameters = {2}},
                                               {"4", takes_any_rows, .parameters = {4}},
                                               {"8", takes_any_rows, .parameters = {8}}};

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
                                           .end_step = desc->ends->tensor.strides[0],
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
