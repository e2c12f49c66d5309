/* Rows of fields as programs, with inputs that are the same in every process. */
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
  clave_builder *b;
  check_program *out;
  clave_id inputs[CHECK_MAX_OPERANDS], outputs[CHECK_MAX_OPERANDS];
  char output_names[CHECK_MAX_OPERANDS][NAME_SIZE];
  uint32_t random; /* of the next element */
  bool no_memory;
} reader;

/* A field's type: "f32[2,3]<5", "f32[2,3]!". */
typedef struct shape {
  char type[NAME_SIZE];
  int rank;
  int64_t dims[CLAVE_MAX_RANK], limit;
  bool is_constant;
} shape;

/* Integers between commas up to `close`; how many. */
static int read_list(const char *s, char close, int64_t *out, int most) {
  int n = 0;
  while (*s && *s != close && n < most) {
    char *end;
    out[n++] = strtoll(s, &end, 10);
    s = *end == ',' ? end + 1 : end;
  }
  return n;
}

static shape read_shape(const char *s) {
  shape h = {.limit = 8};
  const size_t n = strcspn(s, "[");
  if (n < sizeof h.type) memcpy(h.type, s, n);
  h.rank = read_list(s + n + 1, ']', h.dims, CLAVE_MAX_RANK);
  const char *mark = s + n + strcspn(s + n, "<!&");
  if (*mark == '<') h.limit = strtoll(mark + 1, NULL, 10);
  h.is_constant = *mark == '!';
  return h;
}

static bool find_dtype(const char *name, clave_dtype *out) {
  for (int t = 0; clave_dtype_name((clave_dtype)t); t++) {
    *out = (clave_dtype)t;
    if (equal_ascii(clave_dtype_name(*out), name)) return true;
  }
  return false;
}

static uint32_t next_random(reader *r) {
  return (r->random = r->random * 1664525 + 1013904223) >> 8;
}

/* Owned by the row's program. NULL: no memory, or too many. */
static void *row_memory(reader *r, uint64_t bytes) {
  const bool fits = r->out->n_memory < CHECK_MAX_OPERANDS && bytes < SIZE_MAX / 2;
  void *data = fits ? calloc(1, (size_t)bytes + 1) : NULL;
  if (data) r->out->memory[r->out->n_memory++] = data;
  r->no_memory |= !data;
  return data;
}

static clave_tensor make_data(reader *r, const shape *h, clave_dtype dtype) {
  clave_tensor t = clave_tensor_make(dtype, h->rank, h->dims, NULL);
  const uint64_t n = count_elements(&t);
  t.data = row_memory(r, n * clave_dtype_size(dtype));
  for (uint64_t i = 0; t.data && i < n; i++) {
    const uint32_t bits = next_random(r);
    store_number(
        dtype, is_integer(dtype) ? (double)((int64_t)bits % h->limit) : (double)bits * 0x1p-23 - 1,
        (char *)t.data + i * clave_dtype_size(dtype));
  }
  return t;
}

/* Rows of Q8_0: blocks of an F16 scale, here 2^-7, and 32 codes. */
static clave_id add_encoded(reader *r, const char *name, const shape *h) {
  const int64_t dims[] = {h->dims[0], h->dims[1] / QUANTISED_BLOCK * QUANTISED_BYTES};
  clave_tensor rows = clave_tensor_make(CLAVE_U8, 2, dims, NULL);
  uint8_t *at = rows.data = row_memory(r, (uint64_t)(dims[0] * dims[1]));
  if (!at) return 0;
  for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
    const int64_t place = i % QUANTISED_BYTES;
    at[i] = place == 0 ? 0 : place == 1 ? 0x20 : (uint8_t)next_random(r);
  }
  return clave_builder_encoded(r->b, name, h->type, CLAVE_F32, h->rank, h->dims, &rows, false);
}

static clave_id add_operand(reader *r, const char *name, const char *type) {
  const shape h = read_shape(type);
  clave_dtype dtype;
  if (!find_dtype(h.type, &dtype)) return add_encoded(r, name, &h);
  check_program *c = r->out;
  if (h.is_constant) {
    const clave_tensor t = make_data(r, &h, dtype);
    return t.data ? clave_builder_constant(r->b, name, &t, false) : 0;
  }
  if (c->n_inputs == CHECK_MAX_OPERANDS) return 0;
  const clave_id id =
      clave_builder_tensor(r->b, CLAVE_SLOT_INPUT, name, dtype, h.rank, h.dims, NULL);
  c->inputs[c->n_inputs] = make_data(r, &h, dtype);
  r->inputs[c->n_inputs++] = id;
  return id;
}

