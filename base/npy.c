/* NumPy's .npy files. The header is a Python dictionary; only what NumPy writes is accepted. */
#include "base/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX_SIZE = 8, HEADER_LIMIT = 65536, TYPE_LIMIT = 16 };

typedef struct header {
  const char *path;
  const char *at, *end; /* unread part of the header */
  char type[TYPE_LIMIT];
  bool fortran, has_type, has_order, has_shape;
  int rank;
  int64_t dims[NPY_MAX_RANK];
} header;

static clave_status refuse_header(const header *header, const char *problem) {
  return INVALID("%s: cannot read the .npy file: %s", header->path, problem);
}

/* ---------------------------------------------------------------- the dictionary */

static void npy_skip_space(header *header) {
  while (header->at < header->end &&
         (*header->at == ' ' || *header->at == '\n' || *header->at == '\t'))
    header->at++;
}

static bool base_npy_take(header *header, const char *word) {
  size_t n = strlen(word);
  npy_skip_space(header);
  if ((size_t)(header->end - header->at) < n || memcmp(header->at, word, n) != 0) return false;
  header->at += n;
  return true;
}

/* Reads a quoted word of fewer than TYPE_LIMIT characters, without escapes. */
static bool take_string(header *header, char *out) {
  npy_skip_space(header);
  if (header->at == header->end || (*header->at != '\'' && *header->at != '"')) return false;
  char quote = *header->at++;
  for (size_t n = 0; header->at < header->end && n < TYPE_LIMIT; n++, header->at++) {
    if (*header->at == '\\') return false;
    out[n] = *header->at == quote ? '\0' : *header->at;
    if (*header->at == quote) return header->at++, true;
  }
  return false;
}

static bool take_integer(header *header, int64_t *out) {
  int64_t value = 0;
  npy_skip_space(header);
  const char *start = header->at;
  for (; header->at < header->end && *header->at >= '0' && *header->at <= '9'; header->at++) {
    int digit = *header->at - '0';
    if (value > (INT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out = value;
  return header->at > start;
}

static clave_status npy_read_shape(header *header) {
  bool more = true;
  if (!base_npy_take(header, "(")) return refuse_header(header, "the shape is not a tuple");
  while (!base_npy_take(header, ")")) {
    int64_t dim;
    if (!more || !take_integer(header, &dim))
      return refuse_header(header, "the shape is not a tuple of integers");
    if (header->rank == NPY_MAX_RANK) return refuse_header(header, "more than 8 dimensions");
    header->dims[header->rank++] = dim;
    more = base_npy_take(header, ",");
  }
  /* in Python, (3) is a number and (3,) a tuple */
  return header->rank == 1 && !more ? refuse_header(header, "the shape is not a tuple") : NULL;
}

static clave_status npy_read_entry(header *header, const char *key) {
  bool *seen = strcmp(key, "descr") == 0           ? &header->has_type
               : strcmp(key, "fortran_order") == 0 ? &header->has_order
               : strcmp(key, "shape") == 0         ? &header->has_shape
                                                   : NULL;
  if (!seen) return refuse_header(header, "unknown key in the header");
  if (*seen) return refuse_header(header, "a key of the header appears twice");
  *seen = true;
  if (seen == &header->has_shape) return npy_read_shape(header);
  if (seen == &header->has_type) {
    return take_string(header, header->type)
               ? NULL
               : refuse_header(header, "structured dtypes are not supported");
  }
  header->fortran = base_npy_take(header, "True");
  return header->fortran || base_npy_take(header, "False")
             ? NULL
             : refuse_header(header, "fortran_order is not a bool");
}

static clave_status read_dictionary(header *header) {
  char key[TYPE_LIMIT];
  bool more = true;
  if (!base_npy_take(header, "{")) return refuse_header(header, "the header is not a dictionary");
  while (!base_npy_take(header, "}")) {
    if (!more || !take_string(header, key) || !base_npy_take(header, ":"))
      return refuse_header(header, "bad header");
    TRY(npy_read_entry(header, key));
    more = base_npy_take(header, ",");
  }
  npy_skip_space(header);
  if (header->at != header->end) return refuse_header(header, "text after the header");
  if (!header->has_type || !header->has_order || !header->has_shape)
    return refuse_header(header, "incomplete header");
  return NULL;
}

/* ---------------------------------------------------------------- the tensor */

static const struct {
  const char *type; /* without the byte order character */
  dtype value;
} types[] = {{"f4", DTYPE_F32},
             {"f2", DTYPE_F16},
             {"f8", DTYPE_F64},
             {"i1", DTYPE_I8},
             {"u1", DTYPE_U8},
             {"i2", DTYPE_I16},
             {"i4", DTYPE_I32},
             {"i8", DTYPE_I64},
             {"b1", DTYPE_BOOL},
             {"u2", DTYPE_U16},
             {"u4", DTYPE_U32},
             {"u8", DTYPE_U64},
             /* names under which NumPy writes the types of ml_dtypes */
             {"V2", DTYPE_BF16},
             {"V1", DTYPE_F8_E4M3},
             {"f1", DTYPE_F8_E5M2}};

static clave_status npy_find_dtype(const header *header, dtype *out) {
  const char *type = header->type + 1;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (!*header->type || strcmp(types[i].type, type) != 0) continue;
    *out = types[i].value;
    bool order_matters = dtype_size(*out) > 1;
    if (*header->type == '<' || (!order_matters && *header->type == '|')) return NULL;
    return INVALID("%s: dtype %s is not little-endian: expected <%s", header->path, header->type,
                   type);
  }
  return INVALID(
      "%s: unsupported dtype %s: expected float16/32/64, int8/16/32/64, uint8/16/32/64, bool, "
      "bfloat16 or float8",
      header->path, header->type);
}

/* Computes the strides and the size in bytes. Returns false on overflow. */
static bool base_npy_lay_out(const header *header, npy_array *array) {
  bool empty = false;
  array->rank = header->rank;
  array->is_fortran = header->fortran;
  for (int i = 0; i < header->rank; i++) empty |= header->dims[i] == 0;
  int64_t stride = 1, limit = (int64_t)(SIZE_MAX / 2) / (int64_t)dtype_size(array->type);
  for (int k = 0; k < header->rank; k++) {
    int i = header->fortran ? k : header->rank - 1 - k;
    array->dims[i] = header->dims[i];
    array->strides[i] = stride;
    if (empty) continue;
    if (header->dims[i] > limit / stride) return false;
    stride *= header->dims[i];
  }
  array->bytes = empty ? 0 : (size_t)stride * dtype_size(array->type);
  return true;
}

static clave_status check_bools(const char *path, const unsigned char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] > 1) return INVALID("%s: element %zu: expected a bool, got %d", path, i, bytes[i]);
  }
  return NULL;
}

