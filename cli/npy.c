/* Reader of .npy files. The header is a Python dictionary, of which exactly what NumPy writes is
 * taken. */
#include "cli/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/values.h"

enum { PREFIX_SIZE = 8, HEADER_LIMIT = 65536, TYPE_LIMIT = 16 };

typedef struct header {
  const char *path;
  const char *at, *end; /* what is still to be read */
  char type[TYPE_LIMIT];
  bool fortran, has_type, has_order, has_shape;
  int rank;
  int64_t dims[CLAVE_MAX_RANK];
} header;

static int refuse_header(const header *h, const char *problem) {
  return fail("%s: not a .npy file clave can read: %s", h->path, problem);
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

static int read_shape(header *h) {
  bool more = true;
  if (!take(h, "(")) return refuse_header(h, "the shape is not a tuple");
  while (!take(h, ")")) {
    int64_t dim;
    if (!more || !take_integer(h, &dim))
      return refuse_header(h, "the shape is not a tuple of integers");
    if (h->rank == CLAVE_MAX_RANK) return refuse_header(h, "more than 8 dimensions");
    h->dims[h->rank++] = dim;
    more = take(h, ",");
  }
  /* (3) is a number, (3,) a tuple */
  return h->rank == 1 && !more ? refuse_header(h, "the shape is not a tuple") : EXIT_GOOD;
}

static int read_entry(header *h, const char *key) {
  bool *seen = strcmp(key, "descr") == 0           ? &h->has_type
               : strcmp(key, "fortran_order") == 0 ? &h->has_order
               : strcmp(key, "shape") == 0         ? &h->has_shape
                                                   : NULL;
  if (!seen) return refuse_header(h, "unknown key in the header");
  if (*seen) return refuse_header(h, "a key of the header is given twice");
  *seen = true;
  if (seen == &h->has_shape) return read_shape(h);
  if (seen == &h->has_type) {
    return take_string(h, h->type) ? EXIT_GOOD : refuse_header(h, "the dtype is not a plain one");
  }
  h->fortran = take(h, "True");
  return h->fortran || take(h, "False") ? EXIT_GOOD
                                        : refuse_header(h, "fortran_order is not a bool");
}

static int read_dictionary(header *h) {
  char key[TYPE_LIMIT];
  bool more = true;
  if (!take(h, "{")) return refuse_header(h, "the header is not a dictionary");
  while (!take(h, "}")) {
    if (!more || !take_string(h, key) || !take(h, ":")) return refuse_header(h, "bad header");
    TRY_EXIT(read_entry(h, key));
    more = take(h, ",");
  }
  skip_space(h);
  if (h->at != h->end) return refuse_header(h, "text after the header");
  if (!h->has_type || !h->has_order || !h->has_shape) return refuse_header(h, "incomplete header");
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the tensor */

static const struct {
  const char *type;
  clave_dtype dtype;
} types[] = {{"f4", CLAVE_F32},
             {"f2", CLAVE_F16},
             {"f8", CLAVE_F64},
             {"i1", CLAVE_I8},
             {"u1", CLAVE_U8},
             {"i2", CLAVE_I16},
             {"i4", CLAVE_I32},
             {"i8", CLAVE_I64},
             {"b1", CLAVE_BOOL},
             {"u2", CLAVE_U16},
             {"u4", CLAVE_U32},
             {"u8", CLAVE_U64},
             /* as NumPy writes the types of ml_dtypes */
             {"V2", CLAVE_BF16},
             {"V1", CLAVE_F8_E4M3},
             {"f1", CLAVE_F8_E5M2}};

static int find_dtype(const header *h, clave_dtype *out) {
  const char *type = h->type + 1;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (!*h->type || strcmp(types[i].type, type) != 0) continue;
    *out = types[i].dtype;
    bool order_matters = clave_dtype_size(*out) > 1;
    if (*h->type == '<' || (!order_matters && *h->type == '|')) return EXIT_GOOD;
    return fail("%s: dtype %s is not little-endian (<%s)", h->path, h->type, type);
  }
  return fail(
      "%s: dtype %s is none of float16/32/64, int8/16/32/64, uint8/16/32/64, bool, bfloat16, "
      "float8",
      h->path, h->type);
}

/* The strides and the byte size; fails if that overflows. */
static bool lay_out(const header *h, clave_tensor *t, size_t *bytes) {
  bool empty = false;
  *t = (clave_tensor){.dtype = t->dtype, .rank = h->rank};
  for (int i = 0; i < h->rank; i++) empty |= h->dims[i] == 0;
  int64_t stride = 1, limit = INT64_MAX / (int64_t)clave_dtype_size(t->dtype);
  for (int k = 0; k < h->rank; k++) {
    int i = h->fortran ? k : h->rank - 1 - k;
    t->dims[i] = h->dims[i];
    t->strides[i] = stride;
    if (empty) continue;
    if (h->dims[i] > limit / stride) return false;
    stride *= h->dims[i];
  }
  *bytes = empty ? 0 : (size_t)stride * clave_dtype_size(t->dtype);
  return true;
}

static int check_bools(const char *path, const unsigned char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] > 1) return fail("%s: element %zu is %d, not a bool", path, i, bytes[i]);
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the file */

