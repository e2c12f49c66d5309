/* Constants: the tensors of a model, within its file or in files beside it. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "import/onnx/node.h"

/* TensorProto.DataType. Types of less than a byte are unpacked to bytes. */
static const struct {
  const char *name;
  bool known;
  clave_dtype type;
  int bits; /* 0: as the dtype */
} types[] = {
    {"UNDEFINED", false, 0, 0},        {"FLOAT", true, CLAVE_F32, 0},
    {"UINT8", true, CLAVE_U8, 0},      {"INT8", true, CLAVE_I8, 0},
    {"UINT16", true, CLAVE_U16, 0},    {"INT16", true, CLAVE_I16, 0},
    {"INT32", true, CLAVE_I32, 0},     {"INT64", true, CLAVE_I64, 0},
    {"STRING", false, 0, 0},           {"BOOL", true, CLAVE_BOOL, 0},
    {"FLOAT16", true, CLAVE_F16, 0},   {"DOUBLE", true, CLAVE_F64, 0},
    {"UINT32", true, CLAVE_U32, 0},    {"UINT64", true, CLAVE_U64, 0},
    {"COMPLEX64", false, 0, 0},        {"COMPLEX128", false, 0, 0},
    {"BFLOAT16", true, CLAVE_BF16, 0}, {"FLOAT8E4M3FN", true, CLAVE_F8_E4M3, 0},
    {"FLOAT8E4M3FNUZ", false, 0, 0},   {"FLOAT8E5M2", true, CLAVE_F8_E5M2, 0},
    {"FLOAT8E5M2FNUZ", false, 0, 0},   {"UINT4", true, CLAVE_U8, 4},
    {"INT4", true, CLAVE_I8, 4},       {"FLOAT4E2M1", false, 0, 0},
    {"FLOAT8E8M0", false, 0, 0},       {"UINT2", true, CLAVE_U8, 2},
    {"INT2", true, CLAVE_I8, 2},
};
enum { N_TYPES = sizeof types / sizeof *types };

bool onnx_dtype(int32_t data_type, clave_dtype *out) {
  *out = CLAVE_F32;
  if (data_type < 0 || data_type >= N_TYPES || !types[data_type].known) return false;
  *out = types[data_type].type;
  return true;
}

int onnx_dtype_bits(int32_t data_type) {
  return data_type >= 0 && data_type < N_TYPES ? types[data_type].bits : 0;
}

const char *onnx_dtype_name(int32_t data_type) {
  return data_type >= 0 && data_type < N_TYPES ? types[data_type].name : "an unknown dtype";
}

/* ---------------------------------------------------------------- external data */

/* True if the path stays within the model's folder: relative, without "..". */
static bool is_path_within(const char *path) {
  if (!path[0] || path[0] == '/' || path[0] == '\\' || strchr(path, ':')) return false;
  for (const char *part = path; part; part = strpbrk(part, "/\\")) {
    if (*part == '/' || *part == '\\') part++;
    if (strncmp(part, "..", 2) == 0 && (!part[2] || part[2] == '/' || part[2] == '\\'))
      return false;
  }
  return true;
}

static bool parse_size(const char *text, uint64_t *out) {
  *out = 0;
  if (!text || !*text) return true;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || __builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, (uint64_t)(*text - '0'), out))
      return false;
  }
  return true;
}

static clave_status map_external(onnx_import *onnx, const onnx_tensor *tensor, span *out) {
  const uint8_t *data;
  size_t size;
  uint64_t offset, length;
  const char *location = tensor->location ? tensor->location : "";
  if (!onnx->folder) return INVALID("external data need a model file, in whose folder they are");
  if (!is_path_within(location))
    return INVALID("external data '%.200s': expected a path within the model's folder", location);
  char *path = path_join(onnx->folder, location);
  if (!path) return status_no_memory();
  clave_status st = file_is_below(path, onnx->folder)
                        ? import_open_file(onnx->im, path, &data, &size)
                        : INVALID(
                              "external data '%.200s': expected a file within the model's "
                              "folder, which links do not leave",
                              location);
  free(path);
  TRY(st);
  if (!parse_size(tensor->offset, &offset) || !parse_size(tensor->length, &length) ||
      offset > size || (tensor->length && length > size - offset))
    return INVALID(
        "external data '%.200s': offset %.20s and length %.20s, but the file has %zu "
        "bytes",
        location, tensor->offset ? tensor->offset : "0", tensor->length ? tensor->length : "?",
        size);
  *out =
      (span){(const char *)data + offset, tensor->length ? (size_t)length : size - (size_t)offset};
  return NULL;
}

