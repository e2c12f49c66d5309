/* Products with a constant b on a CPU. b is packed once, in panels of columns that products with
 * any number of rows read. Few rows of a are read in place. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

enum {
  FEW_ROWS = 32,     /* maximum rows of a to read in place; with more rows, a is packed, too */
  PACK_DEPTH = 256,  /* elements of k of a panel that one work-item packs */
  CACHED_DEPTH = 256 /* elements of k of a panel that stay in the first-level cache */
};

static int width_of(const gemm *gemm) { return (int)recorder_traits(gemm->recorder)->vector_width; }
int64_t gemm_panel_columns(const cl_recorder *recorder) {
  return 2 * recorder_traits(recorder)->vector_width;
}
static int gemm_panels_columns_of(const gemm *gemm) {
  return (int)gemm_panel_columns(gemm->recorder);
}
static int64_t gemm_panels_count(const gemm *gemm) {
  return ceil_div(gemm->desc.n, gemm_panels_columns_of(gemm));
}
/* Returns the maximum number of panels that a work-item reads at once, as separate streams. The
 * packed weight is padded to a multiple of this number. */
static int64_t gemm_panels_most_at_once(const gemm *gemm) {
  return gemm_panels_count(gemm) >= 4 ? 4 : gemm_panels_count(gemm) >= 2 ? 2 : 1;
}
static int64_t padded_panels(const gemm *gemm) {
  return ceil_div(gemm_panels_count(gemm), gemm_panels_most_at_once(gemm)) *
         gemm_panels_most_at_once(gemm);
}

bool gemm_has_one_b(const gemm *gemm) {
  for (int i = 0; i < gemm->desc.batch_b.rank; i++)
    if (gemm->desc.batch_b.dims[i] > 1 && gemm->desc.batch_b.strides[i] != 0) return false;
  return true;
}

bool gemm_panels_usable(const gemm *gemm) {
  return recorder_traits(gemm->recorder)->is_cpu && !gemm->grouped && !gemm_is_encoded(gemm) &&
         gemm->desc.k > 0 && gemm_has_one_b(gemm) &&
         recorder_may_pack(gemm->recorder, gemm->desc.b);
}

bool gemm_panels_few(const gemm *gemm) { return gemm->desc.m <= FEW_ROWS; }

static clave_status gemm_panels_pack_b(cl_recorder *recorder, const gemm *gemm) {
  launch launch;
  launch_begin(&launch, recorder, gemm->node);
  launch_dtype(&launch, "B_TYPE", moved_type(gemm->desc.b->tensor.type));
  launch_define(&launch, "WIDTH", width_of(gemm));
  launch_define(&launch, "B_ORDER", gemm->desc.b_k == 1);
  launch_args(&launch, &(gemm_panels_pack_args){.b = buffer_arg(gemm->desc.b),
                                                .b_k = gemm->desc.b_k,
                                                .b_n = gemm->desc.b_n,
                                                .packed = scratch_arg(0),
                                                .n_size = gemm->desc.n,
                                                .k_size = gemm->desc.k,
                                                .depth = PACK_DEPTH});
  size_t global[2] = {(size_t)padded_panels(gemm), (size_t)ceil_div(gemm->desc.k, PACK_DEPTH)},
         local[2] = {1, 1};
  return launch_run(&launch, 2, global, local);
}

clave_status gemm_b_panels(const gemm *gemm, arg_buffer *panels) {
  const pack_request request = {
      .x = gemm->desc.b,
      .kind = PACKED_GEMM_B,
      .size = {gemm_panels_columns_of(gemm), gemm->desc.n,
               gemm->desc.b_n}, /* distinguishes a square matrix from its transpose */
      .bytes = dtype_size(gemm->desc.b->tensor.type) *
               (size_t)(padded_panels(gemm) * gemm_panels_columns_of(gemm) * gemm->desc.k)};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(gemm->recorder, &request, &number, &pack));
  TRY(gemm_panels_pack_b(pack, gemm));
  *panels = packed_arg(number);
  return NULL;
}

