#ifndef BACKEND_OPENCL_OPS_GEMM_GEMM_H
#define BACKEND_OPENCL_OPS_GEMM_GEMM_H
/* Matrix products: one description (ops/matmul.h), one choice, several implementations. */
#include "backend/opencl/opencl.h"
#include "ops/matmul.h"

typedef struct gemm {
  cl_recorder *recorder;
  const node *node;
  matmul_form desc;
  bool grouped;              /* its batches are tiles of rows, in the op's scratch memory */
  const bound_tensor *codes; /* NULL, or the constant whose floats a is, which lie nowhere else: by
                                gemm_packed alone */
  mma_kind mma;              /* see gemm_choose_mma */
  int64_t each; /* columns of a work-item, or what else the implementation cuts n by; 0: by rule */
} gemm;

static inline bool gemm_is_small_float(dtype t) {
  return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

static inline bool gemm_is_encoded(const gemm *gemm) {
  return gemm->desc.b->tensor.encoding.kind != ENCODING_PLAIN;
}

/* Chooses the implementation (matmul.c) and records it. */
clave_status gemm_record(const gemm *gemm) STATUS_CHECK;
/* The sizes and dtypes of a product. */
tuning_key gemm_key(const gemm *gemm);

/* The implementations, which rows of tables in matmul.c and gemm_encoded.c name: product is a const
 * gemm *. */

/* Macros that all our kernels share: COMPUTE, *_TYPE, HAS_BIAS, and how b is encoded. */
void gemm_begin(launch *launch, const gemm *gemm);
void gemm_begin_a(launch *launch, const gemm *gemm); /* all but what is b's */
/* The arguments that our kernels share: all but b's, and b's where it is dense: itself, or packed
 * in a buffer. */
gemm_params gemm_operands(const gemm *gemm);
dense_params gemm_dense(const gemm *gemm);
dense_params gemm_dense_at(const gemm *gemm, arg_buffer buffer);

clave_status gemm_tile(const void *product) STATUS_CHECK; /* matmul.cl: any dtype, any strides */
int64_t gemm_tile_rows(const gemm *gemm);                 /* of a group of work-items */
/* Rows of a panel of a on CPUs, as kernels_cl/gemm/gemm_tile.h has them. */
static inline int gemm_panel_rows(const device_traits *traits) {
  return traits->vector_width == 8 ? 6 : 8;
}
bool gemm_packed_usable(const gemm *gemm);                 /* a CPU with enough local memory */
bool gemm_packed_takes(const gemm *gemm, int64_t columns); /* for a work-item, other than by rule */
clave_status gemm_packed(const void *product) STATUS_CHECK; /* gemm.cl: floats up to F32, CPU */
/* a in panels of rows: a constant once, else in scratch memory behind `used` floats of it. */
clave_status gemm_a_panels(const gemm *gemm, int64_t used, arg_buffer *buffer) STATUS_CHECK;
/* gemm_local.c: GPUs, floats up to F32, each operand contiguous along an axis. */
bool gemm_local_usable(const gemm *gemm);
bool gemm_local_is_better(const gemm *gemm);               /* than gemm_tile, by rule */
bool gemm_local_takes(const gemm *gemm, int64_t tile);     /* rows and columns of a tile */
void gemm_define_orders(launch *launch, const gemm *gemm); /* which axis that is */
clave_status gemm_local(const void *product) STATUS_CHECK;
/* Groups of work-items of gemm_local and gemm_mma, by the rows and columns of a tile. */
int64_t gemm_groups(const gemm *gemm, int64_t tile);
/* Of the same, in this order: parts that k is cut in; scratch memory for them; arguments of the
 * launch, which takes the epilogue behind them if there is one part. parts.h ends what has
 * several. */
int64_t gemm_parts(const gemm *gemm, int64_t tile);
clave_status gemm_begin_parts(const gemm *gemm, int64_t n_parts) STATUS_CHECK;
parts_params gemm_parts_of(launch *launch, const gemm *gemm, int64_t n_parts);
/* gemm_direct.c: a constant b, without local memory. */
bool gemm_direct_usable(const gemm *gemm);
bool gemm_image_usable(const gemm *gemm); /* b as an image */
clave_status gemm_direct(const void *product) STATUS_CHECK;
clave_status gemm_image(const void *product) STATUS_CHECK;
/* gemm_mma.c */
/* Sets gemm->mma: MMA_NONE where there is no instruction for these operands, or it may not round.
 */
clave_status gemm_choose_mma(gemm *gemm) STATUS_CHECK;
bool gemm_mma_takes(const gemm *gemm, int64_t tile);
clave_status gemm_mma(const void *product) STATUS_CHECK;
/* gemm_panels.c: a constant b, in panels. */
bool gemm_panels_usable(const gemm *gemm);
int64_t gemm_panel_columns(const cl_recorder *recorder);
bool gemm_has_one_b(const gemm *gemm);  /* for all batches */
bool gemm_panels_few(const gemm *gemm); /* few enough rows for gemm_panels to be fast */
bool gemm_panels_takes(const gemm *gemm,
                       int64_t panels); /* for a work-item; 0: as many as by rule */
clave_status gemm_panels(const void *product) STATUS_CHECK;
clave_status gemm_b_panels(const gemm *gemm, arg_buffer *panels) STATUS_CHECK;

/* gemm_encoded.c: an encoded b, of which it has variants of its own. */
clave_status gemm_encoded(const void *product) STATUS_CHECK;

/* Few rows of a: b by rows of k (a transposed weight), or of n; gemv.cl on CPUs, gemv_lanes.cl. */
clave_status gemm_row_lanes(const void *product) STATUS_CHECK;
clave_status gemm_column_lanes(const void *product) STATUS_CHECK;
clave_status gemm_rows(const void *product) STATUS_CHECK;
clave_status gemm_columns(const void *product) STATUS_CHECK;
bool gemm_columns_takes(const gemm *gemm, int64_t columns); /* for a work-item of a CPU */

/* gemm_clblast.c */
bool gemm_clblast_usable(const gemm *gemm); /* libclblast is there and takes these operands */
clave_status gemm_clblast(const void *product) STATUS_CHECK;

#endif
