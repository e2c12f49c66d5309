/* Formats arguments as text, and derives sizes from the lengths of files. */
#include "compile/runtime/arguments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* ---------------------------------------------------------------- bytes */

static bool runtime_arguments_multiply(size_t *by, int64_t n) {
  return n >= 0 && !__builtin_mul_overflow(*by, n, by);
}

bool argument_bytes(const model_argument *argument, const int64_t *dims, size_t *bytes) {
  if (!dims) dims = argument->dims;
  *bytes = dtype_size(argument->type);
  bool is_empty = false;
  for (int i = 0; i < argument->rank; i++) is_empty = is_empty || dims[i] == 0;
  for (int i = 0; i < argument->rank; i++)
    if (dims[i] < 0 || (!is_empty && !runtime_arguments_multiply(bytes, dims[i]))) return false;
  if (is_empty) *bytes = 0;
  return true;
}

/* The bytes of an input as far as its dimensions are known, its unknown size (-1 if none exists),
 * and how often this size occurs. */
typedef struct known_input {
  size_t bytes;
  int unknown, times;
  bool has_more; /* it has several unknown sizes */
} known_input;

static bool runtime_arguments_measure(const model_argument *argument, const int64_t *sizes,
                                      known_input *out) {
  *out = (known_input){.bytes = dtype_size(argument->type), .unknown = -1};
  for (int i = 0; i < argument->rank; i++) {
    const int size = model_size_of(argument->dims[i]);
    if (size < 0 || (sizes && sizes[size] != SIZE_UNKNOWN)) {
      if (argument->dims[i] != MODEL_FOLLOWS &&
          !runtime_arguments_multiply(&out->bytes, size < 0 ? argument->dims[i] : sizes[size]))
        return false;
      continue;
    }
    out->has_more = out->has_more || (out->unknown >= 0 && out->unknown != size);
    out->unknown = size;
    out->times++;
  }
  return true;
}

/* ---------------------------------------------------------------- words */

static void runtime_arguments_append_dim(text *text, const model_method *method, int64_t dim) {
  if (dim >= 0) {
    text_printf(text, "%" PRId64, dim);
  } else {
    text_puts(text, dim == MODEL_FOLLOWS ? "?" : method->sizes[model_size_of(dim)].name);
  }
}

void append_type(text *text, const model_method *method, const model_argument *argument) {
  known_input part;
  size_t bytes;
  if (argument->is_scalar) {
    text_printf(text, "a number, %s", dtype_name(argument->type));
    return;
  }
  text_printf(text, "%s (", dtype_name(argument->type));
  for (int i = 0; i < argument->rank; i++) {
    if (i) text_puts(text, ", ");
    runtime_arguments_append_dim(text, method, argument->dims[i]);
  }
  text_puts(text, ")");
  if (argument_bytes(argument, NULL, &bytes)) {
    text_printf(text, ", %zu bytes", bytes);
  } else if (runtime_arguments_measure(argument, NULL, &part)) {
    text_printf(text, ", a multiple of %zu bytes", part.bytes);
  }
}

/* ---------------------------------------------------------------- sizes */

static clave_status check_bounds(const model_method *method, int size, int64_t n,
                                 const char *from) {
  const model_size *bounds = &method->sizes[size];
  if (n >= bounds->min && n <= bounds->max) return NULL;
  if (bounds->max == INT64_MAX)
    return INVALID("%s: size '%s': expected at least %" PRId64 ", got %" PRId64, from, bounds->name,
                   bounds->min, n);
  return INVALID("%s: size '%s': expected %" PRId64 " to %" PRId64 ", got %" PRId64, from,
                 bounds->name, bounds->min, bounds->max, n);
}

static clave_status wrong_bytes(const model_method *method, const model_argument *argument,
                                const given_input *input, const int64_t *sizes) {
  text text = {0};
  append_type(&text, method, argument);
  for (int i = 0; i < argument->rank; i++) {
    const int size = model_size_of(argument->dims[i]);
    if (size >= 0 && sizes[size] != SIZE_UNKNOWN)
      text_printf(&text, "; '%s' is %" PRId64, method->sizes[size].name, sizes[size]);
  }
  clave_status st = text_status(&text);
  if (!st)
    st = INVALID("%s: %zu bytes do not fit input '%s', which is %s", input->from, input->bytes,
                 argument->name, text.data);
  text_free(&text);
  return st;
}

/* Returns the n with n^k equal to `product`; -1 if none exists. */
static int64_t root_of(uint64_t product, int k) {
  uint64_t low = 0, high = product;
  while (low < high) { /* finds the least n with n^k >= product */
    const uint64_t n = low + (high - low) / 2;
    uint64_t power = 1;
    bool is_large = false;
    for (int i = 0; i < k; i++) is_large = is_large || __builtin_mul_overflow(power, n, &power);
    if (is_large || power >= product) {
      high = n;
    } else {
      low = n + 1;
    }
  }
  uint64_t power = 1;
  for (int i = 0; i < k; i++) power *= low;
  return power == product && low <= INT64_MAX ? (int64_t)low : -1;
}

