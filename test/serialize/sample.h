#ifndef TEST_SERIALIZE_SAMPLE_H
#define TEST_SERIALIZE_SAMPLE_H
/* Programs for tests of the formats: fills any table from a seed by its descriptor, compares tables
 * deeply, and has a small valid program as text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "serialize/decode.h"
#include "serialize/encode.h"
#include "serialize/fields.h"
#include "serialize/program_files.h"

/* ---------------------------------------------------------------- random tables */

typedef struct sampler {
  mem_pool *pool;
  uint64_t seed;
  uint32_t next_op; /* ops in turn */
  int depth;
  int tame; /* 1: no -0, which flatc treats as the default 0; 2: only numbers that any text format
             * preserves */
} sampler;

static inline uint32_t sample_bits(sampler *sampler) {
  sampler->seed = sampler->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(sampler->seed >> 33);
}

static inline void sample_table(sampler *sampler, const ir_table *table, void *out);

static inline void sample_scalar(sampler *sampler, const ir_field *field, char *at) {
  static const int64_t wide[] = {
      1, -1, INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1, -(INT64_C(1) << 53), 123456789012345};
  static const double real[] = {0.1,         -0.0, 1e-300, (double)INFINITY,      -(double)INFINITY,
                                (double)NAN, 3.0,  5e-324, 1.7976931348623157e308};
  static const char *const strings[] = {"x", "a \"quoted\" \\ name", "tab\tnewline\n\x01",
                                        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "/"};
  uint32_t bits = sample_bits(sampler), word = bits, narrow = (bits >> 4) % 7;
  int32_t small = bits & 1 ? (int32_t)bits : -(int32_t)bits;
  int64_t i = wide[narrow];
  uint64_t u = bits & 1 ? UINT64_MAX : (uint64_t)bits << 20;
  double d = real[bits % 9];
  const char *string = strings[bits % 5];
  if (sampler->tame && d == 0) d = 0.1;
  if (sampler->tame == 2) {
    i = (int64_t)narrow - 3;
    u = bits;
    d = 0.25 * (double)narrow - 0.5;
  }
  switch (field->kind) {
    case IR_FIELD_BOOL:
      *(bool *)(void *)at = true;
      break;
    case IR_FIELD_ENUM:
      memcpy(at, &field->enum_->values[bits % field->enum_->count].number, 4);
      break;
    case IR_FIELD_I32:
      memcpy(at, &small, 4);
      break;
    case IR_FIELD_U32:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      memcpy(at, &word, 4);
      break;
    case IR_FIELD_I64:
      memcpy(at, &i, 8);
      break;
    case IR_FIELD_U64:
      memcpy(at, &u, 8);
      break;
    case IR_FIELD_F64:
      memcpy(at, &d, 8);
      break;
    case IR_FIELD_OPT_I32:
      *(ir_opt_i32 *)(void *)at = (ir_opt_i32){narrow ? small : 0, true};
      break;
    case IR_FIELD_OPT_I64:
      *(ir_opt_i64 *)(void *)at = (ir_opt_i64){narrow ? i : 0, true};
      break;
    case IR_FIELD_OPT_F64:
      *(ir_opt_f64 *)(void *)at = (ir_opt_f64){d, true};
      break;
    default:
      memcpy(at, &string, sizeof string);
      break; /* STRING */
  }
}

static inline void sample_union(sampler *sampler, const ir_field *field, char *base) {
  ir_op op = (ir_op)(1 + sampler->next_op++ % (IR_OP_COUNT - 1));
  void *made = mem_pool_alloc(sampler->pool, 1, ir_op_tables[op]->size);
  assert_non_null(made);
  memcpy(base + field->type_offset, &op, sizeof op);
  memcpy(base + field->offset, &made, sizeof made);
  sample_table(sampler, ir_op_tables[op], made);
}

