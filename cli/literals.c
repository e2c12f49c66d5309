/* Tensors on the command line: numbers in nested lists, read as JSON. */
#include "cli/literals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/page.h"
#include "cli/values.h"
#include "json/json.h"

bool is_literal(const char *word) {
  static const char *const names[] = {"true", "false", "nan", "inf", "-inf"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(word, names[i]) == 0) return true;
  }
  return *word && strspn(word, "0123456789+-.eE,[] ") == strlen(word) &&
         strpbrk(word, "0123456789[");
}

typedef struct literal {
  const char *name, *word;
  clave_dtype dtype;
  int rank; /* of the lists */
  int64_t dims[CLAVE_MAX_RANK];
  char *at; /* where the next element goes */
} literal;

static int refuse(const literal *l, const char *expected) {
  return fail("--input %s: expected %s, got \"%.60s\"", l->name, expected, l->word);
}

/* The sizes are those of the first list at each depth. */
static int read_shape(literal *l, const json *v) {
  for (l->rank = 0; json_kind_of(v) == JSON_ARRAY; v = json_first(v)) {
    if (l->rank == CLAVE_MAX_RANK) return refuse(l, "a tensor of at most 8 dimensions");
    l->dims[l->rank++] = (int64_t)json_count(v);
    if (!json_count(v)) break;
  }
  return EXIT_GOOD;
}

/* Integers of 64 bits as their bits. */
static bool read_integer(clave_dtype dtype, const json *v, uint64_t *bits) {
  int64_t integer = 0;
  bool is_bool = dtype == CLAVE_BOOL && json_kind_of(v) == JSON_BOOL;
  if (is_bool) integer = json_is_true(v);
  bool good = is_bool || (dtype == CLAVE_U64 ? json_u64(v, bits) : json_i64(v, &integer));
  if (dtype == CLAVE_U64) return good;
  *bits = (uint64_t)integer;
  return good && fits_dtype(dtype, integer);
}

static int store_element(literal *l, const json *v) {
  size_t size = clave_dtype_size(l->dtype);
  uint64_t bits = 0;
  double number;
  bool good;
  if (is_integer(l->dtype)) {
    good = read_integer(l->dtype, v, &bits);
    memcpy(l->at, &bits, size);
  } else {
    good = json_kind_of(v) == JSON_NUMBER || json_kind_of(v) == JSON_STRING;
    good = good && json_f64(v, &number);
    if (good) store_number(l->dtype, number, l->at);
  }
  l->at += size;
  return good ? EXIT_GOOD
              : fail("--input %s: \"%.60s\" holds what is no %s", l->name, l->word,
                     clave_dtype_name(l->dtype));
}

static int store_list(literal *l, const json *v, int depth) {
  if (depth == l->rank) return store_element(l, v);
  if (json_kind_of(v) != JSON_ARRAY || (int64_t)json_count(v) != l->dims[depth])
    return refuse(l, "a tensor with lists of equal lengths");
  for (const json *i = json_first(v); i; i = json_next(i)) TRY_EXIT(store_list(l, i, depth + 1));
  return EXIT_GOOD;
}

static int store_all(literal *l, const clave_tensor_info *info, const json *v, npy_file *out) {
  int64_t dims[CLAVE_MAX_RANK], count = 1;
  TRY_EXIT(read_shape(l, v));
  if (l->rank > info->rank)
    return fail("--input %s: \"%.60s\" has %d dimensions, the input has %d", l->name, l->word,
                l->rank, info->rank);
  for (int i = 0; i < info->rank; i++) {
    int from = i - (info->rank - l->rank);
    dims[i] = from < 0 ? 1 : l->dims[from];
    count *= dims[i]; /* at most as many as there are letters */
  }
  out->data = calloc((size_t)count + 1, clave_dtype_size(l->dtype));
  if (!out->data) return fail_memory();
  l->at = out->data;
  out->tensor = clave_tensor_make(l->dtype, info->rank, dims, out->data);
  return store_list(l, v, 0);
}

/* JSON of the word: commas make a list, names of floats are texts. */
static void write_json(const char *word, page *out) {
  bool list = *word != '[' && strchr(word, ','), named = strspn(word, "-infa") == strlen(word);
  text_printf(out, "%s%s%s%s%s", list ? "[" : "", named ? "\"" : "", word, named ? "\"" : "",
              list ? "]" : "");
}

int read_literal(const char *name, const clave_tensor_info *info, const char *word, npy_file *out) {
  literal l = {.name = name, .word = word, .dtype = info->dtype};
  page source = {0};
  json *v;
  *out = (npy_file){0};
  write_json(word, &source);
  if (source.failed) return fail_memory();
  clave_status st = json_parse(source.data, source.size, &v);
  text_free(&source);
  if (st) {
    clave_status_free(st);
    return refuse(&l, "a number or a list of numbers, such as 5, 1,2,3 or [[1,2],[3,4]]");
  }
  int result = store_all(&l, info, v, out);
  json_free(v);
  if (!result) return EXIT_GOOD;
  free_npy(out);
  *out = (npy_file){0};
  return result;
}