/* ---------------------------------------------------------------- the file */

/* Reads the file up to the end of the header. */
static clave_status npy_read_header(header *header, const unsigned char *file, size_t size,
                                    size_t *data_at) {
  if (size < PREFIX_SIZE) return INVALID("%s: the file ends early", header->path);
  if (memcmp(file, "\x93NUMPY", 6) != 0)
    return refuse_header(header, "the file does not begin with \\x93NUMPY");
  if (file[6] < 1 || file[6] > 3)
    return refuse_header(header, "the format version is newer than 3");
  size_t length_size = file[6] == 1 ? 2 : 4, length = 0;
  const size_t begin = PREFIX_SIZE + length_size;
  if (size < begin) return INVALID("%s: the file ends early", header->path);
  for (size_t i = length_size; i-- > 0;) length = length << 8 | file[PREFIX_SIZE + i];
  if (length > HEADER_LIMIT) return refuse_header(header, "the header is longer than 65536 bytes");
  if (size - begin < length) return INVALID("%s: the file ends early", header->path);
  header->at = (const char *)file + begin;
  header->end = header->at + length;
  *data_at = begin + length;
  return read_dictionary(header);
}

clave_status npy_read(const char *name, const void *file, size_t size, npy_array *out) {
  header header = {.path = name};
  size_t data_at = 0;
  *out = (npy_array){0};
  TRY(npy_read_header(&header, file, size, &data_at));
  TRY(npy_find_dtype(&header, &out->type));
  if (!base_npy_lay_out(&header, out)) return refuse_header(&header, "the shape is too large");
  if (size - data_at != out->bytes)
    return INVALID("%s: the file has %zu bytes of data, and its shape and dtype need %zu", name,
                   size - data_at, out->bytes);
  out->data = (const unsigned char *)file + data_at;
  return out->type == DTYPE_BOOL ? check_bools(name, out->data, out->bytes) : NULL;
}

void npy_copy(const npy_array *array, void *to) {
  const size_t unit = dtype_size(array->type), n = array->bytes / unit;
  int64_t index[NPY_MAX_RANK] = {0};
  for (size_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int d = 0; d < array->rank; d++) at += index[d] * array->strides[d];
    memcpy((char *)to + i * unit, (const char *)array->data + (size_t)at * unit, unit);
    for (int d = array->rank - 1; d >= 0 && ++index[d] == array->dims[d]; d--) index[d] = 0;
  }
}

/* Pads the header as NumPy does, so that the data begin at a multiple of 64 bytes. */
size_t npy_write_header(dtype t, int rank, const int64_t *dims, char to[NPY_HEADER_BYTES]) {
  enum { BEGIN = PREFIX_SIZE + 2, UNIT = 64 };
  size_t i = 0, n = BEGIN;
  while (types[i].value != t) i++; /* all callers' dtypes are in the table */
  n += (size_t)snprintf(to + n, NPY_HEADER_BYTES - n,
                        "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                        dtype_size(t) > 1 ? '<' : '|', types[i].type);
  for (int d = 0; d < rank; d++)
    n += (size_t)snprintf(to + n, NPY_HEADER_BYTES - n, "%" PRId64 "%s", dims[d],
                          rank == 1      ? ","
                          : d < rank - 1 ? ", "
                                         : "");
  n += (size_t)snprintf(to + n, NPY_HEADER_BYTES - n, "), }");
  while ((n + 1) % UNIT) to[n++] = ' ';
  to[n++] = '\n';
  memcpy(to, "\x93NUMPY\1", PREFIX_SIZE);
  to[PREFIX_SIZE] = (char)((n - BEGIN) & 255);
  to[PREFIX_SIZE + 1] = (char)((n - BEGIN) >> 8);
  return n;
}