static inline void sample_value(sampler *sampler, const ir_field *field, char *at) {
  void *made;
  switch (field->kind) {
    case IR_FIELD_INT_OR_VID:
      ((ir_int_or_vid *)(void *)at)->present = true;
      sample_table(sampler, &int_or_vid_table, at);
      break;
    case IR_FIELD_FLOAT_OR_VID:
      ((ir_float_or_vid *)(void *)at)->present = true;
      sample_table(sampler, &float_or_vid_table, at);
      break;
    case IR_FIELD_TABLE:
      made = mem_pool_alloc(sampler->pool, 1, field->table->size);
      assert_non_null(made);
      memcpy(at, &made, sizeof made);
      sample_table(sampler, field->table, made);
      break;
    default:
      sample_scalar(sampler, field, at);
      break;
  }
}

static inline void sample_vector(sampler *sampler, const ir_field *field, char *at) {
  ir_field item = vector_item_field(field);
  size_t size = vector_item_size(field);
  ir_vector vector = {
      NULL, field->table == &ir_instruction_table ? IR_OP_COUNT : 1 + sample_bits(sampler) % 3};
  vector.items = mem_pool_alloc(sampler->pool, vector.count, size);
  assert_non_null(vector.items);
  memcpy(at, &vector, sizeof vector);
  for (uint32_t i = 0; i < vector.count; i++) {
    char *entry = (char *)vector.items + i * size;
    if (item.kind == IR_FIELD_TABLE) {
      sample_table(sampler, field->table, entry);
    } else {
      sample_value(sampler, &item, entry);
    }
  }
}

/* Some fields stay absent. */
static inline void sample_table(sampler *sampler, const ir_table *table, void *out) {
  sampler->depth++;
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    char *at = (char *)out + field->offset;
    field_set_default(field, out);
    if (!(field->flags & IR_REQUIRED) && sampler->depth > 1 && sample_bits(sampler) % 4 == 0)
      continue;
    if (field->kind == IR_FIELD_UNION) {
      sample_union(sampler, field, out);
    } else if (field_is_vector(field->kind)) {
      sample_vector(sampler, field, at);
    } else {
      sample_value(sampler, field, at);
    }
  }
  sampler->depth--;
}

/* ---------------------------------------------------------------- comparison */

static inline void assert_same_table(const ir_table *table, const void *left, const void *right);

static inline void assert_same_field(const ir_field *field, const char *left, const char *right) {
  const void *left_value = NULL, *right_value = NULL;
  if (field->kind == IR_FIELD_STRING || field->kind == IR_FIELD_TABLE ||
      field->kind == IR_FIELD_UNION) {
    memcpy(&left_value, left + field->offset, sizeof left_value);
    memcpy(&right_value, right + field->offset, sizeof right_value);
  }
  if (field->kind == IR_FIELD_STRING) {
    assert_string_equal(left_value, right_value);
  } else if (field->kind == IR_FIELD_TABLE) {
    assert_int_equal(left_value == NULL, right_value == NULL);
    if (left_value) assert_same_table(field->table, left_value, right_value);
  } else if (field->kind == IR_FIELD_UNION) {
    ir_op left_op, right_op;
    memcpy(&left_op, left + field->type_offset, sizeof left_op);
    memcpy(&right_op, right + field->type_offset, sizeof right_op);
    assert_int_equal(left_op, right_op);
    assert_same_table(ir_op_tables[left_op], left_value, right_value);
  } else if (field_table(field)) {
    assert_same_table(field_table(field), left + field->offset, right + field->offset);
    assert_int_equal(field_is_default(field, left), field_is_default(field, right));
  } else {
    size_t size = field->kind == IR_FIELD_BOOL ? 1
                  : field->kind == IR_FIELD_OPT_I64 || field->kind == IR_FIELD_OPT_F64 ||
                          field->kind == IR_FIELD_I64 || field->kind == IR_FIELD_U64 ||
                          field->kind == IR_FIELD_F64
                      ? 8
                      : 4;
    if (memcmp(left + field->offset, right + field->offset, size) != 0)
      fail_msg("field %s differs", field->name);
    assert_int_equal(field_is_default(field, left), field_is_default(field, right));
  }
}

