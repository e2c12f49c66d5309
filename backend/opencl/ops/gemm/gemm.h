#ifndef BACKEND_OPENCL_OPS_GEMM_GEMM_H
#define BACKEND_OPENCL_OPS_GEMM_GEMM_H
/* Matrix products: one description (ops/matmul.h), and implementations to choose from. */
#include "backend/opencl/opencl.h"
#include "ops/matmul.h"

typedef struct gemm {
  cl_recorder *recorder;
  const node *node;
  matmul_desc desc;
  bool grouped;              /* batches are tiles of rows, listed in the op's scratch memory */
  const bound_tensor *codes; /* NULL, or the encoded constant that a is decoded from; only
                                gemm_packed accepts it, because the floats are not in memory */
  mma_unit mma;              /* see gemm_choose_mma */
  halves_kind halves;        /* see gemm_choose_halves */
  int64_t each; /* columns per work-item or another size that divides n; 0: chosen by rule */
} gemm;

static inline bool gemm_is_small_float(dtype t) {
  return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

static inline bool gemm_is_encoded(const gemm *gemm) {
  return gemm->desc.b->tensor.encoding.kind != ENCODING_PLAIN;
}

/* Chooses an implementation (matmul.c) and records it. */
clave_status gemm_record(const gemm *product) STATUS_CHECK;
/* Returns the tuning key: sizes and dtypes of a product. */
tuning_key gemm_key(const gemm *gemm);

/* The implementations in the tables of matmul.c and gemm_encoded.c. product is a const gemm *. */

/* Defines macros that clave's kernels share: COMPUTE, *_TYPE, HAS_BIAS, and the encoding of b. */
void gemm_begin(launch *launch, const gemm *gemm);
void gemm_begin_a(launch *launch, const gemm *gemm); /* defines the same macros except those of b */
/* Return arguments that clave's kernels share: gemm_operands those of everything except b,
 * gemm_dense those of a dense b, gemm_dense_at those of a b that is packed in a buffer. */
gemm_params gemm_operands(const gemm *gemm);
dense_params gemm_dense(const gemm *gemm);
dense_params gemm_dense_at(const gemm *gemm, arg_buffer buffer);

clave_status gemm_tile(const void *product) STATUS_CHECK; /* matmul.cl: any dtype, any strides */
int64_t gemm_tile_rows(const gemm *gemm);                 /* rows per group of work-items */
/* Rows of a panel of a on CPUs, as in kernels_cl/gemm/gemm_tile.h. */
static inline int gemm_panel_rows(const device_traits *traits) {
  return traits->vector_width == 8 ? 6 : 8;
}
bool gemm_packed_usable(const gemm *gemm); /* true on a CPU with enough local memory */
/* True if gemm_packed supports this many columns per work-item, and its rule chooses others. */
bool gemm_packed_accepts(const gemm *gemm, int64_t columns);
clave_status gemm_packed(const void *product) STATUS_CHECK; /* gemm.cl: floats up to F32, CPU */
/* Packs a in panels of rows: once if constant, else in scratch memory, after `used` floats. */
clave_status gemm_a_panels(const gemm *gemm, int64_t used, arg_buffer *buffer) STATUS_CHECK;
/* gemm_local.c: GPUs, floats up to F32, each operand contiguous along an axis. */
bool gemm_local_usable(const gemm *gemm);
bool gemm_local_is_better(const gemm *gemm); /* true if it is better than gemm_tile, by rule */
/* True if gemm_local supports tiles of this many rows and columns. */
bool gemm_local_accepts(const gemm *gemm, int64_t tile);
/* Defines the macros that say along which axis each operand is contiguous. */
void gemm_define_orders(launch *launch, const gemm *gemm);
clave_status gemm_local(const void *product) STATUS_CHECK;
/* Returns the number of work-groups of gemm_local and gemm_mma for tiles of `tile` rows and
 * columns. */
int64_t gemm_work_groups(const gemm *gemm, int64_t tile);
/* Split-k for gemm_local and gemm_mma, called in this order. gemm_splits returns the number of
 * splits of k. gemm_begin_splits requests scratch memory for them. gemm_splits_of returns the split
 * arguments of the launch. If there is only one split, the launch also runs the epilogue; else
 * splits.h adds the splits. */
int64_t gemm_splits(const gemm *gemm, int64_t tile);
clave_status gemm_begin_splits(const gemm *gemm, int64_t n_splits) STATUS_CHECK;
splits_params gemm_splits_of(launch *launch, const gemm *gemm, int64_t n_splits);
/* gemm_direct.c: products with a constant b, without local memory. */
bool gemm_direct_usable(const gemm *gemm);
bool gemm_image_usable(const gemm *gemm); /* for gemm_image, which reads b as an image */
clave_status gemm_direct(const void *product) STATUS_CHECK;
clave_status gemm_image(const void *product) STATUS_CHECK;
/* gemm_halves.c */
/* Sets gemm->halves to the way in which gemm_direct and gemm_image compute with halves. */
clave_status gemm_choose_halves(gemm *gemm) STATUS_CHECK;
/* Texels of the packed b. */
int64_t gemm_halves_texels(const gemm *gemm);
/* Packs a in scratch memory, from its start on. *halved is the product of the packed operands; it
 * points to `operands`. */
clave_status gemm_halves_pack_a(const gemm *gemm, struct gemm *halved,
                                bound_tensor operands[2]) STATUS_CHECK;
/* Packs the constant b. */
clave_status gemm_halves_pack_b(const gemm *gemm, int *number) STATUS_CHECK;
/* gemm_mma.c */
/* Sets gemm->mma. Its kind is MMA_NONE if no unit supports these operands, or if they would have to
 * be rounded and may not be. */
clave_status gemm_choose_mma(gemm *gemm) STATUS_CHECK;
bool gemm_mma_accepts(const gemm *gemm, int64_t tile);
clave_status gemm_mma(const void *product) STATUS_CHECK;
/* gemm_panels.c: products with a constant b, packed in panels. */
bool gemm_panels_usable(const gemm *gemm);
int64_t gemm_panel_columns(const cl_recorder *recorder);
bool gemm_has_one_b(const gemm *gemm); /* true if all batches share b */
/* True if a has few enough rows for gemm_panels. */
bool gemm_panels_few(const gemm *gemm);
/* True if gemm_panels supports this many panels per work-item; 0: chosen by rule. */
bool gemm_panels_accepts(const gemm *gemm, int64_t panels);
clave_status gemm_panels(const void *product) STATUS_CHECK;
clave_status gemm_b_panels(const gemm *gemm, arg_buffer *panels) STATUS_CHECK;

/* gemm_encoded.c: products with an encoded b, which have their own table of variants. */
clave_status gemm_encoded(const void *product) STATUS_CHECK;

/* Products with few rows of a. b is contiguous along k (rows: a transposed weight) or along n
 * (columns). On CPUs by gemv.cl, else by gemv_lanes.cl. */
clave_status gemm_row_lanes(const void *product) STATUS_CHECK;
clave_status gemm_column_lanes(const void *product) STATUS_CHECK;
clave_status gemm_rows(const void *product) STATUS_CHECK;
clave_status gemm_columns(const void *product) STATUS_CHECK;
/* True if gemm_columns supports this many columns per work-item of a CPU. */
bool gemm_columns_accepts(const gemm *gemm, int64_t columns);

/* gemm_clblast.c */
/* True if libclblast is installed and supports these operands. */
bool gemm_clblast_usable(const gemm *gemm);
clave_status gemm_clblast(const void *product) STATUS_CHECK;

#endif
