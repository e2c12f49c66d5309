/* Builds a program from a check row, with inputs that are the same in every process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "clave_builder.h"
#include "cli/checks.h"
#include "cli/command.h"
#include "cli/values.h"

enum { NAME_SIZE = 32, QUANTISED_BLOCK = 32, QUANTISED_BYTES = 34 };

typedef struct reader {
  clave_builder *builder;
  check_program *out;
  clave_id inputs[CHECK_MAX_OPERANDS], outputs[CHECK_MAX_OPERANDS];
  char output_names[CHECK_MAX_OPERANDS][NAME_SIZE];
  uint32_t random; /* state of the generator of elements */
  bool no_memory;
} reader;

/* A parsed type such as "f32[2,3]<5" or "f32[2,3]!". */
typedef struct shape {
  char type[NAME_SIZE];
  int rank;
  int64_t dims[CLAVE_MAX_RANK], limit;
  bool is_constant;
} shape;

/* Reads comma-separated integers up to `close`. Returns their number. */
static int check_program_read_list(const char *text, char close, int64_t *out, int most) {
  int n = 0;
  while (*text && *text != close && n < most) {
    char *end;
    out[n++] = strtoll(text, &end, 10);
    text = *end == ',' ? end + 1 : end;
  }
  return n;
}

static shape check_program_read_shape(const char *text) {
  shape shape = {.limit = 8};
  const size_t n = strcspn(text, "[");
  if (n < sizeof shape.type) memcpy(shape.type, text, n);
  shape.rank = check_program_read_list(text + n + 1, ']', shape.dims, CLAVE_MAX_RANK);
  const char *mark = text + n + strcspn(text + n, "<!&");
  if (*mark == '<') shape.limit = strtoll(mark + 1, NULL, 10);
  shape.is_constant = *mark == '!';
  return shape;
}

static bool check_program_find_dtype(const char *name, clave_dtype *out) {
  for (int t = 0; clave_dtype_name((clave_dtype)t); t++) {
    *out = (clave_dtype)t;
    if (equal_ascii(clave_dtype_name(*out), name)) return true;
  }
  return false;
}

static uint32_t next_random(reader *reader) {
  return (reader->random = reader->random * 1664525 + 1013904223) >> 8;
}

/* Allocates memory owned by the row's program. Returns NULL if out of memory or entries. */
static void *row_memory(reader *reader, uint64_t bytes) {
  const bool fits = reader->out->n_memory < CHECK_MAX_OPERANDS && bytes < SIZE_MAX / 2;
  void *data = fits ? calloc(1, (size_t)bytes + 1) : NULL;
  if (data) reader->out->memory[reader->out->n_memory++] = data;
  reader->no_memory |= !data;
  return data;
}

static clave_tensor make_data(reader *reader, const shape *shape, clave_dtype dtype) {
  clave_tensor tensor = clave_tensor_make(dtype, shape->rank, shape->dims, NULL);
  const uint64_t n = count_elements(&tensor);
  tensor.data = row_memory(reader, n * clave_dtype_size(dtype));
  for (uint64_t i = 0; tensor.data && i < n; i++) {
    const uint32_t bits = next_random(reader);
    store_number(
        dtype,
        is_integer(dtype) ? (double)((int64_t)bits % shape->limit) : (double)bits * 0x1p-23 - 1,
        (char *)tensor.data + i * clave_dtype_size(dtype));
  }
  return tensor;
}

/* Adds rows of Q8_0: blocks of an F16 scale, here 2^-7, and 32 codes. */
static clave_id add_encoded(reader *reader, const char *name, const shape *shape) {
  const int64_t dims[] = {shape->dims[0], shape->dims[1] / QUANTISED_BLOCK * QUANTISED_BYTES};
  clave_tensor rows = clave_tensor_make(CLAVE_U8, 2, dims, NULL);
  uint8_t *at = rows.data = row_memory(reader, (uint64_t)(dims[0] * dims[1]));
  if (!at) return 0;
  for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
    const int64_t place = i % QUANTISED_BYTES;
    at[i] = place == 0 ? 0 : place == 1 ? 0x20 : (uint8_t)next_random(reader);
  }
  return clave_builder_encoded(reader->builder, name, shape->type, CLAVE_F32, shape->rank,
                               shape->dims, &rows, false);
}

static clave_id add_operand(reader *reader, const char *name, const char *type) {
  const shape shape = check_program_read_shape(type);
  clave_dtype dtype;
  if (!check_program_find_dtype(shape.type, &dtype)) return add_encoded(reader, name, &shape);
  check_program *program = reader->out;
  if (shape.is_constant) {
    const clave_tensor tensor = make_data(reader, &shape, dtype);
    return tensor.data ? clave_builder_constant(reader->builder, name, &tensor, false) : 0;
  }
  if (program->n_inputs == CHECK_MAX_OPERANDS) return 0;
  const clave_id id = clave_builder_tensor(reader->builder, CLAVE_SLOT_INPUT, name, dtype,
                                           shape.rank, shape.dims, NULL);
  program->inputs[program->n_inputs] = make_data(reader, &shape, dtype);
  reader->inputs[program->n_inputs++] = id;
  return id;
}

