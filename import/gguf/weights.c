/* Tensors of a GGUF file as values of the import. */
#include "import/gguf/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "import/coded.h"

static const struct {
  const char *name;
  clave_dtype type;
} floats[] = {{"F32", CLAVE_F32}, {"F16", CLAVE_F16}, {"BF16", CLAVE_BF16}};
enum { N_FLOATS = sizeof floats / sizeof *floats };

static bool is_float(const gguf_type *type, clave_dtype *out) {
  for (int i = 0; i < N_FLOATS; i++) {
    *out = floats[i].type;
    if (strcmp(floats[i].name, type->name) == 0) return true;
  }
  return false;
}

static clave_status check_type(gguf_file *file, const char *name, const gguf_type *type) {
  clave_dtype dtype;
  uint8_t format;
  const char *known = "F32, F16, BF16";
  if (is_float(type, &dtype) || block_format_find(type->name, &format)) return NULL;
  for (int i = 0; block_format_at(i); i++)
    known = import_text(file->im, "%s, %s", known, block_format_at(i)->name);
  return UNSUPPORTED("tensor '%s': expected one of %s, got %s", name, known, type->name);
}

static const char *shape_text(importer *im, int rank, const int64_t *dims) {
  const char *out = "";
  for (int i = 0; i < rank; i++)
    out = dims[i] < 0 ? import_text(im, "%s%sany", out, i ? ", " : "")
                      : import_text(im, "%s%s%lld", out, i ? ", " : "", (long long)dims[i]);
  return out;
}

/* Checks the shape, and drops leading dimensions of 1 that are too many, as llama.cpp does. */
static clave_status take_shape(gguf_file *file, gguf_tensor *tensor, int rank,
                               const int64_t *dims) {
  const int more = tensor->rank - rank;
  bool fits = more >= 0;
  for (int i = 0; i < more; i++) fits = fits && tensor->dims[i] == 1;
  for (int i = 0; i < rank && fits; i++) fits = dims[i] < 0 || dims[i] == tensor->dims[more + i];
  if (!fits)
    return INVALID("tensor %s: expected (%s), got (%s)", gguf_shown(file->im, tensor->name),
                   shape_text(file->im, rank, dims),
                   shape_text(file->im, tensor->rank, tensor->dims));
  tensor->rank = rank;
  memmove(tensor->dims, tensor->dims + more, (size_t)rank * sizeof *tensor->dims);
  return tensor->size ? NULL : INVALID("tensor %s is empty", gguf_shown(file->im, tensor->name));
}

/* Returns a tensor of this name and shape (-1: any size), and marks it as used; NULL after an
 * error. */
static const gguf_tensor *take(gguf_file *file, const char *name, int rank, const int64_t *dims) {
  gguf_tensor *found = import_ok(file->im) ? gguf_find_tensor(file, name) : NULL;
  if (!import_ok(file->im)) return NULL;
  clave_status st = found ? check_type(file, name, found->type) : NULL;
  if (!found) st = INVALID("has no tensor '%s'", name);
  if (!st) st = take_shape(file, found, rank, dims);
  import_end(file->im, st);
  if (st) return NULL;
  found->is_used = true;
  return found;
}

bool gguf_has_tensor(gguf_file *file, const char *name) {
  return gguf_find_tensor(file, name) != NULL;
}

/* ---------------------------------------------------------------- matrices */

/* Returns the tensor's bytes, in a copy if the caller's bytes do not have the alignment. */
static const void *aligned_bytes(importer *im, const gguf_tensor *tensor, size_t alignment) {
  if ((uintptr_t)tensor->data % alignment == 0) return tensor->data;
  void *copy = import_alloc(im, tensor->size, 1);
  if (copy) memcpy(copy, tensor->data, tensor->size);
  return copy;
}

static value *block_matrix(importer *im, const gguf_tensor *tensor, const char *name) {
  int64_t shape[GGUF_MAX_RANK], n_rows = 1;
  const int last = tensor->rank - 1;
  for (int i = 0; i < last; i++) n_rows *= shape[i] = tensor->dims[i];
  shape[last] = (int64_t)(tensor->size / (size_t)n_rows);
  const clave_tensor rows = clave_tensor_make(CLAVE_U8, tensor->rank, shape, (void *)tensor->data);
  const clave_id id = clave_builder_encoded(im->builder, name, tensor->type->name, CLAVE_F32,
                                            tensor->rank, tensor->dims, &rows, false);
  return coded_of_rows(im, id, CLAVE_F32, tensor->rank, tensor->dims);
}

