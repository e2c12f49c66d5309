/* Rounds operands for products whose kernels round their factors (recording.rounds). The oracle
 * multiplies floats, so its operands are rounded in advance; then both results differ only in how
 * sums are rounded in f32. The rounding error of the factors themselves is accepted: base/rounded.h
 * bounds it, or half a unit in the last place of BF16. */
#include "interp/check/rounded.h"

#include <math.h>
#include <stdlib.h>

#include "base/rounded.h"
#include "interp/host_copy.h"

static float load_float(dtype t, const void *data, int64_t i) {
  if (t == DTYPE_F32) return ((const float *)data)[i];
  uint16_t half = ((const uint16_t *)data)[i];
  return t == DTYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}

/* Stores a float. Values beyond the range of F16 are clamped to its largest value, because rounding
 * to BF16 turns 65,280 and more into 65,536 or more. */
static void check_rounded_store_float(dtype t, void *data, int64_t i, float x) {
  const float largest = 65504;
  if (t == DTYPE_F16 && isfinite(x)) x = fminf(fmaxf(x, -largest), largest);
  if (t == DTYPE_F32)
    ((float *)data)[i] = x;
  else
    ((uint16_t *)data)[i] = t == DTYPE_F16 ? f32_to_f16(x) : f32_to_bf16(x);
}

static void round_floats(rounding how, float *row, int64_t n) {
  if (how == ROUNDS_ROWS) rounded_row(row, n);
  for (int64_t i = 0; how == ROUNDS_TO_BF16 && i < n; i++)
    row[i] = bf16_to_f32(f32_to_bf16(row[i]));
}

typedef struct row_memory {
  void *all, *elements, *rounded; /* owned: bytes of the buffer; its elements; the rounded
                                     elements */
  float *row;                     /* owned */
  size_t bytes;                   /* size of rounded */
} row_memory;

static clave_status read_elements(const oracle *oracle, const bound_tensor *tensor, dtype to,
                                  row_memory *memory) {
  size_t bytes;
  TRY(known_bytes(&tensor->tensor, &bytes));
  memory->bytes = bytes / dtype_size(tensor->tensor.type) * dtype_size(to);
  memory->all = malloc(tensor->buf->bytes);
  memory->elements = malloc(bytes);
  memory->rounded = malloc(memory->bytes);
  memory->row = malloc(sizeof(float) * (size_t)tensor->tensor.dims[tensor->tensor.rank - 1]);
  if (!memory->all || !memory->elements || !memory->rounded || !memory->row)
    return status_no_memory();
  TRY(oracle->cpu->vt->read(oracle->queue, tensor->buf, 0, memory->all, tensor->buf->bytes));
  copy_to_contiguous(&tensor->tensor, memory->all, memory->elements);
  return NULL;
}

/* Rounds row by row. */
static void round_elements(rounding how, const tensor *tensor, dtype to, row_memory *memory) {
  int64_t n = tensor->dims[tensor->rank - 1], count = tensor_numel(tensor);
  for (int64_t at = 0; at < count; at += n) {
    for (int64_t i = 0; i < n; i++)
      memory->row[i] = load_float(tensor->type, memory->elements, at + i);
    round_floats(how, memory->row, n);
    for (int64_t i = 0; i < n; i++)
      check_rounded_store_float(to, memory->rounded, at + i, memory->row[i]);
  }
}

clave_status bind_rounded(checking *checking, const bound_tensor *tensor, dtype to, buffer **made,
                          bound_tensor *out) {
  const oracle *oracle = checking->session->oracle;
  row_memory memory = {0};
  *out = *tensor;
  if (!tensor->buf || tensor->tensor.encoding.kind)
    return NULL; /* empty or encoded tensors are not rounded */
  clave_status st = read_elements(oracle, tensor, to, &memory);
  if (!st) round_elements(checking->rounds, &tensor->tensor, to, &memory);
  if (!st && !*made) st = oracle->cpu->vt->buffer_create(oracle->cpu, memory.bytes, made);
  if (!st) st = oracle->cpu->vt->write(oracle->queue, *made, 0, memory.rounded, memory.bytes);
  out->buf = *made;
  out->buffer_offset = 0;
  out->tensor.offset = 0;
  out->tensor.type = to;
  tensor_set_contiguous(&out->tensor);
  free(memory.all);
  free(memory.elements);
  free(memory.rounded);
  free(memory.row);
  return st;
}
