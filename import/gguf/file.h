#ifndef IMPORT_GGUF_FILE_H
#define IMPORT_GGUF_FILE_H
/* A GGUF file: its keys and tensors by name, checked against the size of the file. The layout is
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Values and tensors stay in the file's
 * bytes. */
#include "import/importer.h"

typedef enum gguf_kind { /* kinds of values, as numbered in files */
                         GGUF_U8,
                         GGUF_I8,
                         GGUF_U16,
                         GGUF_I16,
                         GGUF_U32,
                         GGUF_I32,
                         GGUF_F32,
                         GGUF_BOOL,
                         GGUF_TEXT,
                         GGUF_ARRAY,
                         GGUF_U64,
                         GGUF_I64,
                         GGUF_F64,
                         GGUF_KINDS
} gguf_kind;

typedef struct gguf_key {
  span name;
  gguf_kind kind; /* the kind of the elements if it is an array */
  bool is_array;
  bool is_read;
  uint64_t count;   /* elements; 1 if it is no array */
  const void *data; /* in the file, not aligned */
} gguf_key;

typedef struct gguf_type {
  uint32_t number;
  const char *name;
  int elements, bytes; /* a float or an integer is a block of 1 element */
} gguf_type;

enum { GGUF_MAX_RANK = 4 };
typedef struct gguf_tensor {
  span name;
  const gguf_type *type;
  int rank;
  int64_t dims[GGUF_MAX_RANK]; /* as in clave: the file's last dimension first */
  const uint8_t *data;         /* in the file, aligned to 8 bytes if the file's bytes are */
  size_t size;                 /* in bytes */
  bool is_used;
} gguf_tensor;

typedef struct gguf_file {
  importer *im;
  span bytes;
  gguf_key *keys; /* in pool, (n_keys), by name */
  size_t n_keys;
  gguf_tensor *tensors; /* in pool, (n_tensors), by name */
  size_t n_tensors;
  const char *architecture; /* in pool; "" until it is known */
} gguf_file;

/* Reads the header. im: holds the file's lists, and receives the error of a tensor or a key. */
clave_status gguf_file_open(importer *im, span bytes, gguf_file *out) STATUS_CHECK;
/* Returns a name or text for a message: in quotes, escaped, and shortened if it is long. */
const char *gguf_shown(importer *im, span name);
const char *gguf_number_text(importer *im, double number); /* "1.0", for a message */
const char *gguf_kind_name(gguf_kind kind);                /* "uint32" */
size_t gguf_kind_size(gguf_kind kind);                     /* in bytes; 0 for texts and arrays */
/* Compares the names with which two keys, or two tensors, begin; for qsort and bsearch. */
int gguf_by_name(const void *left, const void *right);
/* Return NULL if the file has no key or tensor of this name. */
gguf_key *gguf_find_key(const gguf_file *file, const char *name);
gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name);

/* ---- parts.c ---- */
/* Adds the tensors of the model's other files, if it has several. path: of the file, which is the
 * first; NULL if it has none. */
clave_status gguf_open_parts(gguf_file *file, const char *path) STATUS_CHECK;

/* ---- keys.c: values of keys, which then count as read ----
 * If the key is missing, *value is unchanged: it has the default. */

/* Fails if the key is missing. */
clave_status gguf_need(gguf_file *file, const char *key) STATUS_CHECK;
bool gguf_has(gguf_file *file, const char *key);
bool gguf_is_array(gguf_file *file, const char *key);
/* Returns the full name of a key of the architecture: "llama.block_count". */
const char *gguf_own(gguf_file *file, const char *key);
clave_status gguf_read_integer(gguf_file *file, const char *key, int64_t least, int64_t most,
                               int64_t *value) STATUS_CHECK;
/* Reads a number from 1e-30 to 1e30. */
clave_status gguf_read_number(gguf_file *file, const char *key, double *value) STATUS_CHECK;
clave_status gguf_read_flag(gguf_file *file, const char *key, bool *value) STATUS_CHECK;
clave_status gguf_read_text(gguf_file *file, const char *key, span *value) STATUS_CHECK; /* UTF-8 */

/* Classes of values that can be read in the same way. */
typedef enum gguf_class { GGUF_INTEGERS, GGUF_NUMBERS, GGUF_FLAGS, GGUF_TEXTS } gguf_class;
/* Sets *out to an array of `count` elements (-1: any number) of this class; to NULL if the key is
 * missing. */
clave_status gguf_read_array(gguf_file *file, const char *key, gguf_class of, int64_t count,
                             const gguf_key **out) STATUS_CHECK;
/* Returns element i of an array of numbers or flags. */
double gguf_element(const gguf_key *array, uint64_t i);
/* Reads the text at *at, UTF-8 without NUL, and moves *at after it. index: for the message. */
clave_status gguf_next_text(gguf_file *file, const gguf_key *array, uint64_t index,
                            const uint8_t **at, span *out) STATUS_CHECK;
/* Fails if a key of the architecture was not read, except for some that do not matter. */
clave_status gguf_check_keys(gguf_file *file) STATUS_CHECK;

#endif