static clave_status set_size(const model_method *method, int size, int64_t n, const char *from,
                             int64_t *sizes) {
  if (sizes[size] != SIZE_UNKNOWN && sizes[size] != n)
    return INVALID("%s: size '%s' is %" PRId64 " here, and %" PRId64 " in another input or --dim",
                   from, method->sizes[size].name, n, sizes[size]);
  sizes[size] = n;
  return check_bounds(method, size, n, from);
}

static clave_status read_shape(const model_method *method, const model_argument *argument,
                               const given_input *input, int64_t *sizes) {
  for (int i = 0; i < argument->rank; i++) {
    const int size = model_size_of(argument->dims[i]);
    if (size >= 0) TRY(set_size(method, size, input->dims[i], input->from, sizes));
  }
  return NULL;
}

/* Derives the input's only unknown size from its bytes, or checks the bytes. */
static clave_status runtime_arguments_read_input(const model_method *method,
                                                 const model_argument *argument,
                                                 const given_input *input, int64_t *sizes) {
  known_input part;
  if (argument->is_scalar) return NULL;
  if (input->dims) return read_shape(method, argument, input, sizes);
  if (!runtime_arguments_measure(argument, sizes, &part))
    return INVALID("%s: the size of the input overflows", input->from);
  if (part.has_more) return NULL;
  if (part.unknown < 0)
    return input->bytes == part.bytes ? NULL : wrong_bytes(method, argument, input, sizes);
  if (part.bytes == 0)
    return input->bytes == 0 ? NULL : wrong_bytes(method, argument, input, sizes);
  const int64_t n = input->bytes % part.bytes ? -1 : root_of(input->bytes / part.bytes, part.times);
  if (n < 0) return wrong_bytes(method, argument, input, sizes);
  return set_size(method, part.unknown, n, input->from, sizes);
}

static int count_unknown(const model_method *method, const int64_t *sizes, int *first) {
  int n = 0;
  for (int i = method->n_sizes - 1; i >= 0; i--) {
    if (sizes[i] != SIZE_UNKNOWN) continue;
    *first = i;
    n++;
  }
  return n;
}

clave_status find_sizes(const model_method *method, const given_input *given, int64_t *sizes) {
  int unknown = -1, left = count_unknown(method, sizes, &unknown), before;
  for (int i = 0; i < method->n_sizes; i++)
    if (sizes[i] != SIZE_UNKNOWN) TRY(check_bounds(method, i, sizes[i], "--dim"));
  do {
    before = left;
    for (int i = 0; i < method->n_inputs; i++)
      TRY(runtime_arguments_read_input(method, &method->inputs[i], &given[i], sizes));
    left = count_unknown(method, sizes, &unknown);
  } while (left && left < before);
  if (left)
    return INVALID("size '%s' does not follow from the lengths of the files: set it by --dim %s=N",
                   method->sizes[unknown].name, method->sizes[unknown].name);
  for (int i = 0; i < method->n_inputs; i++)
    TRY(runtime_arguments_read_input(method, &method->inputs[i], &given[i], sizes));
  return NULL;
}

void known_dims(const model_argument *argument, const int64_t *sizes, int64_t *dims) {
  for (int i = 0; i < argument->rank; i++) {
    const int size = model_size_of(argument->dims[i]);
    dims[i] = size < 0 ? argument->dims[i] : sizes[size];
  }
}

/* ---------------------------------------------------------------- numbers */

static bool runtime_arguments_parse_integer(const char *word, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(word, &end, 10);
  return *word && !*end && !errno;
}

clave_status read_size(const model_method *method, const char *word, int64_t *sizes) {
  const char *equals = strchr(word, '=');
  const size_t n = equals ? (size_t)(equals - word) : 0;
  int64_t value;
  if (!n || !runtime_arguments_parse_integer(equals + 1, &value) || value < 0)
    return INVALID("--dim: expected NAME=N with N from 0, got \"%s\"", word);
  for (int i = 0; i < method->n_sizes; i++) {
    if (strncmp(method->sizes[i].name, word, n) != 0 || method->sizes[i].name[n]) continue;
    if (sizes[i] != SIZE_UNKNOWN)
      return INVALID("--dim %s: '%s' is given twice", word, method->sizes[i].name);
    sizes[i] = value;
    return NULL;
  }
  return INVALID("--dim %s: method '%s' has no open size of this name", word, method->name);
}

clave_status read_number(const model_argument *argument, const char *word, unsigned char bytes[8]) {
  char *end;
  int64_t integer = 0;
  bool is_good = runtime_arguments_parse_integer(word, &integer);
  if (argument->type == DTYPE_F64) {
    const double number = number_read(word, &end);
    is_good = *word && !*end;
    memcpy(bytes, &number, sizeof number);
  } else if (argument->type == DTYPE_BOOL) {
    if (strcmp(word, "true") == 0) integer = is_good = true;
    if (strcmp(word, "false") == 0) is_good = true;
    is_good = is_good && (integer == 0 || integer == 1);
    bytes[0] = (unsigned char)integer;
  } else {
    memcpy(bytes, &integer, sizeof integer);
  }
  return is_good ? NULL
                 : INVALID("input '%s': expected a number, %s, got \"%.200s\"", argument->name,
                           dtype_name(argument->type), word);
}
