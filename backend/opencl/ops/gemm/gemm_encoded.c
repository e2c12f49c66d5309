/* Products with an encoded b. Few rows of a are read in place. More rows use the kernels of gemm.cl
 * and matmul_encoded.cl, which decode b on the fly. */
#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm_codes.h"
#include "backend/opencl/ops/gemm/gemm_dots.h"

/* Same values as in kernels_cl/gemm/gemv_encoded.cl. */
enum { GROUP = 64, MAX_ROWS = 8 };

/* Returns the rows that a work-item multiplies; a GPU's registers cannot hold the sums of 8. */
static int gemm_encoded_rows_at_once(const gemm *gemm) {
  int rows = 1, most = recorder_traits(gemm->recorder)->is_cpu ? MAX_ROWS : MAX_ROWS / 2;
  while (rows < most && rows < gemm->desc.m) rows *= 2;
  return rows;
}

/* Returns the work-items of a GPU that share a row of b: 4, or more if each gets two parts. */
static int gemm_encoded_lanes_of(const gemm *gemm) {
  int64_t parts = ceil_div(gemm->desc.k, DECODED_AT_ONCE);
  int lanes = 4;
  while (lanes < GROUP && 4 * lanes <= parts) lanes *= 2;
  return lanes;
}

/* Multiplies many rows on GPUs. */
static clave_status gemm_encoded_multiply_tiles(const void *product) {
  const gemm *gemm = product;
  enum { BLOCK_M = 4, BLOCK_N = 8, SIDE = 8 }; /* as in kernels_cl/gemm/matmul_encoded.cl */
  launch launch;
  gemm_begin(&launch, gemm);
  launch_args(&launch, &(matmul_encoded_args){.gemm = gemm_operands(gemm),
                                              .encoded = encoded_operand(gemm->desc.b)});
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, BLOCK_N),
                      (size_t)ceil_div(gemm->desc.m, BLOCK_M), (size_t)gemm->desc.batches},
         local[3] = {SIDE, SIDE, 1};
  return launch_run(&launch, 3, global, local);
}

static clave_status gemm_encoded_multiply_few(const void *product) {
  const gemm *gemm = product;
  bool is_cpu = recorder_traits(gemm->recorder)->is_cpu;
  int rows = gemm_encoded_rows_at_once(gemm), lanes = gemm_encoded_lanes_of(gemm);
  int64_t wanted = 4 * (int64_t)recorder_traits(gemm->recorder)->compute_units,
          each = is_cpu ? max_i64(1, min_i64(64, gemm->desc.n * gemm->desc.batches / wanted)) : 1;
  launch launch;
  gemm_begin(&launch, gemm);
  launch_define(&launch, "A_ORDER", gemm->desc.a_k == 1);
  launch_define(&launch, "WHOLE", gemm->desc.k % DECODED_AT_ONCE == 0);
  launch_define(&launch, "M", rows);
  if (!is_cpu) launch_define(&launch, "LANES", lanes);
  launch_args(&launch,
              &(gemv_encoded_args){
                  .gemm = gemm_operands(gemm),
                  .encoded = encoded_operand(gemm->desc.b),
                  .each = each,
                  .scratch = local_arg(sizeof(float) * (is_cpu ? 1 : (size_t)rows * GROUP))});
  launch_epilogue(&launch);
  size_t items = is_cpu ? (size_t)ceil_div(gemm->desc.n, each)
                        : (size_t)ceil_div(gemm->desc.n, GROUP / lanes) * GROUP;
  size_t global[3] = {items, (size_t)ceil_div(gemm->desc.m, rows), (size_t)gemm->desc.batches},
         local[3] = {is_cpu ? 1 : GROUP, 1, 1};
  return launch_run(&launch, 3, global, local);
}

/* ---------------------------------------------------------------- the choice */

static bool gemm_encoded_accepts_dots(const void *product, const kernel_variant *variant) {
  code_panels panels;
  (void)variant;
  return gemm_dots_usable(product, &panels);
}

static bool accepts_codes(const void *product, const kernel_variant *variant) {
  enum { MAX_CODES = 64 }; /* maximum number of rows of a whose sums fit in local memory */
  const gemm *gemm = product;
  code_panels panels;
  (void)variant;
  return gemm->desc.m <= MAX_CODES && gemm_codes_usable(gemm, &panels);
}

static double cost_of_codes(const void *product, const kernel_variant *variant) {
  return gemm_codes_few(product) ? variant->cost : ON_REQUEST;
}

static bool gemm_encoded_accepts_packed(const void *product, const kernel_variant *variant) {
  (void)variant;
  return gemm_packed_usable(product);
}

static bool gemm_encoded_has_few_rows(const gemm *gemm) {
  return gemm->desc.m <= MAX_ROWS || gemm->desc.k == 0;
}

/* Without panels of codes, gemm_packed decodes b in each run, which needs many rows to pay off. */
static double cost_of_packed(const void *product, const kernel_variant *variant) {
  code_panels panels;
  return gemm_codes_usable(product, &panels) || !gemm_encoded_has_few_rows(product) ? variant->cost
                                                                                    : ON_REQUEST;
}

static bool gemm_encoded_accepts_tiles(const void *product, const kernel_variant *variant) {
  const gemm *gemm = product;
  (void)variant;
  return !recorder_traits(gemm->recorder)->is_cpu && gemm->desc.k > 0;
}

static double cost_of_tiles(const void *product, const kernel_variant *variant) {
  return gemm_encoded_has_few_rows(product) ? ON_REQUEST : variant->cost;
}

static clave_status record_dots(const void *product) {
  code_panels panels;
  (void)gemm_dots_usable(product, &panels);
  return gemm_dots(product, &panels);
}

static clave_status record_codes(const void *product) {
  code_panels panels;
  (void)gemm_codes_usable(product, &panels);
  return gemm_codes_rows(product, &panels);
}

static const kernel_variant encoded_variants[] = {
    {"dots", gemm_encoded_accepts_dots, .record = record_dots},
    {"codes", accepts_codes, .cost = 1, .cost_of = cost_of_codes, .record = record_codes},
    {"packed", gemm_encoded_accepts_packed, .cost = 2, .cost_of = cost_of_packed,
     .record = gemm_packed},
    {"few", .cost = 4, .record = gemm_encoded_multiply_few},
    {"tiles", gemm_encoded_accepts_tiles, .cost = 3, .cost_of = cost_of_tiles,
     .record = gemm_encoded_multiply_tiles}};

/* Grouped products that cannot use dots use the kernel for few rows, which reads rows in place. */
clave_status gemm_encoded(const void *product) {
  const gemm *gemm = product;
  if (gemm->grouped)
    return gemm_encoded_accepts_dots(gemm, NULL) ? record_dots(gemm)
                                                 : gemm_encoded_multiply_few(gemm);
  tuning_key key = gemm_key(gemm);
  tuning_key_encoding(&key, "encoding", &gemm->desc.b->tensor.encoding);
  const variants all = {.family = "encoded matmul",
                        .rows = encoded_variants,
                        .n = sizeof encoded_variants / sizeof *encoded_variants,
                        .problem = gemm};
  return recorder_choose(gemm->recorder, &all, &key)->record(gemm);
}