static value *weights_read(gguf_file *file, const char *name, int rank, const int64_t *dims) {
  importer *im = file->im;
  clave_dtype type;
  const gguf_tensor *tensor = take(file, name, rank, dims);
  if (!tensor) return NULL;
  if (!is_float(tensor->type, &type)) return block_matrix(im, tensor, name);
  const void *bytes = aligned_bytes(im, tensor, clave_dtype_size(type));
  return bytes ? value_constant(im, name, type, rank, tensor->dims, bytes) : NULL;
}

value *gguf_matrix(gguf_file *file, const char *name, int64_t rows, int64_t columns) {
  return weights_read(file, name, 2, (const int64_t[]){rows, columns});
}

value *gguf_stack(gguf_file *file, const char *name, int64_t n, int64_t rows, int64_t columns) {
  return weights_read(file, name, 3, (const int64_t[]){n, rows, columns});
}

/* ---------------------------------------------------------------- vectors */

static void decode_blocks(const gguf_tensor *tensor, float *out) {
  float part[DECODED_AT_ONCE];
  encoding encoding = {.kind = ENCODING_BLOCKS};
  if (!block_format_find(tensor->type->name, &encoding.format)) return;
  for (int64_t i = 0; i < tensor->dims[0]; i += DECODED_AT_ONCE) {
    encoding_decode(&encoding, tensor->data, tensor->dims[0], i / DECODED_AT_ONCE, part);
    memcpy(out + i, part, sizeof part); /* rows are multiples of 32 elements */
  }
}

static void decode_floats(const gguf_tensor *tensor, clave_dtype type, float *out) {
  const size_t size = clave_dtype_size(type);
  for (int64_t i = 0; i < tensor->dims[0]; i++)
    out[i] = (float)element_number((dtype)type, tensor->data + (size_t)i * size);
}

const float *gguf_vector(gguf_file *file, const char *name, int64_t size) {
  importer *im = file->im;
  clave_dtype type;
  const gguf_tensor *tensor = take(file, name, 1, &size);
  if (!tensor) return NULL;
  const bool plain = is_float(tensor->type, &type);
  if (plain && type == CLAVE_F32) return aligned_bytes(im, tensor, sizeof(float));
  float *out = import_alloc(im, (size_t)size, sizeof *out);
  if (out && plain)
    decode_floats(tensor, type, out);
  else if (out)
    decode_blocks(tensor, out);
  return out;
}

value *gguf_vector_value(gguf_file *file, const char *name, int64_t size) {
  const float *found = gguf_vector(file, name, size);
  return found ? value_constant(file->im, name, CLAVE_F32, 1, &size, found) : NULL;
}

/* ---------------------------------------------------------------- tensors that nothing read */

/* True for tables in old files of Llama, which follow from the keys. */
static bool is_redundant(span name) {
  static const char part[] = "attn_rot_embd";
  for (size_t i = 0; i + sizeof part - 1 <= name.size; i++)
    if (memcmp(name.data + i, part, sizeof part - 1) == 0) return true;
  return false;
}

void gguf_skip_layers(gguf_file *file, int64_t first) {
  for (size_t i = 0; i < file->n_tensors; i++) {
    gguf_tensor *tensor = &file->tensors[i];
    const char *name = import_text(file->im, "%.*s", (int)tensor->name.size, tensor->name.data);
    if (strncmp(name, "blk.", 4) == 0 && strtoll(name + 4, NULL, 10) >= first)
      tensor->is_used = true;
  }
}

clave_status gguf_check_tensors(gguf_file *file) {
  const char *names = "";
  size_t n = 0;
  for (size_t i = 0; i < file->n_tensors; i++) {
    const gguf_tensor *tensor = &file->tensors[i];
    if (tensor->is_used || is_redundant(tensor->name)) continue;
    if (n++ < 3)
      names = import_text(file->im, "%s%s%s", names, n > 1 ? ", " : "",
                          gguf_shown(file->im, tensor->name));
  }
  if (!n) return NULL;
  if (n <= 3) return UNSUPPORTED("has tensors that are not supported: %s", names);
  return UNSUPPORTED("has tensors that are not supported: %s and %zu more", names, n - 3);
}