/* Returns how many rows are multiplied at once. Each row uses two of the 32 registers for sums, or
 * of 16 on CPUs with shorter vectors. */
static int gemm_panels_rows_at_once(const gemm *gemm) {
  int most = width_of(gemm) == 16 ? 8 : 4, rows = 1;
  while (rows < most && rows < gemm->desc.m) rows *= 2;
  return rows;
}

/* Returns how many panels are multiplied at once, so that all sums use eight registers. */
static int64_t panels_at_once(const gemm *gemm) {
  return min_i64(gemm_panels_rows_at_once(gemm) >= 4 ? 1 : 4 / gemm_panels_rows_at_once(gemm),
                 gemm_panels_most_at_once(gemm));
}

/* The share of a work-item of gemm_panels. */
typedef struct share {
  int64_t rows; /* rounded up to a multiple of gemm_panels_rows_at_once */
  int64_t each; /* panels */
  int64_t depth;
  size_t floats; /* floats of local memory */
} share;

/* Maximum floats of sums, and of rows of a: 16 KB each. */
enum { FLOATS = 4096 };

/* Returns the panels per work-item whose sums fit. */
static int64_t max_panels(const gemm *gemm) {
  int64_t rows =
      ceil_div(gemm->desc.m, gemm_panels_rows_at_once(gemm)) * gemm_panels_rows_at_once(gemm);
  return FLOATS / (rows * gemm_panels_columns_of(gemm));
}

bool gemm_panels_accepts(const gemm *gemm, int64_t panels) {
  return max_i64(panels, 1) <= max_panels(gemm) && panels % panels_at_once(gemm) == 0 &&
         panels <= gemm_panels_count(gemm);
}

/* Returns a share small enough that each core has several work-items. */
static share gemm_panels_share_work(const gemm *gemm) {
  int64_t at_once = gemm_panels_rows_at_once(gemm), unit = panels_at_once(gemm);
  bool copies = gemm->desc.a->tensor.type != DTYPE_F32;
  share share = {.rows = ceil_div(gemm->desc.m, at_once) * at_once, .depth = gemm->desc.k};
  int64_t wanted = 4 * (int64_t)recorder_traits(gemm->recorder)->compute_units,
          each = gemm->each ? gemm->each : gemm_panels_count(gemm) * gemm->desc.batches / wanted;
  share.each = max_i64(1, min_i64(max_panels(gemm), each) / unit) * unit;
  if (gemm->desc.m > at_once) share.depth = CACHED_DEPTH;
  if (copies) share.depth = min_i64(share.depth, FLOATS / share.rows);
  share.floats = (size_t)(share.each * share.rows * gemm_panels_columns_of(gemm) +
                          (copies ? share.rows * share.depth : 0));
  return share;
}

clave_status gemm_panels(const void *product) {
  const gemm *gemm = product;
  share share = gemm_panels_share_work(gemm);
  arg_buffer buffer;
  TRY(gemm_b_panels(gemm, &buffer));
  launch launch;
  gemm_begin_a(&launch, gemm);
  launch_dtype(&launch, "B_TYPE", gemm->desc.b->tensor.type);
  launch_define(&launch, "WIDTH", width_of(gemm));
  launch_define(&launch, "A_ORDER", gemm->desc.a_k == 1);
  launch_define(&launch, "M", gemm_panels_rows_at_once(gemm));
  launch_define(&launch, "P", (int)panels_at_once(gemm));
  launch_args(&launch, &(gemm_panels_args){.gemm = gemm_operands(gemm),
                                           .b = buffer,
                                           .padded = share.rows,
                                           .each = share.each,
                                           .depth = share.depth,
                                           .scratch = local_arg(sizeof(float) * share.floats)});
  launch_epilogue(&launch);
  size_t global[2] = {(size_t)ceil_div(gemm_panels_count(gemm), share.each),
                      (size_t)gemm->desc.batches},
         local[2] = {1, 1};
  return launch_run(&launch, 2, global, local);
}