static int read_bytes(FILE *f, const char *path, void *out, size_t size) {
  if (fread(out, 1, size, f) == size) return EXIT_GOOD;
  return ferror(f) ? fail("%s: %s", path, strerror(errno)) : fail("%s: the file ends early", path);
}

/* Reads up to the end of the header; gives its text (owned by the caller) in h. */
static int read_header(FILE *f, header *h, char **storage, size_t *data_at) {
  unsigned char prefix[PREFIX_SIZE + 4];
  TRY_EXIT(read_bytes(f, h->path, prefix, PREFIX_SIZE));
  if (memcmp(prefix, "\x93NUMPY", 6) != 0)
    return refuse_header(h, "it does not begin with \\x93NUMPY");
  if (prefix[6] < 1 || prefix[6] > 3) return refuse_header(h, "its format is newer than 3");
  size_t length_size = prefix[6] == 1 ? 2 : 4, length = 0;
  TRY_EXIT(read_bytes(f, h->path, prefix + PREFIX_SIZE, length_size));
  for (size_t i = length_size; i-- > 0;) length = length << 8 | prefix[PREFIX_SIZE + i];
  if (length > HEADER_LIMIT) return refuse_header(h, "its header is longer than 65536 bytes");
  *storage = malloc(length + 1);
  if (!*storage) return fail_memory();
  TRY_EXIT(read_bytes(f, h->path, *storage, length));
  h->at = *storage;
  h->end = *storage + length;
  *data_at = PREFIX_SIZE + length_size + length;
  return read_dictionary(h);
}

static int read_data(FILE *f, const header *h, size_t data_at, size_t file_size, npy_file *out) {
  size_t bytes = 0;
  TRY_EXIT(find_dtype(h, &out->tensor.dtype));
  if (!lay_out(h, &out->tensor, &bytes)) return refuse_header(h, "its shape is too large");
  if (file_size < data_at || file_size - data_at != bytes) {
    return fail("%s: holds %zu bytes of data, its shape and dtype need %zu", h->path,
                file_size < data_at ? 0 : file_size - data_at, bytes);
  }
  out->data = malloc(bytes ? bytes : 1);
  if (!out->data) return fail_memory();
  out->tensor.data = out->data;
  TRY_EXIT(read_bytes(f, h->path, out->data, bytes));
  return out->tensor.dtype == CLAVE_BOOL ? check_bools(h->path, out->data, bytes) : EXIT_GOOD;
}

static int read_open_file(FILE *f, const char *path, npy_file *out) {
  struct stat info;
  header h = {.path = path};
  char *storage = NULL;
  size_t data_at = 0;
  if (fstat(fileno(f), &info)) return fail("%s: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail("%s: not a regular file", path);
  int result = read_header(f, &h, &storage, &data_at);
  if (!result) result = read_data(f, &h, data_at, (size_t)info.st_size, out);
  free(storage);
  return result;
}

int read_npy(const char *path, npy_file *out) {
  *out = (npy_file){0};
  FILE *f = fopen(path, "rb");
  if (!f) return fail("%s: %s", path, strerror(errno));
  int result = read_open_file(f, path, out);
  (void)fclose(f);
  if (result) free_npy(out);
  return result;
}

void free_npy(npy_file *f) {
  free(f->data);
  *f = (npy_file){0};
}
