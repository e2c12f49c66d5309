/* Products in halves, for GPUs that compute these at twice the rate of floats: the choice, and
 * operands packed by gemm_halves_pack.cl. gemm_direct.c multiplies them. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

/* Same values as in kernels_cl/support/halves.h. */
enum { CHAIN = 16, LANES = 8 };
/* Packing a takes longer than halves save for fewer columns or shorter sums. */
enum { MIN_COLUMNS = 64, MIN_DEPTH = 32 };
/* Magnitudes of packed operands are at most 2^(SIZE + 1): sums of CHAIN products are below 2^16. */
enum { A_SIZE = 5, B_SIZE = 4 };

static int64_t gemm_halves_depth(const gemm *gemm) { return round_up(gemm->desc.k, CHAIN); }
static int64_t gemm_halves_count_a(const gemm *gemm) {
  return gemm->desc.batches * gemm->desc.m * (LANES + gemm_halves_depth(gemm));
}
int64_t gemm_halves_texels(const gemm *gemm) {
  return ceil_div(gemm->desc.n, LANES) * (1 + gemm_halves_depth(gemm));
}

clave_status gemm_choose_halves(gemm *gemm) {
  const uint64_t most = recorder_traits(gemm->recorder)->max_alloc,
                 halves = (uint64_t)gemm_halves_count_a(gemm);
  gemm->halves = HALVES_NONE;
  if (gemm->desc.n < MIN_COLUMNS || gemm->desc.k < MIN_DEPTH || !matmul_may_round(&gemm->desc) ||
      halves > INT32_MAX || halves * sizeof(uint16_t) > most)
    return NULL;
  return recorder_halves(gemm->recorder, &gemm->halves);
}

/* Vectors along k of an operand, and their places, as in gemm_halves_pack.cl. */
typedef struct vectors {
  const bound_tensor *x;
  const tensor *batch;
  int64_t stride, k_stride, n, batches;
  int64_t padded, to_batch, to_block, to_lane, to_first, to_k;
  int size;
} vectors;

static clave_status pack_vectors(cl_recorder *recorder, const gemm *gemm, const vectors *vectors) {
  const int team = vectors->k_stride == 1 ? LOCAL_SIZE : 1;
  launch launch;
  launch_begin(&launch, recorder, gemm->node);
  launch_dtype(&launch, "X_TYPE", vectors->x->tensor.type);
  launch_define(&launch, "SIZE", vectors->size);
  launch_define(&launch, "TEAM", team);
  launch_define(&launch, "W", 1);
  launch_args(&launch, &(gemm_halves_pack_args){.x = buffer_arg(vectors->x),
                                                .x_batch = strides_arg(vectors->batch),
                                                .batch_dims = dims_arg(vectors->batch),
                                                .x_v = vectors->stride,
                                                .x_k = vectors->k_stride,
                                                .vectors = vectors->n,
                                                .k_size = gemm->desc.k,
                                                .packed = scratch_arg(0),
                                                .packed_z = vectors->to_batch,
                                                .packed_block = vectors->to_block,
                                                .packed_lane = vectors->to_lane,
                                                .packed_first = vectors->to_first,
                                                .packed_k = vectors->to_k,
                                                .padded = vectors->padded,
                                                .depth = gemm_halves_depth(gemm)});
  size_t global[3] = {(size_t)(vectors->padded * team), (size_t)vectors->batches, 1},
         local[3] = {LOCAL_SIZE, 1, 1};
  return launch_run(&launch, 2, global, local);
}

/* A row of the packed a is a texel with its exponent, and its elements. */
clave_status gemm_halves_pack_a(const gemm *gemm, struct gemm *halved, bound_tensor operands[2]) {
  const matmul_desc *desc = &gemm->desc;
  const int64_t pitch = LANES + gemm_halves_depth(gemm);
  const vectors rows = {.x = desc->a,
                        .batch = &desc->batch_a,
                        .stride = desc->a_m,
                        .k_stride = desc->a_k,
                        .n = desc->m,
                        .batches = desc->batches,
                        .padded = desc->m,
                        .to_batch = desc->m * pitch,
                        .to_block = LANES * pitch,
                        .to_lane = pitch,
                        .to_first = LANES,
                        .to_k = 1,
                        .size = A_SIZE};
  operands[0] = *desc->a;
  operands[1] = *desc->b;
  operands[0].tensor.type = operands[1].tensor.type = DTYPE_F16;
  *halved = *gemm;
  halved->desc.a = &operands[0];
  halved->desc.b = &operands[1];
  halved->desc.a_m = pitch;
  tensor_set_contiguous(&halved->desc.batch_a);
  for (int i = 0; i < halved->desc.batch_a.rank; i++)
    halved->desc.batch_a.strides[i] *= desc->m * pitch;
  recorder_rounds(gemm->recorder, ROUNDS_TO_F16);
  TRY(recorder_scratch(gemm->recorder, sizeof(uint16_t) * (size_t)gemm_halves_count_a(gemm)));
  return pack_vectors(gemm->recorder, gemm, &rows);
}

/* The packed b has texels of LANES neighbours of n: those of the exponents, then those of each k.
 */
clave_status gemm_halves_pack_b(const gemm *gemm, int *number) {
  const matmul_desc *desc = &gemm->desc;
  const int64_t texels = ceil_div(desc->n, LANES);
  const tensor one = {.rank = 0};
  const vectors columns = {.x = desc->b,
                           .batch = &one,
                           .stride = desc->b_n,
                           .k_stride = desc->b_k,
                           .n = desc->n,
                           .batches = 1,
                           .padded = texels * LANES,
                           .to_block = LANES,
                           .to_lane = 1,
                           .to_first = texels * LANES,
                           .to_k = texels * LANES,
                           .size = B_SIZE};
  const pack_request request = {.x = desc->b,
                                .kind = PACKED_GEMM_HALVES,
                                .size = {desc->k, desc->n, desc->b_n},
                                .bytes = TEXEL_BYTES * (size_t)gemm_halves_texels(gemm)};
  cl_recorder *pack;
  TRY(recorder_pack(gemm->recorder, &request, number, &pack));
  return pack_vectors(pack, gemm, &columns);
}