static void set_operands(reader *r, const char *name, const char *types) {
  clave_id ids[CHECK_MAX_OPERANDS];
  uint32_t n = 0;
  for (const char *at = types; at && n < CHECK_MAX_OPERANDS; n++) {
    char each[NAME_SIZE];
    (void)snprintf(each, sizeof each, "%.20s%u", name, n);
    ids[n] = add_operand(r, each, at);
    at = strchr(at, '&');
    if (at) at++;
  }
  clave_builder_set_tensors(r->b, name, ids, n);
}

/* kind:dtype:operands */
static void set_step(reader *r, const char *value) {
  char kind[NAME_SIZE] = "", type[NAME_SIZE] = "", list[NAME_SIZE] = "";
  clave_dtype dtype = CLAVE_F32;
  int64_t numbers[2];
  clave_operand operands[2] = {{.source = CLAVE_OPERAND_INPUT}, {.source = CLAVE_OPERAND_INPUT}};
  (void)sscanf(value, "%31[^:]:%31[^:]:%31s", kind, type, list);
  (void)find_dtype(type, &dtype);
  const int n = read_list(list, '\0', numbers, 2);
  for (int i = 0; i < n; i++) operands[i].index = (uint32_t)numbers[i];
  clave_builder_step(r->b, kind, dtype, operands, (uint32_t)n);
}

static void set_sizes(reader *r, const char *name, const char *value) {
  int64_t sizes[CLAVE_MAX_RANK];
  int32_t narrow[CLAVE_MAX_RANK];
  const bool is_ints = *value == '(';
  const int n = read_list(value + 1, is_ints ? ')' : '}', sizes, CLAVE_MAX_RANK);
  for (int i = 0; i < n; i++) narrow[i] = (int32_t)sizes[i];
  if (is_ints) {
    clave_builder_set_ints(r->b, name, narrow, (uint32_t)n);
  } else {
    clave_builder_set_sizes(r->b, name, sizes, NULL, (uint32_t)n);
  }
}

static void set_field(reader *r, const char *name, const char *value) {
  if (strcmp(name, "steps") == 0) {
    set_step(r, value);
  } else if (*value == '(' || *value == '{') {
    set_sizes(r, name, value);
  } else if (*value == ':') {
    clave_builder_set_text(r->b, name, value + 1);
  } else if (strcmp(value, "true") == 0) {
    clave_builder_set_bool(r->b, name, true);
  } else if (strchr(value, '&') || strcmp(name, "inputs") == 0) {
    set_operands(r, name, value);
  } else if (strchr(value, '[')) {
    clave_builder_set_tensor(r->b, name, add_operand(r, name, value));
  } else if (strchr(value, '.')) {
    clave_builder_set_float(r->b, name, number_read(value, NULL));
  } else {
    clave_builder_set_int(r->b, name, strtoll(value, NULL, 10));
  }
}

static void set_output(reader *r, const char *name, const char *type) {
  const shape h = read_shape(type);
  clave_dtype dtype = CLAVE_F32;
  (void)find_dtype(h.type, &dtype);
  const uint32_t n = r->out->n_outputs++;
  r->outputs[n] = clave_builder_tensor(r->b, CLAVE_SLOT_OUTPUT, name, dtype, h.rank, h.dims, NULL);
  (void)snprintf(r->output_names[n], NAME_SIZE, "%s", name);
  clave_builder_set_tensor(r->b, name, r->outputs[n]);
}

/* The fields of a row, each "name=value" or "name>type". */
static void read_fields(reader *r, const char *fields) {
  char word[200];
  int taken;
  for (; sscanf(fields, " %199s%n", word, &taken) == 1; fields += taken) {
    char *mark = strpbrk(word, "=>");
    const bool is_output = *mark == '>';
    *mark = '\0';
    (is_output ? set_output : set_field)(r, word, mark + 1);
  }
}

int check_program_make(const check_row *row, check_program *out, clave_status *status) {
  reader r = {.out = out, .random = 1};
  *out = (check_program){0};
  *status = clave_builder_create(&r.b);
  if (*status) return EXIT_GOOD;
  clave_builder_method(r.b, "check");
  clave_builder_op(r.b, row->op, row->family);
  read_fields(&r, row->fields);
  for (uint32_t i = 0; i < out->n_inputs; i++) {
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof name, "input_%u", i);
    clave_builder_input(r.b, name, r.inputs[i]);
  }
  for (uint32_t i = 0; i < out->n_outputs; i++)
    clave_builder_output(r.b, r.output_names[i], r.outputs[i]);
  if (!r.no_memory) *status = clave_builder_finish(r.b, &out->program);
  clave_builder_destroy(r.b);
  return r.no_memory ? fail_memory() : EXIT_GOOD;
}

void check_program_free(check_program *c) {
  clave_program_destroy(c->program);
  for (uint32_t i = 0; i < c->n_memory; i++) free(c->memory[i]);
  *c = (check_program){0};
}
