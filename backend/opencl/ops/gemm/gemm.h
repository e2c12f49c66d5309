#ifndef BACKEND_OPENCL_OPS_GEMM_GEMM_H
#define BACKEND_OPENCL_OPS_GEMM_GEMM_H
/* Matrix products: one description (ops/matmul.h), one choice, several implementations. */
#include "backend/opencl/opencl.h"
#include "ops/matmul.h"

typedef struct gemm {
  cl_recorder *recorder;
  const node *node;
  matmul_desc desc;
  bool grouped;              /* its batches are tiles of rows, in the op's scratch memory */
  const bound_tensor *codes; /* NULL, or the encoded constant that a is decoded from; only
                                gemm_packed accepts it, because the floats are not in memory */
  mma_kind mma;              /* see gemm_choose_mma */
  int64_t each; /* columns per work-item or another size that splits n; 0 means by rule */
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

/* The implementations, which rows of the tables in matmul.c and gemm_encoded.c name. product is a
 * const gemm *. */

/* Defines the macros that our kernels share: COMPUTE, *_TYPE, HAS_BIAS, and the encoding of b. */
void gemm_begin(launch *launch, const gemm *gemm);
void gemm_begin_a(launch *launch, const gemm *gemm); /* these macros, except those of b */
/* Arguments that our kernels share. gemm_operands returns all except those of b, gemm_dense those
 * of a dense b, and gemm_dense_at those of a b that is packed in a buffer. */
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
/* True if it supports that many columns per work-item, and its rule chooses others. */
bool gemm_packed_takes(const gemm *gemm, int64_t columns);
clave_status gemm_packed(const void *product) STATUS_CHECK; /* gemm.cl: floats up to F32, CPU */
/* Packs a in panels of rows: once if constant, else in scratch memory after `used` floats of it. */
clave_status gemm_a_panels(const gemm *gemm, int64_t used, arg_buffer *buffer) STATUS_CHECK;
/* gemm_local.c: GPUs, floats up to F32, each operand contiguous along an axis. */
bool gemm_local_usable(const gemm *gemm);
bool gemm_local_is_better(const gemm *gemm); /* than gemm_tile, by rule */
/* True if it supports tiles of that many rows and columns. */
bool gemm_local_takes(const gemm *gemm, int64_t tile);
/* Defines along which axis each operand is contiguous. */
void gemm_define_orders(launch *launch, const gemm *gemm);
clave_status gemm_local(const void *product) STATUS_CHECK;
/* Returns the number of groups of gemm_local and gemm_mma for tiles of `tile` rows and columns. */
int64_t gemm_groups(const gemm *gemm, int64_t tile);
/* Split-k for gemm_local and gemm_mma, called in this order. gemm_parts returns the number of parts
 * of k. gemm_begin_parts requests scratch memory for them. gemm_parts_of returns the arguments of
 * the launch, which runs the epilogue itself if there is one part. parts.h adds several parts. */
int64_t gemm_parts(const gemm *gemm, int64_t tile);
clave_status gemm_begin_parts(const gemm *gemm, int64_t n_parts) STATUS_CHECK;
parts_params gemm_parts_of(launch *launch, const gemm *gemm, int64_t n_parts);
/* gemm_direct.c: constant b, without local memory. */
bool gemm_direct_usable(const gemm *gemm);
bool gemm_image_usable(const gemm *gemm); /* with b as an image */
clave_status gemm_direct(const void *product) STATUS_CHECK;
clave_status gemm_image(const void *product) STATUS_CHECK;
/* gemm_mma.c */
/* Sets gemm->mma; MMA_NONE if no instruction suits these operands, or rounding is not allowed. */
clave_status gemm_choose_mma(gemm *gemm) STATUS_CHECK;
bool gemm_mma_takes(const gemm *gemm, int64_t tile);
clave_status gemm_mma(const void *product) STATUS_CHECK;
/* gemm_panels.c: constant b, packed in panels. */
bool gemm_panels_usable(const gemm *gemm);
int64_t gemm_panel_columns(const cl_recorder *recorder);
bool gemm_has_one_b(const gemm *gemm); /* true if all batches share b */
/* True if rows are few enough for gemm_panels. */
bool gemm_panels_few(const gemm *gemm);
/* True if it supports that many panels per work-item; 0 means by rule. */
bool gemm_panels_takes(const gemm *gemm, int64_t panels);
clave_status gemm_panels(const void *product) STATUS_CHECK;
clave_status gemm_b_panels(const gemm *gemm, arg_buffer *panels) STATUS_CHECK;

/* gemm_encoded.c: encoded b, with its own table of variants. */
clave_status gemm_encoded(const void *product) STATUS_CHECK;

/* Few rows of a; b by rows of k (a transposed weight) or n. gemv.cl on CPUs, or gemv_lanes.cl. */
clave_status gemm_row_lanes(const void *product) STATUS_CHECK;
clave_status gemm_column_lanes(const void *product) STATUS_CHECK;
clave_status gemm_rows(const void *product) STATUS_CHECK;
clave_status gemm_columns(const void *product) STATUS_CHECK;
/* True if it supports that many columns per work-item of a CPU. */
bool gemm_columns_takes(const gemm *gemm, int64_t columns);

/* gemm_clblast.c */
/* True if libclblast is installed and supports these operands. */
bool gemm_clblast_usable(const gemm *gemm);
clave_status gemm_clblast(const void *product) STATUS_CHECK;

#endif