/* ---------------------------------------------------------------- elements */

/* Stores numbers of int32_data, float_data, ... as elements of the dtype. */
static void pack_numbers(const onnx_numbers *numbers, size_t size, uint8_t *to) {
  for (size_t i = 0; i < numbers->count; i++) memcpy(to + i * size, &numbers->items[i], size);
}

/* Unpacks elements of 2 or 4 bits, the first in the low bits of a byte. */
static void unpack_bits(const uint8_t *from, size_t n, int bits, bool is_signed, uint8_t *to) {
  const int per_byte = 8 / bits;
  for (size_t i = 0; i < n; i++) {
    const int shift = (int)(i % (size_t)per_byte) * bits;
    const int code = from[i / (size_t)per_byte] >> shift & ((1 << bits) - 1);
    to[i] = (uint8_t)(is_signed && code >> (bits - 1) ? code - (1 << bits) : code);
  }
}

/* Sets *out to the bytes of a tensor that is stored as raw bytes or as numbers. n: elements. */
static clave_status find_elements(onnx_import *onnx, const onnx_tensor *tensor, size_t n,
                                  size_t size, int bits, span *out) {
  const size_t need = bits ? (n * (size_t)bits + 7) / 8 : n * size;
  if (tensor->is_external) {
    TRY(map_external(onnx, tensor, out));
  } else if (tensor->has_raw) {
    *out = tensor->raw_data;
  } else if (tensor->packed_floats.data || tensor->packed_doubles.data) {
    *out = tensor->packed_floats.data ? tensor->packed_floats : tensor->packed_doubles;
  } else {
    const size_t one = bits ? 1 : size;
    if (tensor->numbers.count != (bits ? need : n))
      return INVALID("expected %zu elements, got %zu", bits ? need : n, tensor->numbers.count);
    uint8_t *packed = import_alloc(onnx->im, tensor->numbers.count + 1, one);
    if (!packed) return NULL;
    pack_numbers(&tensor->numbers, one, packed);
    *out = (span){(const char *)packed, need};
  }
  return out->size >= need && (tensor->is_external || out->size == need)
             ? NULL
             : INVALID("expected %zu bytes of elements, got %zu", need, out->size);
}

static clave_status count_tensor_elements(const onnx_tensor *tensor, size_t size, int64_t *dims,
                                          size_t *count) {
  size_t bytes;
  *count = 1;
  if (tensor->dims.count > CLAVE_MAX_RANK)
    return UNSUPPORTED("a tensor of rank %zu", tensor->dims.count);
  for (size_t i = 0; i < tensor->dims.count; i++) {
    dims[i] = (int64_t)tensor->dims.items[i];
    if (dims[i] < 0 || !mul_size(*count, (uint64_t)dims[i], count))
      return INVALID("the sizes of the tensor are negative or overflow");
  }
  if (!mul_size(*count, size, &bytes) || bytes > SIZE_MAX / 16)
    return INVALID("the size of the tensor overflows");
  return NULL;
}

/* Elements as the program reads them. BOOL is stored as 0 or 1. */
static const void *own_elements(importer *im, int32_t data_type, size_t n, span bytes) {
  const int bits = types[data_type].bits;
  if (!bits && types[data_type].type != CLAVE_BOOL) return bytes.data;
  uint8_t *own = import_alloc(im, n + 1, 1);
  if (!own) return NULL;
  if (bits) {
    unpack_bits((const uint8_t *)bytes.data, n, bits, types[data_type].type == CLAVE_I8, own);
  } else {
    for (size_t i = 0; i < n; i++) own[i] = bytes.data[i] != 0;
  }
  return own;
}