static void set_operands(reader *reader, const char *name, const char *types) {
  clave_id ids[CHECK_MAX_OPERANDS];
  uint32_t n = 0;
  for (const char *at = types; at && n < CHECK_MAX_OPERANDS; n++) {
    char each[NAME_SIZE];
    (void)snprintf(each, sizeof each, "%.20s%u", name, n);
    ids[n] = add_operand(reader, each, at);
    at = strchr(at, '&');
    if (at) at++;
  }
  clave_builder_set_tensors(reader->builder, name, ids, n);
}

/* Parses "kind:dtype:operands". */
static void set_step(reader *reader, const char *value) {
  char kind[NAME_SIZE] = "", type[NAME_SIZE] = "", list[NAME_SIZE] = "";
  clave_dtype dtype = CLAVE_F32;
  int64_t numbers[2];
  clave_operand operands[2] = {{.source = CLAVE_OPERAND_INPUT}, {.source = CLAVE_OPERAND_INPUT}};
  (void)sscanf(value, "%31[^:]:%31[^:]:%31s", kind, type, list);
  (void)check_program_find_dtype(type, &dtype);
  const int n = check_program_read_list(list, '\0', numbers, 2);
  for (int i = 0; i < n; i++) operands[i].index = (uint32_t)numbers[i];
  clave_builder_step(reader->builder, kind, dtype, operands, (uint32_t)n);
}

static void check_program_set_sizes(reader *reader, const char *name, const char *value) {
  int64_t sizes[CLAVE_MAX_RANK];
  int32_t narrow[CLAVE_MAX_RANK];
  const bool is_ints = *value == '(';
  const int n = check_program_read_list(value + 1, is_ints ? ')' : '}', sizes, CLAVE_MAX_RANK);
  for (int i = 0; i < n; i++) narrow[i] = (int32_t)sizes[i];
  if (is_ints) {
    clave_builder_set_ints(reader->builder, name, narrow, (uint32_t)n);
  } else {
    clave_builder_set_sizes(reader->builder, name, sizes, NULL, (uint32_t)n);
  }
}

static void check_program_set_field(reader *reader, const char *name, const char *value) {
  if (strcmp(name, "steps") == 0) {
    set_step(reader, value);
  } else if (*value == '(' || *value == '{') {
    check_program_set_sizes(reader, name, value);
  } else if (*value == ':') {
    clave_builder_set_text(reader->builder, name, value + 1);
  } else if (strcmp(value, "true") == 0) {
    clave_builder_set_bool(reader->builder, name, true);
  } else if (strchr(value, '&') || strcmp(name, "inputs") == 0) {
    set_operands(reader, name, value);
  } else if (strchr(value, '[')) {
    clave_builder_set_tensor(reader->builder, name, add_operand(reader, name, value));
  } else if (strchr(value, '.')) {
    clave_builder_set_float(reader->builder, name, number_read(value, NULL));
  } else {
    clave_builder_set_int(reader->builder, name, strtoll(value, NULL, 10));
  }
}

static void set_output(reader *reader, const char *name, const char *type) {
  const shape shape = check_program_read_shape(type);
  clave_dtype dtype = CLAVE_F32;
  (void)check_program_find_dtype(shape.type, &dtype);
  const uint32_t n = reader->out->n_outputs++;
  reader->outputs[n] = clave_builder_tensor(reader->builder, CLAVE_SLOT_OUTPUT, name, dtype,
                                            shape.rank, shape.dims, NULL);
  (void)snprintf(reader->output_names[n], NAME_SIZE, "%s", name);
  clave_builder_set_tensor(reader->builder, name, reader->outputs[n]);
}

/* Reads the fields of a row, each "name=value" or "name>type". */
static void read_fields(reader *reader, const char *fields) {
  char word[200];
  int taken;
  for (; sscanf(fields, " %199s%n", word, &taken) == 1; fields += taken) {
    char *mark = strpbrk(word, "=>");
    const bool is_output = *mark == '>';
    *mark = '\0';
    (is_output ? set_output : check_program_set_field)(reader, word, mark + 1);
  }
}

int check_program_make(const check_row *row, check_program *out, clave_status *status) {
  reader reader = {.out = out, .random = 1};
  *out = (check_program){0};
  *status = clave_builder_create(&reader.builder);
  if (*status) return EXIT_GOOD;
  clave_builder_method(reader.builder, "check");
  clave_builder_op(reader.builder, row->op, row->family);
  read_fields(&reader, row->fields);
  for (uint32_t i = 0; i < out->n_inputs; i++) {
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof name, "input_%u", i);
    clave_builder_input(reader.builder, name, reader.inputs[i]);
  }
  for (uint32_t i = 0; i < out->n_outputs; i++)
    clave_builder_output(reader.builder, reader.output_names[i], reader.outputs[i]);
  if (!reader.no_memory) *status = clave_builder_finish(reader.builder, &out->program);
  clave_builder_destroy(reader.builder);
  return reader.no_memory ? fail_memory() : EXIT_GOOD;
}

void check_program_free(check_program *program) {
  clave_program_destroy(program->program);
  for (uint32_t i = 0; i < program->n_memory; i++) free(program->memory[i]);
  *program = (check_program){0};
}
