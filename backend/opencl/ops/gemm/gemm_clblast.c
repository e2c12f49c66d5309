/* Products computed by CLBlast. */
#include <stdlib.h>

#include "backend/opencl/launch/clblast.h"
#include "backend/opencl/ops/gemm/gemm.h"

/* Describes an operand of rows x columns, which is row-major or transposed. */
static matrix describe_matrix(const bound_tensor *operand, const tensor *batch, int64_t rows,
                              int64_t columns, int64_t row_stride, int64_t column_stride) {
  bool plain = (column_stride == 1 || columns == 1) && row_stride >= columns;
  bool turned = (row_stride == 1 || rows == 1) && column_stride >= rows;
  int64_t between = batch->rank == 1 ? batch->strides[0] : 0;
  return (matrix){.slot = operand->slot,
                  .offset = (size_t)operand->tensor.offset,
                  .ld = (size_t)(plain ? row_stride : column_stride),
                  .stride = (size_t)between,
                  .transpose = plain ? CLBlastTransposeNo : CLBlastTransposeYes,
                  .usable = (plain || turned) && batch->rank <= 1 && between >= 0};
}

static matrix matrix_a(const gemm *gemm) {
  return describe_matrix(gemm->desc.a, &gemm->desc.batch_a, gemm->desc.m, gemm->desc.k,
                         gemm->desc.a_m, gemm->desc.a_k);
}
static matrix matrix_b(const gemm *gemm) {
  return describe_matrix(gemm->desc.b, &gemm->desc.batch_b, gemm->desc.k, gemm->desc.n,
                         gemm->desc.b_k, gemm->desc.b_n);
}
static matrix matrix_out(const gemm *gemm) {
  tensor none = {.rank = 0};
  matrix out = describe_matrix(gemm->desc.out, &none, gemm->desc.m, gemm->desc.n, gemm->desc.n, 1);
  out.stride = (size_t)(gemm->desc.m * gemm->desc.n);
  return out;
}

bool gemm_clblast_usable(const gemm *gemm) {
  bool f32 = gemm->desc.a->tensor.type == DTYPE_F32 && gemm->desc.b->tensor.type == DTYPE_F32 &&
             gemm->desc.out->tensor.type == DTYPE_F32;
  return f32 && gemm->desc.k > 0 && matrix_a(gemm).usable && matrix_b(gemm).usable &&
         clblast_of(gemm->recorder->device) != NULL;
}

/* Stores the broadcast bias in out, which CLBlast then scales by beta. */
static clave_status broadcast_bias(const gemm *gemm) {
  launch launch;
  gemm_begin(&launch, gemm);
  launch_args(&launch, &(broadcast_bias_args){.bias = buffer_arg(gemm->desc.bias),
                                              .bias_batch = strides_arg(&gemm->desc.batch_bias),
                                              .bias_m = gemm->desc.bias_m,
                                              .bias_n = gemm->desc.bias_n,
                                              .out = buffer_arg(gemm->desc.out),
                                              .batch_dims = dims_arg(&gemm->desc.batch_bias),
                                              .m_size = gemm->desc.m,
                                              .n_size = gemm->desc.n});
  size_t global[3] = {(size_t)gemm->desc.n, (size_t)gemm->desc.m, (size_t)gemm->desc.batches},
         local[3] = {LOCAL_SIZE, 1, 1};
  return launch_run(&launch, 3, global, local);
}

/* Requests CLBlast's temporary buffer. Its size is computed for operands that do not begin at
 * offset 0, which is the largest case. */
static clave_status reserve_temporary(const gemm *gemm, const blas_call *call) {
  clblast *lib = clblast_of(gemm->recorder->device);
  size_t bytes = 0;
  if (call->batches > 1) return NULL;
  CLBlastStatusCode code =
      lib->temp_size(CLBlastLayoutRowMajor, call->a.transpose, call->b.transpose, call->m, call->n,
                     call->k, call->a.offset + 1, call->a.ld, call->b.offset + 1, call->b.ld,
                     call->out.offset + 1, call->out.ld, &lib->queue, &bytes);
  if (code != CLBlastSuccess) return opencl_status((cl_int)code, "CLBlastSGemmTempBufferSize");
  return recorder_scratch(gemm->recorder, bytes);
}

/* Returns the launch class of CLBlast's product, for typical tile sizes: its own are unknown. */
static uint64_t blas_class(const gemm *gemm) {
  static const block_info tiles[] = {{"K", 8}, {"VECTOR", 16}, {"SMALL", 32}, {"LARGE", 128}};
  static const kernel_signature signature = {.blocks = tiles, .n_blocks = 4};
  static const size_t one[3] = {1, 1, 1};
  matrix a = matrix_a(gemm), b = matrix_b(gemm);
  launch launch;
  launch_begin(&launch, gemm->recorder, gemm->node);
  launch_generated(&launch, "clblast", NULL, NULL);
  const int64_t sizes[] = {gemm->desc.batches,
                           gemm->desc.m,
                           gemm->desc.n,
                           gemm->desc.k,
                           (int64_t)a.ld,
                           (int64_t)b.ld,
                           a.transpose == CLBlastTransposeYes,
                           b.transpose == CLBlastTransposeYes};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) launch_push_int(&launch, sizes[i]);
  launch_push_float(&launch, gemm->desc.alpha);
  launch_push_float(&launch, gemm->desc.bias ? gemm->desc.beta : 0);
  return launch_class(&launch, &signature, one, one);
}

static clave_status record_instead(const gemm *product, cl_recording **out) {
  cl_recording *recording = calloc(1, sizeof *recording);
  if (!recording) return status_no_memory();
  cl_recorder own = *product->recorder;
  gemm same = *product;
  own.out = recording;
  own.epilogue = NULL; /* the epilogue runs after the product, whichever computes it */
  same.recorder = &own;
  clave_status st = gemm_tile(&same);
  if (st) {
    opencl_recording_destroy(&product->recorder->device->base, &recording->base);
    return st;
  }
  if (own.refused && blas_is_refused(own.device))
    recorder_note_refused(product->recorder, own.refused);
  *out = recording;
  return NULL;
}

clave_status gemm_clblast(const void *product) {
  const gemm *gemm = product;
  if (gemm->desc.bias) TRY(broadcast_bias(gemm));
  const blas_call call = {.m = (size_t)gemm->desc.m,
                          .n = (size_t)gemm->desc.n,
                          .k = (size_t)gemm->desc.k,
                          .batches = (size_t)gemm->desc.batches,
                          .alpha = (float)gemm->desc.alpha,
                          .beta = gemm->desc.bias ? (float)gemm->desc.beta : 0,
                          .a = matrix_a(gemm),
                          .b = matrix_b(gemm),
                          .out = matrix_out(gemm)};
  TRY(reserve_temporary(gemm, &call));
  recorded_launch launch = {.class = blas_class(gemm)};
  TRY(record_instead(gemm, &launch.instead));
  launch.blas = malloc(sizeof call);
  if (launch.blas) {
    *launch.blas = call;
    return recorder_add(gemm->recorder, &launch, NULL);
  }
  opencl_recording_destroy(&gemm->recorder->device->base, &launch.instead->base);
  return status_no_memory();
}
