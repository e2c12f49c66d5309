/* Products with a constant b on GPUs, without local memory. b is packed once in texels of 16 bytes,
 * which kernels read from a buffer or an image. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

/* Same values as in kernels_cl/gemm/gemm_direct.cl. */
enum { DEPTH = 4, SIDE = 8 };

static int64_t gemm_direct_columns_of(const gemm *gemm) {
  const dtype type = gemm->halves ? DTYPE_F16 : gemm->desc.b->tensor.type;
  return TEXEL_BYTES / (int64_t)dtype_size(type);
}
static int64_t row_texels(const gemm *gemm) {
  return ceil_div(gemm->desc.n, gemm_direct_columns_of(gemm));
}
static int64_t gemm_direct_count_texels(const gemm *gemm) {
  return row_texels(gemm) * ceil_div(gemm->desc.k, DEPTH) * DEPTH;
}
/* Returns the larger number of texels of the two ways to pack b. */
static int64_t max_texels(const gemm *gemm) {
  return max_i64(gemm_direct_count_texels(gemm), gemm_halves_texels(gemm));
}

bool gemm_direct_usable(const gemm *gemm) {
  return !recorder_traits(gemm->recorder)->is_cpu && !gemm->grouped && !gemm_is_encoded(gemm) &&
         gemm->desc.k > 0 && gemm_is_small_float(gemm->desc.a->tensor.type) &&
         gemm_is_small_float(gemm->desc.b->tensor.type) &&
         gemm_is_small_float(gemm->desc.out->tensor.type) && gemm_has_one_b(gemm) &&
         max_texels(gemm) <= INT32_MAX &&
         TEXEL_BYTES * (uint64_t)max_texels(gemm) <= recorder_traits(gemm->recorder)->max_alloc &&
         recorder_may_pack(gemm->recorder, gemm->desc.b);
}

bool gemm_image_usable(const gemm *gemm) {
  return gemm_direct_usable(gemm) &&
         (uint64_t)max_texels(gemm) <= recorder_traits(gemm->recorder)->image_texels;
}

static clave_status gemm_direct_pack_b(cl_recorder *recorder, const gemm *gemm) {
  launch launch;
  launch_begin(&launch, recorder, gemm->node);
  launch_dtype(&launch, "B_TYPE", gemm->desc.b->tensor.type);
  launch_define(&launch, "B_ORDER", gemm->desc.b_n != 1);
  launch_args(&launch, &(gemm_direct_pack_args){.b = buffer_arg(gemm->desc.b),
                                                .b_k = gemm->desc.b_k,
                                                .b_n = gemm->desc.b_n,
                                                .packed = scratch_arg(0),
                                                .n_size = gemm->desc.n,
                                                .k_size = gemm->desc.k,
                                                .texels = row_texels(gemm)});
  return launch_items(&launch, gemm_direct_count_texels(gemm));
}

static clave_status pack_texels(const gemm *gemm, int *number) {
  const pack_request request = {.x = gemm->desc.b,
                                .kind = PACKED_GEMM_TEXELS,
                                .size = {gemm->desc.k, gemm->desc.n, gemm->desc.b_n},
                                .bytes = TEXEL_BYTES * (size_t)gemm_direct_count_texels(gemm)};
  cl_recorder *pack;
  TRY(recorder_pack(gemm->recorder, &request, number, &pack));
  return gemm_direct_pack_b(pack, gemm);
}

/* Returns the rows per work-item, which share each loaded texel of b. Their sums fit registers. */
static int gemm_direct_rows_of(const gemm *gemm) {
  enum { SUMS = 32 };
  return gemm->each ? (int)gemm->each : (int)(SUMS / gemm_direct_columns_of(gemm) / 2);
}

static void gemm_direct_choose_kernel(launch *launch, const gemm *gemm, bool as_image, int packed) {
  if (as_image)
    launch_args(launch, &(gemm_direct_image_args){.gemm = gemm_operands(gemm),
                                                  .dense = gemm_dense_at(gemm, absent_arg()),
                                                  .b_image = image_arg(packed)});
  else
    launch_args(launch, &(gemm_direct_args){.gemm = gemm_operands(gemm),
                                            .dense = gemm_dense_at(gemm, packed_arg(packed))});
}

static clave_status gemm_direct_multiply(const gemm *gemm, bool as_image, int packed) {
  const int rows = gemm_direct_rows_of(gemm);
  launch launch;
  gemm_begin(&launch, gemm);
  if (gemm->halves) launch_halves(&launch, gemm->halves);
  launch_define(&launch, "ROWS", rows);
  launch_define(&launch, "IMAGE", as_image);
  gemm_direct_choose_kernel(&launch, gemm, as_image, packed);
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)row_texels(gemm), (size_t)ceil_div(gemm->desc.m, rows),
                      (size_t)gemm->desc.batches},
         local[3] = {SIDE, SIDE, 1};
  return launch_run(&launch, 3, global, local);
}

static clave_status pack_and_multiply(const gemm *product, bool as_image) {
  gemm chosen = *product, halved;
  bound_tensor operands[2];
  int packed;
  TRY(gemm_choose_halves(&chosen));
  if (!chosen.halves) {
    TRY(pack_texels(product, &packed));
    return gemm_direct_multiply(product, as_image, packed);
  }
  TRY(gemm_halves_pack_b(&chosen, &packed));
  TRY(gemm_halves_pack_a(&chosen, &halved, operands));
  return gemm_direct_multiply(&halved, as_image, packed);
}

clave_status gemm_direct(const void *product) { return pack_and_multiply(product, false); }
clave_status gemm_image(const void *product) { return pack_and_multiply(product, true); }