static clave_status read_constant(onnx_import *onnx, const onnx_tensor *tensor, value **out) {
  clave_dtype type;
  int64_t dims[CLAVE_MAX_RANK];
  size_t n;
  span bytes = {0};
  if (!onnx_dtype(tensor->data_type, &type))
    return UNSUPPORTED("a tensor of dtype %s", onnx_dtype_name(tensor->data_type));
  const size_t size = clave_dtype_size(type);
  TRY(count_tensor_elements(tensor, size, dims, &n));
  TRY(find_elements(onnx, tensor, n, size, types[tensor->data_type].bits, &bytes));
  const void *data = own_elements(onnx->im, tensor->data_type, n, bytes);
  *out = value_constant(onnx->im, tensor->name, type, (int)tensor->dims.count, dims, data);
  if (*out) (*out)->bits = types[tensor->data_type].bits;
  return NULL;
}

value *onnx_constant(onnx_import *onnx, const onnx_tensor *tensor) {
  value *out = NULL;
  if (!import_ok(onnx->im)) return NULL;
  import_fail(onnx->im,
              status_while(read_constant(onnx, tensor, &out), "tensor '%.100s'", tensor->name));
  return out;
}

/* ---------------------------------------------------------------- sparse tensors */

/* Returns the row-major position of element i of a sparse tensor, or -1 if it is out of range. */
static int64_t sparse_position(const onnx_sparse *sparse, const int64_t *dims, const value *indices,
                               int64_t i, int64_t n) {
  const int rank = (int)sparse->dims.count;
  int64_t at = 0, index;
  if (indices->rank == 1) {
    memcpy(&at, (const char *)indices->data + i * 8, 8);
    return at >= 0 && at < n ? at : -1;
  }
  for (int d = 0; d < rank; d++) {
    memcpy(&index, (const char *)indices->data + (i * rank + d) * 8, 8);
    if (index < 0 || index >= dims[d]) return -1;
    at = at * dims[d] + index;
  }
  return at;
}

static value *fill_dense(importer *im, const onnx_sparse *sparse, const value *values,
                         const value *indices) {
  int64_t dims[CLAVE_MAX_RANK] = {0};
  const int rank = (int)sparse->dims.count;
  size_t n = 1;
  bool fits = rank <= CLAVE_MAX_RANK;
  for (int d = 0; d < rank && fits; d++) {
    dims[d] = (int64_t)sparse->dims.items[d];
    fits = dims[d] >= 0 && mul_size(n, (uint64_t)dims[d], &n);
  }
  const int64_t count = values->rank == 1 ? value_count(values) : -1;
  fits = fits && n < INT32_MAX && indices->type == CLAVE_I64 && count >= 0 &&
         value_count(indices) == count * (indices->rank == 1 ? 1 : rank);
  const size_t size = clave_dtype_size(values->type);
  uint8_t *dense = fits ? import_alloc(im, n + 1, size) : NULL;
  for (int64_t i = 0; dense && i < count; i++) {
    const int64_t at = sparse_position(sparse, dims, indices, i, (int64_t)n);
    if (at < 0)
      fits = false;
    else
      memcpy(dense + (size_t)at * size, (const char *)values->data + (size_t)i * size, size);
  }
  if (!fits) import_invalid(im, "the indices or sizes of the sparse tensor are wrong");
  return value_constant(im, values->name, values->type, rank, dims, dense);
}

value *onnx_sparse_constant(onnx_import *onnx, span bytes, const char **name) {
  onnx_sparse sparse;
  import_fail(onnx->im, onnx_read_sparse(onnx->im->pool, bytes, &sparse));
  if (!import_ok(onnx->im)) return NULL;
  *name = sparse.values.name;
  const value *values = onnx_constant(onnx, &sparse.values),
              *indices = onnx_constant(onnx, &sparse.indices);
  return values && indices ? fill_dense(onnx->im, &sparse, values, indices) : NULL;
}
