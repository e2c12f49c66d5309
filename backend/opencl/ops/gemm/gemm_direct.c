/* Products with a constant b on GPUs, without local memory. b is packed once in words of 16 bytes,
 * which kernels read as a buffer or an image. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

/* Same values as in kernels_cl/gemm/gemm_direct.cl. */
enum { DEPTH = 4, SIDE = 8 };

static int64_t gemm_direct_columns_of(const gemm *gemm) {
  return IMAGE_WORD / (int64_t)dtype_size(gemm->desc.b->tensor.type);
}
static int64_t row_words(const gemm *gemm) {
  return ceil_div(gemm->desc.n, gemm_direct_columns_of(gemm));
}
static int64_t gemm_direct_count_words(const gemm *gemm) {
  return row_words(gemm) * ceil_div(gemm->desc.k, DEPTH) * DEPTH;
}

bool gemm_direct_usable(const gemm *gemm) {
  return !recorder_traits(gemm->recorder)->is_cpu && !gemm->grouped && !gemm_is_encoded(gemm) &&
         gemm->desc.k > 0 && gemm_is_small_float(gemm->desc.a->tensor.type) &&
         gemm_is_small_float(gemm->desc.b->tensor.type) &&
         gemm_is_small_float(gemm->desc.out->tensor.type) && gemm_has_one_b(gemm) &&
         gemm_direct_count_words(gemm) <= INT32_MAX &&
         IMAGE_WORD * (uint64_t)gemm_direct_count_words(gemm) <=
             recorder_traits(gemm->recorder)->max_alloc &&
         recorder_may_pack(gemm->recorder, gemm->desc.b);
}

bool gemm_image_usable(const gemm *gemm) {
  return gemm_direct_usable(gemm) &&
         (uint64_t)gemm_direct_count_words(gemm) <= recorder_traits(gemm->recorder)->image_words;
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
                                                .words = row_words(gemm)});
  return launch_items(&launch, gemm_direct_count_words(gemm));
}

static clave_status pack_words(const gemm *gemm, int *number) {
  const pack_request request = {.x = gemm->desc.b,
                                .kind = PACKED_GEMM_WORDS,
                                .size = {gemm->desc.k, gemm->desc.n, gemm->desc.b_n},
                                .bytes = IMAGE_WORD * (size_t)gemm_direct_count_words(gemm)};
  cl_recorder *pack;
  TRY(recorder_pack(gemm->recorder, &request, number, &pack));
  return gemm_direct_pack_b(pack, gemm);
}

/* Returns the rows per work-item, which share each word of b. More sums would not fit registers. */
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

static clave_status gemm_direct_multiply(const gemm *gemm, bool as_image) {
  int packed, rows = gemm_direct_rows_of(gemm);
  TRY(pack_words(gemm, &packed));
  launch launch;
  gemm_begin(&launch, gemm);
  launch_define(&launch, "ROWS", rows);
  launch_define(&launch, "IMAGE", as_image);
  gemm_direct_choose_kernel(&launch, gemm, as_image, packed);
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)row_words(gemm), (size_t)ceil_div(gemm->desc.m, rows),
                      (size_t)gemm->desc.batches},
         local[3] = {SIDE, SIDE, 1};
  return launch_run(&launch, 3, global, local);
}

clave_status gemm_direct(const void *product) { return gemm_direct_multiply(product, false); }
clave_status gemm_image(const void *product) { return gemm_direct_multiply(product, true); }
