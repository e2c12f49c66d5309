/* Reads inputs by name or position, matches and checks them. The library checks shapes and dtypes
 * of tensors. */
#include "cli/inputs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/drawn.h"
#include "base/file.h"
#include "base/number.h"
#include "clave_files.h"
#include "cli/literals.h"
#include "cli/values.h"

int describe_inputs(const model *model, input_set *set) {
  uint32_t n = model->method.n_inputs;
  set->items = calloc(n ? n : 1, sizeof *set->items);
  if (!set->items) return fail_memory();
  set->count = n;
  for (uint32_t i = 0; i < n; i++) {
    set->items[i].info.size = sizeof set->items[i].info;
    TRY_STATUS(clave_program_input(model->program, model->method.name, i, &set->items[i].info));
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- names */

static input *find_by_name(const input_set *set, const char *name, size_t length) {
  for (uint32_t i = 0; i < set->count; i++) {
    const char *own = set->items[i].info.name;
    if (strlen(own) == length && memcmp(own, name, length) == 0) return &set->items[i];
  }
  return NULL;
}

/* Parses a position such as "input_3". */
static input *find_by_position(const input_set *set, const char *name, size_t length) {
  for (uint32_t i = 0; i < set->count; i++) {
    char expected[24];
    int n = snprintf(expected, sizeof expected, "input_%" PRIu32, i);
    if ((size_t)n == length && memcmp(expected, name, length) == 0) return &set->items[i];
  }
  return NULL;
}

static int cli_inputs_refuse_name(const input_set *set, const char *where, const char *name,
                                  size_t length) {
  page known = {0};
  for (uint32_t i = 0; i < set->count; i++) {
    text_printf(&known, "%s%s (input_%" PRIu32 ")", i ? ", " : "", set->items[i].info.name, i);
  }
  int result = fail("%s: unknown input \"%.*s\"; the inputs of the program are %s", where,
                    (int)length, name, known.data ? known.data : "none");
  text_free(&known);
  return result;
}

/* ---------------------------------------------------------------- values */

/* Stores a given value. A scalar may be given as one element of any rank and of any dtype of its
 * class. */
static int inputs_set_tensor(input *in, const char *where, const clave_tensor *value) {
  in->value = *value;
  if (!in->info.is_scalar) return EXIT_GOOD;
  bool wants_float = in->info.dtype == CLAVE_F64;
  if (count_elements(value) != 1)
    return fail("%s: input %s: expected a scalar, got a tensor", where, in->info.name);
  if (wants_float == is_integer(value->dtype) ||
      (in->info.dtype == CLAVE_BOOL && value->dtype != CLAVE_BOOL)) {
    return fail("%s: input %s: expected a scalar of dtype %s, got %s", where, in->info.name,
                clave_dtype_name(in->info.dtype), clave_dtype_name(value->dtype));
  }
  if (wants_float) {
    store_number(CLAVE_F64, load_number(value->dtype, value->data), &in->scalar);
  } else {
    in->scalar = (uint64_t)load_integer(value->dtype, value->data);
    if (value->dtype == CLAVE_U64 && in->scalar > INT64_MAX)
      return fail("%s: input %s is %" PRIu64 ", which does not fit in I64", where, in->info.name,
                  in->scalar);
  }
  in->value = clave_tensor_make(in->info.dtype, 0, NULL, &in->scalar);
  return EXIT_GOOD;
}

static bool cli_inputs_parse_integer(const char *text, bool with_sign, int64_t *out) {
  char *end;
  errno = 0;
  *out = with_sign ? strtoll(text, &end, 10) : (int64_t)strtoull(text, &end, 10);
  return *text && !*end && !errno && (with_sign || !strchr(text, '-'));
}

/* Stores a number from the command line, for a scalar or a tensor of rank 0. */
static int set_literal(input *in, const char *literal) {
  clave_dtype type = in->info.dtype;
  int64_t integer = 0;
  if (is_integer(type)) {
    bool good =
        cli_inputs_parse_integer(literal, type != CLAVE_U64, &integer) && fits_dtype(type, integer);
    if (type == CLAVE_BOOL && !good) {
      integer = strcmp(literal, "true") == 0;
      good = integer || strcmp(literal, "false") == 0;
    }
    if (!good)
      return fail("--input %s: expected a value of dtype %s, got \"%s\"", in->info.name,
                  clave_dtype_name(type), literal);
    memcpy(&in->scalar, &integer, sizeof integer);
  } else {
    char *end;
    double number = number_read(literal, &end);
    if (!*literal || *end)
      return fail("--input %s: expected a number, got \"%s\"", in->info.name, literal);
    store_number(type, number, &in->scalar);
  }
  in->value = clave_tensor_make(type, 0, NULL, &in->scalar);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- sources */

static bool is_other(const char *name, const char *const *others) {
  for (; others && *others; others++)
    if (strncmp(name, *others, strlen(*others)) == 0) return true;
  return false;
}

/* True if every tensor of the file has the name of an input; otherwise input_N is a position. */
static bool names_are_own(const input_set *set, const char *const *others) {
  for (uint32_t i = 0; i < clave_tensors_count(set->file); i++) {
    const char *name;
    clave_tensor ignored;
    clave_tensors_get(set->file, i, &name, &ignored);
    if (is_other(name, others)) continue;
    if (!find_by_name(set, name, strlen(name))) return false;
  }
  return true;
}

/* Copies a tensor of a mapped file, because the file may be truncated before the run reads it. */
static int copy_value(const clave_tensor *value, npy_file *out) {
  const size_t bytes = (size_t)count_elements(value) * clave_dtype_size(value->dtype);
  *out = (npy_file){.tensor = *value, .data = malloc(bytes ? bytes : 1)};
  if (!out->data) return fail_memory();
  if (bytes) memcpy(out->data, value->data, bytes);
  out->tensor.data = out->data;
  return EXIT_GOOD;
}

static int cli_inputs_set_from_file(input_set *set, const char *path, uint32_t index, bool own,
                                    const char *const *others) {
  const char *name;
  clave_tensor value;
  clave_tensors_get(set->file, index, &name, &value);
  size_t length = strlen(name);
  input *in = own ? NULL : find_by_position(set, name, length);
  if (!in) in = find_by_name(set, name, length);
  if (!in)
    return is_other(name, others) ? EXIT_GOOD : cli_inputs_refuse_name(set, path, name, length);
  if (in->source) return fail("%s: input %s is already set by %s", path, name, in->source);
  in->source = name;
  TRY_EXIT(copy_value(&value, &in->file));
  return inputs_set_tensor(in, path, &in->file.tensor);
}

int read_input_file(input_set *set, const char *path, const char *const *others) {
  TRY_STATUS(clave_tensors_load(path, &set->file));
  bool own = names_are_own(set, others);
  for (uint32_t i = 0; i < clave_tensors_count(set->file); i++) {
    TRY_EXIT(cli_inputs_set_from_file(set, path, i, own, others));
  }
  TRY_STATUS(clave_tensors_check(set->file));
  return EXIT_GOOD;
}

static int cli_inputs_read_value(input *in, const char *word) {
  bool is_file = path_has_ending(word, ".npy") || access(word, F_OK) == 0;
  if (is_literal(word)) return read_literal(in->info.name, &in->info, word, &in->file);
  if (is_file) return read_npy(word, &in->file);
  return fail(
      "--input %s: \"%.200s\" is neither a .npy file nor numbers, such as 5, 1,2,3 or "
      "[[1,2],[3,4]]",
      in->info.name, word);
}

/* Parses NAME=FILE.npy or NAME=NUMBERS. */
static int set_from_line(input_set *set, const char *item) {
  const char *equals = strchr(item, '=');
  if (!equals || equals == item)
    return fail_usage("--input: expected NAME=FILE.npy or NAME=NUMBERS, got \"%s\"", item);
  size_t length = (size_t)(equals - item);
  input *in = find_by_name(set, item, length);
  if (!in) in = find_by_position(set, item, length);
  if (!in) return cli_inputs_refuse_name(set, "--input", item, length);
  if (in->on_line) return fail("--input %s is given twice", in->info.name);
  free_npy(&in->file);
  in->on_line = true;
  in->source = in->info.name;
  if ((in->info.is_scalar || in->info.rank == 0) && !path_has_ending(item, ".npy"))
    return set_literal(in, equals + 1);
  TRY_EXIT(cli_inputs_read_value(in, equals + 1));
  return inputs_set_tensor(in, equals + 1, &in->file.tensor);
}

int read_input_list(input_set *set, const text_list *list) {
  for (uint32_t i = 0; i < list->count; i++) TRY_EXIT(set_from_line(set, list->items[i]));
  return EXIT_GOOD;
}

int check_inputs(const input_set *set) {
  page missing = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    if (set->items[i].source) continue;
    text_printf(&missing, "%s%s (input_%" PRIu32 "), ", n++ ? "; " : "", set->items[i].info.name,
                i);
    page_info(&missing, &set->items[i].info);
  }
  int result = n ? fail("missing input%s: %s", n > 1 ? "s" : "", missing.data ? missing.data : "")
                 : EXIT_GOOD;
  text_free(&missing);
  return result;
}

int set_inputs(const input_set *set, const model *model) {
  for (uint32_t i = 0; i < set->count; i++) {
    TRY_STATUS(
        clave_session_bind_input(model->session, model->method.name, i, &set->items[i].value));
  }
  return EXIT_GOOD;
}

int collect_inputs(const model *model, const char *path, const text_list *list, input_set *set) {
  TRY_EXIT(describe_inputs(model, set));
  if (path) TRY_EXIT(read_input_file(set, path, NULL));
  TRY_EXIT(read_input_list(set, list));
  return check_inputs(set);
}

void free_inputs(input_set *set) {
  for (uint32_t i = 0; i < set->count; i++) free_npy(&set->items[i].file);
  free(set->items);
  clave_tensors_destroy(set->file);
  *set = (input_set){0};
}

/* ---------------------------------------------------------------- generated inputs */

/* Keeps fixed sizes, and sets dynamic ones to the smallest legal size that is not empty. */
static bool cli_inputs_choose_sizes(const clave_tensor_info *info, int64_t *dims, uint64_t *count) {
  *count = 1;
  for (int i = 0; i < info->rank; i++) {
    dims[i] = info->dims[i] == CLAVE_DYNAMIC ? drawn_size(info->min_dims[i], info->max_dims[i])
                                             : info->dims[i];
    if (__builtin_mul_overflow(*count, (uint64_t)dims[i], count)) return false;
  }
  return *count <= INT64_MAX / 8;
}

int read_dim(const char *given, size_t *length, int64_t *count) {
  const char *equals = strchr(given, '=');
  char *end = NULL;
  errno = 0;
  *count = equals ? strtoll(equals + 1, &end, 10) : 0;
  if (!equals || equals == given || end == equals + 1 || *end || errno || *count < 0)
    return fail_usage("--dim: expected NAME=N with N from 0, got \"%s\"", given);
  *length = (size_t)(equals - given);
  return EXIT_GOOD;
}

static int cli_inputs_fix_scalar(input *in, const char *given, int64_t n) {
  const clave_dtype type = in->info.dtype;
  if (!is_integer(type))
    return fail("--dim %s: expected an integer scalar, but input %s has dtype %s", given,
                in->info.name, clave_dtype_name(type));
  if (type != CLAVE_U64 && !fits_dtype(type, n))
    return fail("--dim %s: input %s has dtype %s, whose range does not include %" PRId64, given,
                in->info.name, clave_dtype_name(type), n);
  in->scalar = (uint64_t)n;
  return EXIT_GOOD;
}

static int fix_dim(input_set *set, const char *given) {
  size_t length;
  int64_t n;
  bool found = false;
  TRY_EXIT(read_dim(given, &length, &n));
  for (uint32_t i = 0; i < set->count; i++) {
    clave_tensor_info *info = &set->items[i].info;
    if (info->is_scalar && strlen(info->name) == length && !strncmp(info->name, given, length)) {
      TRY_EXIT(cli_inputs_fix_scalar(&set->items[i], given, n));
      found = true;
    }
    for (int k = 0; k < info->rank; k++) {
      const char *name = info->dim_names[k];
      if (!name || strlen(name) != length || strncmp(name, given, length) != 0) continue;
      if (n < info->min_dims[k] || n > info->max_dims[k])
        return fail("--dim %s: expected a size from %lld to %lld", given,
                    (long long)info->min_dims[k], (long long)info->max_dims[k]);
      info->dims[k] = n;
      found = true;
    }
  }
  return found ? EXIT_GOOD
               : fail("--dim %s: no open size and no scalar input has this name", given);
}

static int cli_inputs_refuse_twice(const text_list *dims, uint32_t i) {
  const size_t length = strcspn(dims->items[i], "=") + 1;
  for (uint32_t k = 0; k < i; k++)
    if (strncmp(dims->items[i], dims->items[k], length) == 0)
      return fail("--dim %.*s is given twice", (int)length - 1, dims->items[i]);
  return EXIT_GOOD;
}

int fix_dims(input_set *set, const text_list *dims) {
  for (uint32_t i = 0; i < dims->count; i++) {
    TRY_EXIT(cli_inputs_refuse_twice(dims, i));
    TRY_EXIT(fix_dim(set, dims->items[i]));
  }
  return EXIT_GOOD;
}

static int generate_input(input *in, uint64_t *seed) {
  int64_t dims[CLAVE_MAX_RANK] = {0};
  uint64_t count;
  clave_dtype type = in->info.dtype;
  size_t size = clave_dtype_size(type);
  if (!cli_inputs_choose_sizes(&in->info, dims, &count))
    return fail("input %s is too large: its bytes do not fit in 64 bits", in->info.name);
  in->file.data = calloc(count ? (size_t)count : 1, size);
  if (!in->file.data) return fail_memory();
  draw_elements((dtype)type, (size_t)count, in->file.data, seed);
  if (in->info.is_scalar && is_integer(type)) memcpy(in->file.data, &in->scalar, size);
  in->value = clave_tensor_make(type, in->info.rank, dims, in->file.data);
  in->source = in->info.name;
  return EXIT_GOOD;
}

int generate_inputs(input_set *set) {
  uint64_t seed = DRAWN_SEED;
  for (uint32_t i = 0; i < set->count; i++) TRY_EXIT(generate_input(&set->items[i], &seed));
  return EXIT_GOOD;
}

int prepare_inputs(const model *model, const char *path, const text_list *list,
                   const text_list *dims, input_set *set) {
  if ((path || list->count) && dims->count)
    return fail_usage("--dim sets generated inputs, and excludes --inputs and --input");
  if (path || list->count) return collect_inputs(model, path, list, set);
  TRY_EXIT(describe_inputs(model, set));
  TRY_EXIT(fix_dims(set, dims));
  return generate_inputs(set);
}
