/* Parses tensors on the command line: numbers in nested lists, read as JSON. */
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
  int rank; /* nesting depth of the lists */
  int64_t dims[CLAVE_MAX_RANK];
  char *at; /* destination of the next element */
} literal;

static int literals_refuse(const literal *literal, const char *expected) {
  return fail("--input %s: expected %s, got \"%.60s\"", literal->name, expected, literal->word);
}

/* Derives the shape from the first list at each depth. */
static int literals_read_shape(literal *literal, const json *json) {
  for (literal->rank = 0; json_kind_of(json) == JSON_ARRAY; json = json_first(json)) {
    if (literal->rank == CLAVE_MAX_RANK)
      return literals_refuse(literal, "a tensor of at most 8 dimensions");
    literal->dims[literal->rank++] = (int64_t)json_count(json);
    if (!json_count(json)) break;
  }
  return EXIT_GOOD;
}

/* Reads an integer; 64-bit integers as their bits. */
static bool read_integer(clave_dtype dtype, const json *json, uint64_t *bits) {
  int64_t integer = 0;
  bool is_bool = dtype == CLAVE_BOOL && json_kind_of(json) == JSON_BOOL;
  if (is_bool) integer = json_is_true(json);
  bool good = is_bool || (dtype == CLAVE_U64 ? json_u64(json, bits) : json_i64(json, &integer));
  if (dtype == CLAVE_U64) return good;
  *bits = (uint64_t)integer;
  return good && fits_dtype(dtype, integer);
}

static int store_element(literal *literal, const json *json) {
  size_t size = clave_dtype_size(literal->dtype);
  uint64_t bits = 0;
  double number;
  bool good;
  if (is_integer(literal->dtype)) {
    good = read_integer(literal->dtype, json, &bits);
    memcpy(literal->at, &bits, size);
  } else {
    good = json_kind_of(json) == JSON_NUMBER || json_kind_of(json) == JSON_STRING;
    good = good && json_f64(json, &number);
    if (good) store_number(literal->dtype, number, literal->at);
  }
  literal->at += size;
  return good ? EXIT_GOOD
              : fail("--input %s: \"%.60s\" has an element that is not a value of dtype %s",
                     literal->name, literal->word, clave_dtype_name(literal->dtype));
}

static int store_list(literal *literal, const json *value, int depth) {
  if (depth == literal->rank) return store_element(literal, value);
  if (json_kind_of(value) != JSON_ARRAY || (int64_t)json_count(value) != literal->dims[depth])
    return literals_refuse(literal, "a tensor with lists of equal lengths");
  for (const json *i = json_first(value); i; i = json_next(i))
    TRY_EXIT(store_list(literal, i, depth + 1));
  return EXIT_GOOD;
}

static int literals_store_all(literal *literal, const clave_tensor_info *info, const json *json,
                              npy_file *out) {
  int64_t dims[CLAVE_MAX_RANK], count = 1;
  TRY_EXIT(literals_read_shape(literal, json));
  if (literal->rank > info->rank)
    return fail("--input %s: \"%.60s\" has %d dimensions, and the input has %d", literal->name,
                literal->word, literal->rank, info->rank);
  for (int i = 0; i < info->rank; i++) {
    int from = i - (info->rank - literal->rank);
    dims[i] = from < 0 ? 1 : literal->dims[from];
    count *= dims[i]; /* bounded by the number of letters */
  }
  out->data = calloc((size_t)count + 1, clave_dtype_size(literal->dtype));
  if (!out->data) return fail_memory();
  literal->at = out->data;
  out->tensor = clave_tensor_make(literal->dtype, info->rank, dims, out->data);
  return store_list(literal, json, 0);
}

/* Converts the word to JSON: adds brackets if there are commas, and quotes names such as inf and
 * nan. */
static void literals_write_json(const char *word, page *out) {
  bool list = *word != '[' && strchr(word, ','), named = strspn(word, "-infa") == strlen(word);
  text_printf(out, "%s%s%s%s%s", list ? "[" : "", named ? "\"" : "", word, named ? "\"" : "",
              list ? "]" : "");
}

int read_literal(const char *name, const clave_tensor_info *info, const char *word, npy_file *out) {
  literal literal = {.name = name, .word = word, .dtype = info->dtype};
  page source = {0};
  json *json;
  *out = (npy_file){0};
  literals_write_json(word, &source);
  if (source.failed) return fail_memory();
  clave_status st = json_parse(source.data, source.size, &json);
  text_free(&source);
  if (st) {
    clave_status_free(st);
    return literals_refuse(&literal,
                           "a number or a list of numbers, such as 5, 1,2,3 or [[1,2],[3,4]]");
  }
  int result = literals_store_all(&literal, info, json, out);
  json_free(json);
  if (!result) return EXIT_GOOD;
  free_npy(out);
  *out = (npy_file){0};
  return result;
}
