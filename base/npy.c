/* NumPy's .npy files. The header is a Python dictionary, of which exactly what NumPy writes is
 * taken. */
#include "base/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX_SIZE = 8, HEADER_LIMIT = 65536, TYPE_LIMIT = 16 };

typedef struct header {
  const char *path;
  const char *at, *end; /* what is still to be read */
  char type[TYPE_LIMIT];
  bool fortran, has_type, has_order, has_shape;
  int rank;
  int64_t dims[NPY_MAX_RANK];
} header;

static clave_status refuse_header(const header *h, const char *problem) {
  return INVALID("%s: not a .npy file that can be read: %s", h->path, problem);
}

/* ---------------------------------------------------------------- the dictionary */

static void skip_space(header *h) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t')) h->at++;
}

static bool take(header *h, const char *word) {
  size_t n = strlen(word);
  skip_space(h);
  if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0) return false;
  h->at += n;
  return true;
}

/* A quoted word of fewer than TYPE_LIMIT characters, without escapes. */
static bool take_string(header *h, char *out) {
  skip_space(h);
  if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return false;
  char quote = *h->at++;
  for (size_t n = 0; h->at < h->end && n < TYPE_LIMIT; n++, h->at++) {
    if (*h->at == '\\') return false;
    out[n] = *h->at == quote ? '\0' : *h->at;
    if (*h->at == quote) return h->at++, true;
  }
  return false;
}

static bool take_integer(header *h, int64_t *out) {
  int64_t value = 0;
  skip_space(h);
  const char *start = h->at;
  for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
    int digit = *h->at - '0';
    if (value > (INT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out = value;
  return h->at > start;
}

static clave_status read_shape(header *h) {
  bool more = true;
  if (!take(h, "(")) return refuse_header(h, "the shape is not a tuple");
  while (!take(h, ")")) {
    int64_t dim;
    if (!more || !take_integer(h, &dim))
      return refuse_header(h, "the shape is not a tuple of integers");
    if (h->rank == NPY_MAX_RANK) return refuse_header(h, "more than 8 dimensions");
    h->dims[h->rank++] = dim;
    more = take(h, ",");
  }
  /* (3) is a number, (3,) a tuple */
  return h->rank == 1 && !more ? refuse_header(h, "the shape is not a tuple") : NULL;
}

static clave_status read_entry(header *h, const char *key) {
  bool *seen = strcmp(key, "descr") == 0           ? &h->has_type
               : strcmp(key, "fortran_order") == 0 ? &h->has_order
               : strcmp(key, "shape") == 0         ? &h->has_shape
                                                   : NULL;
  if (!seen) return refuse_header(h, "unknown key in the header");
  if (*seen) return refuse_header(h, "a key of the header is given twice");
  *seen = true;
  if (seen == &h->has_shape) return read_shape(h);
  if (seen == &h->has_type) {
    return take_string(h, h->type) ? NULL : refuse_header(h, "the dtype is not a plain one");
  }
  h->fortran = take(h, "True");
  return h->fortran || take(h, "False") ? NULL : refuse_header(h, "fortran_order is not a bool");
}

static clave_status read_dictionary(header *h) {
  char key[TYPE_LIMIT];
  bool more = true;
  if (!take(h, "{")) return refuse_header(h, "the header is not a dictionary");
  while (!take(h, "}")) {
    if (!more || !take_string(h, key) || !take(h, ":")) return refuse_header(h, "bad header");
    TRY(read_entry(h, key));
    more = take(h, ",");
  }
  skip_space(h);
  if (h->at != h->end) return refuse_header(h, "text after the header");
  if (!h->has_type || !h->has_order || !h->has_shape) return refuse_header(h, "incomplete header");
  return NULL;
}

/* ---------------------------------------------------------------- the tensor */

static const struct {
  const char *type; /* without its byte order */
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
             /* as NumPy writes the types of ml_dtypes */
             {"V2", DTYPE_BF16},
             {"V1", DTYPE_F8_E4M3},
             {"f1", DTYPE_F8_E5M2}};

static clave_status find_dtype(const header *h, dtype *out) {
  const char *type = h->type + 1;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (!*h->type || strcmp(types[i].type, type) != 0) continue;
    *out = types[i].value;
    bool order_matters = dtype_size(*out) > 1;
    if (*h->type == '<' || (!order_matters && *h->type == '|')) return NULL;
    return INVALID("%s: dtype %s is not little-endian (<%s)", h->path, h->type, type);
  }
  return INVALID(
      "%s: dtype %s is none of float16/32/64, int8/16/32/64, uint8/16/32/64, bool, bfloat16, "
      "float8",
      h->path, h->type);
}

/* The strides and the byte size; fails if that overflows. */
static bool lay_out(const header *h, npy_array *t) {
  bool empty = false;
  t->rank = h->rank;
  t->is_fortran = h->fortran;
  for (int i = 0; i < h->rank; i++) empty |= h->dims[i] == 0;
  int64_t stride = 1, limit = (int64_t)(SIZE_MAX / 2) / (int64_t)dtype_size(t->type);
  for (int k = 0; k < h->rank; k++) {
    int i = h->fortran ? k : h->rank - 1 - k;
    t->dims[i] = h->dims[i];
    t->strides[i] = stride;
    if (empty) continue;
    if (h->dims[i] > limit / stride) return false;
    stride *= h->dims[i];
  }
  t->bytes = empty ? 0 : (size_t)stride * dtype_size(t->type);
  return true;
}

static clave_status check_bools(const char *path, const unsigned char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] > 1) return INVALID("%s: element %zu: expected a bool, got %d", path, i, bytes[i]);
  }
  return NULL;
}