static inline void assert_same_table(const ir_table *table, const void *left, const void *right) {
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    if (!field_is_vector(field->kind)) {
      assert_same_field(field, left, right);
      continue;
    }
    ir_vector left_items = vector_at(field, left), right_items = vector_at(field, right);
    ir_field item = vector_item_field(field);
    size_t size = vector_item_size(field);
    assert_int_equal(left_items.count, right_items.count);
    for (uint32_t k = 0; k < left_items.count; k++) {
      const char *left_item = (const char *)left_items.items + k * size,
                 *right_item = (const char *)right_items.items + k * size;
      if (item.kind == IR_FIELD_TABLE) {
        assert_same_table(field->table, left_item, right_item);
      } else {
        assert_same_field(&item, left_item, right_item);
      }
    }
  }
}

/* ---------------------------------------------------------------- a valid program */

/* A program with two methods that share a weight and a state, a dynamic size, control flow, and
 * every kind of slot. */
#define SAMPLE_PROGRAM                                                                             \
  "{\"version\": 1, \"producer\": \"test\",\n"                                                     \
  "\"tensors\": [\n"                                                                               \
  "{\"dtype\": \"F32\", \"shape\": [{\"literal\": 3}, {\"literal\": 4}], \"name\": \"w\"},\n"      \
  "{\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"start\"},\n"                    \
  "{\"dtype\": \"F32\", \"shape\": [{\"vid\": {\"idx\": 0}}, {\"literal\": 3}], \"name\": "        \
  "\"x\"},\n"                                                                                      \
  "{\"dtype\": \"F32\", \"shape\": [{\"vid\": {\"idx\": 0}}, {\"literal\": 4}], \"name\": "        \
  "\"y\"},\n"                                                                                      \
  "{\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"count\"},\n"                    \
  "{\"dtype\": \"F32\", \"shape\": [{\"vid\": {\"idx\": 0}}, {\"literal\": 4}], \"name\": "        \
  "\"t5\"},\n"                                                                                     \
  "{\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"t6\"},\n"                       \
  "{\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"t7\"},\n"                       \
  "{\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"t8\"},\n"                       \
  "{\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"t9\"},\n"                       \
  "{\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"t10\"}],\n"                     \
  "\"n_inputs\": 1, \"n_outputs\": 1, \"n_state\": 1,\n"                                           \
  "\"values\": [{\"name\": \"n\", \"min\": 1, \"max\": 64}, {\"name\": \"flag\", \"type\": "       \
  "\"bool_\"}],\n"                                                                                 \
  "\"constants\": [{\"name\": \"w\"}, {\"name\": \"start\"}],\n"                                   \
  "\"state_inits\": [{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 1}}],\n"                    \
  "\"chains\": [{\"name\": \"main\", \"instructions\": [\n"                                        \
  "{\"op_type\": \"Matmul\", \"op\": {\"a\": {\"idx\": 2}, \"b\": {\"idx\": 0}, \"out\": "         \
  "{\"idx\": 5}}, \"name\": \"mm\"},\n"                                                            \
  "{\"op_type\": \"Softmax\", \"op\": {\"x\": {\"idx\": 5}, \"axis\": -1, \"out\": {\"idx\": "     \
  "3}}, \"name\": \"sm\"},\n"                                                                      \
  "{\"op_type\": \"Elementwise\", \"op\": {\"inputs\": [{\"idx\": 4}], \"steps\": [{\"kind\": "    \
  "\"add\", \"dtype\": \"I64\", "                                                                  \
  "\"operands\": [{\"source\": \"input\"}, {\"source\": \"int_\", \"i\": 1}]}], \"out\": "         \
  "{\"idx\": 6}}, \"name\": \"inc\"}]},\n"                                                         \
  "{\"name\": \"other\", \"instructions\": [\n"                                                    \
  "{\"op_type\": \"If\", \"op\": {\"condition\": {\"idx\": 1}, \"then_chain\": 2, "                \
  "\"else_chain\": 3, "                                                                            \
  "\"args\": [{\"idx\": 4}], \"results\": [{\"idx\": 10}]}, \"name\": \"branch\"}]},\n"            \
  "{\"name\": \"then\", \"args\": [{\"idx\": 7}], \"results\": [{\"idx\": 7}]},\n"                 \
  "{\"name\": \"else\", \"instructions\": [{\"op_type\": \"Copy\", \"op\": {\"x\": {\"idx\": 8}, " \
  "\"out\": {\"idx\": 9}}}], "                                                                     \
  "\"args\": [{\"idx\": 8}], \"results\": [{\"idx\": 9}]}],\n"                                     \
  "\"methods\": [{\"name\": \"forward\", \"inputs\": [{\"name\": \"x\", \"tensor\": {\"idx\": "    \
  "2}}], "                                                                                         \
  "\"outputs\": [{\"name\": \"y\", \"tensor\": {\"idx\": 3}}], "                                   \
  "\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 6}}], \"metadata\": \"{}\"},\n"    \
  "{\"name\": \"count\", \"inputs\": [{\"name\": \"flag\", \"value\": {\"idx\": 1}}], "            \
  "\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 10}}], \"chain\": 1}]}\n"

static inline void expect_error(clave_status st, const char *text) {
  if (!st) fail_msg("no error, expected '%s'", text);
  if (!strstr(status_message(st), text))
    fail_msg("'%s' does not say '%s'", status_message(st), text);
  if (strchr(status_message(st), '\n')) fail_msg("more than one line");
  status_free(st);
}

static inline void expect_good(clave_status st) {
  if (st) fail_msg("%s", status_message(st));
}

static const float sample_weights[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const int64_t sample_start[2] = {5, -7};

/* Makes a program from the JSON and the two constants above. */
static inline clave_status sample_program(const char *json_text, program **out) {
  static const int64_t dims[2][2] = {{3, 4}, {2, 0}};
  const constant_data constants[2] = {{DTYPE_F32, 2, dims[0], sample_weights},
                                      {DTYPE_I64, 1, dims[1], sample_start}};
  mem_pool *pool;
  ir_program ir = {0};
  text bytes = {0};
  *out = NULL;
  TRY(mem_pool_create(&pool));
  clave_status st = decode_json(json_text, strlen(json_text), pool, &ir);
  if (!st) st = encode_flatbuffer(&ir, &bytes);
  if (!st)
    st = program_create(bytes.data, bytes.size, &(constant_source){.list = constants, .n = 2}, out);
  text_free(&bytes);
  mem_pool_destroy(pool);
  return st;
}

/* ---------------------------------------------------------------- files */

static char sample_folder[] = "/tmp/clave_test_XXXXXX";

static inline int make_folder(void **state) {
  (void)state;
  return mkdtemp(sample_folder) ? 0 : 1;
}

static inline void clear_folder(void) {
  folder_entry *entries;
  size_t n;
  clave_status st = folder_list(sample_folder, &entries, &n);
  for (size_t i = 0; !st && i < n; i++) {
    char *path = path_join(sample_folder, entries[i].name);
    (void)file_remove(path);
    free(path);
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
}

static inline int remove_folder(void **state) {
  (void)state;
  clear_folder();
  return rmdir(sample_folder);
}

static inline char *in_folder(const char *name) { return path_join(sample_folder, name); }

static inline void write_bytes(const char *path, const void *bytes, size_t n) {
  file_writer *writer;
  expect_good(file_writer_create(path, &writer));
  expect_good(file_writer_append(writer, bytes, n));
  expect_good(file_writer_commit(writer));
  file_writer_destroy(writer);
}

static inline void *read_bytes(const char *path, size_t *count) {
  file_map map;
  expect_good(file_map_open(path, &map));
  void *copy = malloc(map.size + 1);
  memcpy(copy, map.data, map.size);
  *count = map.size;
  file_map_close(&map);
  return copy;
}

/* SAMPLE_PROGRAM as FlatBuffers. */
static inline text encode_sample(void) {
  mem_pool *pool;
  ir_program ir = {0};
  text bytes = {0};
  expect_good(mem_pool_create(&pool));
  expect_good(decode_json(SAMPLE_PROGRAM, strlen(SAMPLE_PROGRAM), pool, &ir));
  expect_good(encode_flatbuffer(&ir, &bytes));
  mem_pool_destroy(pool);
  return bytes;
}

#endif