/* ---------------------------------------------------------------- the file */

/* Up to the end of the header. */
static clave_status read_header(header *h, const unsigned char *file, size_t size,
                                size_t *data_at) {
  if (size < PREFIX_SIZE) return INVALID("%s: the file ends early", h->path);
  if (memcmp(file, "\x93NUMPY", 6) != 0)
    return refuse_header(h, "it does not begin with \\x93NUMPY");
  if (file[6] < 1 || file[6] > 3) return refuse_header(h, "its format is newer than 3");
  size_t length_size = file[6] == 1 ? 2 : 4, length = 0;
  const size_t begin = PREFIX_SIZE + length_size;
  if (size < begin) return INVALID("%s: the file ends early", h->path);
  for (size_t i = length_size; i-- > 0;) length = length << 8 | file[PREFIX_SIZE + i];
  if (length > HEADER_LIMIT) return refuse_header(h, "its header is longer than 65536 bytes");
  if (size - begin < length) return INVALID("%s: the file ends early", h->path);
  h->at = (const char *)file + begin;
  h->end = h->at + length;
  *data_at = begin + length;
  return read_dictionary(h);
}

clave_status npy_read(const char *name, const void *file, size_t size, npy_array *out) {
  header h = {.path = name};
  size_t data_at = 0;
  *out = (npy_array){0};
  TRY(read_header(&h, file, size, &data_at));
  TRY(find_dtype(&h, &out->type));
  if (!lay_out(&h, out)) return refuse_header(&h, "its shape is too large");
  if (size - data_at != out->bytes)
    return INVALID("%s: holds %zu bytes of data, its shape and dtype need %zu", name,
                   size - data_at, out->bytes);
  out->data = (const unsigned char *)file + data_at;
  return out->type == DTYPE_BOOL ? check_bools(name, out->data, out->bytes) : NULL;
}

void npy_copy(const npy_array *a, void *to) {
  const size_t unit = dtype_size(a->type), n = a->bytes / unit;
  int64_t index[NPY_MAX_RANK] = {0};
  for (size_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int d = 0; d < a->rank; d++) at += index[d] * a->strides[d];
    memcpy((char *)to + i * unit, (const char *)a->data + (size_t)at * unit, unit);
    for (int d = a->rank - 1; d >= 0 && ++index[d] == a->dims[d]; d--) index[d] = 0;
  }
}

/* Padded, as NumPy does it, so that data begin at a multiple of 64 bytes. */
size_t npy_write_header(dtype t, int rank, const int64_t *dims, char to[NPY_HEADER_BYTES]) {
  enum { BEGIN = PREFIX_SIZE + 2, UNIT = 64 };
  size_t i = 0, n = BEGIN;
  while (types[i].value != t) i++; /* all of them are there */
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
