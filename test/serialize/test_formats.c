/* Tests FlatBuffers and JSON: round trips of every op and field, damaged and hostile input. */
#include "test/serialize/sample.h"

typedef clave_status (*decode_fn)(const void *bytes, size_t size, mem_pool *pool, ir_program *out);

static clave_status decode_text(const void *bytes, size_t size, mem_pool *pool, ir_program *out) {
  return decode_json(bytes, size, pool, out);
}

static clave_status try_decode(decode_fn decode, const void *bytes, size_t size) {
  mem_pool *pool;
  ir_program ir = {0};
  expect_good(mem_pool_create(&pool));
  uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees reads beyond it */
  memcpy(exact, bytes, size);
  clave_status st = decode(exact, size, pool, &ir);
  free(exact);
  mem_pool_destroy(pool);
  return st;
}

static void test_round_trip(void **state) {
  (void)state;
  uint32_t next_op = 0;
  for (uint64_t seed = 1; seed <= 30; seed++) {
    mem_pool *pool;
    ir_program ir = {0}, back = {0}, again = {0};
    text bytes = {0}, lines = {0}, bytes_again = {0};
    expect_good(mem_pool_create(&pool));
    sampler sampler = {.pool = pool, .seed = seed, .next_op = next_op};
    sample_table(&sampler, &ir_program_table, &ir);
    next_op = sampler.next_op;
    ir.version = 1;
    expect_good(encode_flatbuffer(&ir, &bytes));
    expect_good(decode_flatbuffer(bytes.data, bytes.size, pool, &back));
    assert_same_table(&ir_program_table, &ir, &back);
    expect_good(encode_json(&back, &lines));
    expect_good(decode_json(lines.data, lines.size, pool, &again));
    assert_same_table(&ir_program_table, &ir, &again);
    expect_good(encode_flatbuffer(&again, &bytes_again));
    assert_int_equal(bytes.size, bytes_again.size);
    assert_memory_equal(bytes.data, bytes_again.data, bytes.size);
    text_free(&bytes);
    text_free(&lines);
    text_free(&bytes_again);
    mem_pool_destroy(pool);
  }
  assert_true(next_op >= IR_OP_COUNT);
}

static void test_truncation(void **state) {
  (void)state;
  text bytes = encode_sample();
  size_t padding = 8; /* the file ends with padding, which may be missing */
  for (size_t n = 0; n < bytes.size; n++) {
    clave_status st = try_decode(decode_flatbuffer, bytes.data, n);
    if (!st && n + padding < bytes.size) fail_msg("%zu of %zu bytes decode", n, bytes.size);
    status_free(st);
  }
  text_free(&bytes);
  size_t size = strlen(SAMPLE_PROGRAM) - 1; /* without the last newline */
  for (size_t n = 0; n < size; n++) {
    clave_status st = try_decode(decode_text, SAMPLE_PROGRAM, n);
    assert_non_null(st);
    status_free(st);
  }
}

/* Changes every byte to several values. Each result is an error or a program, never a crash. */
static void test_changed_bytes(void **state) {
  (void)state;
  static const uint8_t changes[] = {0x01, 0x80, 0xFF, 0x7F};
  text bytes = encode_sample();
  for (size_t i = 0; i < bytes.size; i++) {
    for (size_t c = 0; c < sizeof changes; c++) {
      bytes.data[i] = (char)(bytes.data[i] ^ changes[c]);
      status_free(try_decode(decode_flatbuffer, bytes.data, bytes.size));
      bytes.data[i] = (char)(bytes.data[i] ^ changes[c]);
    }
  }
  text_free(&bytes);
}

static void put_u32(uint8_t *at, uint32_t v) { memcpy(at, &v, sizeof v); }

/* A vector's entries all point to one table, whose own vector does the same. The decoder's budget
 * ends this. */
static void test_shared_tables_are_bounded(void **state) {
  (void)state;
  enum { N = 100000, HEAD = 64 };
  /* root table at 32, its vtable at 8 (slot 2 = tensors), vector at HEAD, then one Tensor table */
  size_t size = HEAD + 4 + 4 * N + 4096 + 8 * N;
  uint8_t *file = calloc(1, size);
  memcpy(file + 4, IR_FILE_IDENTIFIER, 4);
  put_u32(file, 32);
  const uint16_t vtable[5] = {10, 8, 0, 0, 4};
  memcpy(file + 8, vtable, sizeof vtable);
  put_u32(file + 32, 32 - 8);
  put_u32(file + 36, HEAD - 36);
  put_u32(file + HEAD, N);
  size_t tensor = HEAD + 4 + 4 * N + 64, shape = tensor + 64;
  for (size_t i = 0; i < N; i++)
    put_u32(file + HEAD + 4 + 4 * i, (uint32_t)(tensor - (HEAD + 4 + 4 * i)));
  const uint16_t tensor_vtable[4] = {8, 8, 0, 4}; /* slot 1 = shape */
  memcpy(file + tensor - 16, tensor_vtable, sizeof tensor_vtable);
  put_u32(file + tensor, 16);
  put_u32(file + tensor + 4, (uint32_t)(shape - tensor - 4));
  put_u32(file + shape, N);
  size_t dim = shape + 4 + 4 * N + 16;
  for (size_t i = 0; i < N; i++)
    put_u32(file + shape + 4 + 4 * i, (uint32_t)(dim - (shape + 4 + 4 * i)));
  const uint16_t dim_vtable[2] = {4, 4};
  memcpy(file + dim - 8, dim_vtable, sizeof dim_vtable);
  put_u32(file + dim, 8);
  expect_error(try_decode(decode_flatbuffer, file, size), "decodes to more than");
  put_u32(file + HEAD, 0xFFFFFFFF);
  expect_error(try_decode(decode_flatbuffer, file, size), "run past the end");
  put_u32(file + 32, 0x80000000);
  expect_error(try_decode(decode_flatbuffer, file, size), "outside the");
  free(file);
}

static void test_not_a_flatbuffer(void **state) {
  (void)state;
  expect_error(try_decode(decode_flatbuffer, "", 0), "not a FlatBuffers program");
  expect_error(try_decode(decode_flatbuffer, "\0\0\0\0CLVX", 8), "not a FlatBuffers program");
  expect_error(try_decode(decode_flatbuffer,
                          "\xff\xff\xff\x7f"
                          "CLVP",
                          8),
               "past the end");
}

/* ---------------------------------------------------------------- JSON */

static const struct {
  const char *text, *error;
} bad_json[] = {
    {"{} x", "JSON column 4: expected nothing after the value"},
    {"{\"version\": 1, \"version\": 1}", "key \"version\" appears twice"},
    {"[]", "expected an object, got an array"},
    {"{\"vresion\": 1}", "Program has no field \"vresion\""},
    {"{\"version\": 1.5}", "version: expected an integer"},
    {"{\"version\": -1}", "version: expected 0 to 4294967295, got -1"},
    {"{\"version\": 4294967296}", "expected 0 to 4294967295, got 4294967296"},
    {"{\"version\": \"1x\"}", "version: expected an integer"},
    {"{\"version\": null}", "version: expected an integer"},
    {"{\"consts_hash\": 18446744073709551615}", "consts_hash: expected an integer of at least 0"},
    {"{\"consts_hash\": \"18446744073709551616\"}",
     "consts_hash: expected an integer of at least 0"},
    {"{\"producer\": 1}", "producer: expected a string, got a number"},
    {"{\"tensors\": {}}", "tensors: expected an array, got an object"},
    {"{\"tensors\": [1]}", "tensors[0]: expected an object, got a number"},
    {"{\"tensors\": [{\"dtype\": \"F8\"}]}", "tensors[0].dtype: unknown DType 'F8'"},
    {"{\"tensors\": [{\"dtype\": true}]}", "dtype: expected a name of DType, got a boolean"},
    {"{\"tensors\": [{\"dtype\": 15}]}", "tensors[0].dtype: unknown DType '15'"},
    {"{\"tensors\": [{\"shape\": [{\"literal\": 9007199254740993}]}]}",
     "tensors[0].shape[0].literal: expected an integer"},
    {"{\"tensors\": [{\"shape\": [{\"vid\": 3}]}]}",
     "tensors[0].shape[0].vid: expected an object, got a number"},
    {"{\"tensors\": [{\"shape\": [{\"vid\": {\"id\": 3}}]}]}",
     "a slot must have the field \"idx\" and no other field"},
    {"{\"tensors\": [{\"shape\": [{\"vid\": {\"idx\": 4294967295}}]}]}",
     "expected slot 0 to 4294967294, got 4294967295"},
    {"{\"tensors\": [{\"shape\": [{\"vid\": {}}]}]}", "a slot must have the field"},
    {"{\"constants\": [{}]}", "constants[0].name: the field is missing"},
    {"{\"chains\": [{\"instructions\": [{}]}]}",
     "chains[0].instructions[0].op: the field is missing"},
    {"{\"chains\": [{\"instructions\": [{\"op\": {}}]}]}", "the field op_type is missing"},
    {"{\"chains\": [{\"instructions\": [{\"op_type\": \"Warp\", \"op\": {}}]}]}",
     "unknown op 'Warp'"},
    {"{\"version\": 99, \"chains\": [{\"instructions\": [{\"op_type\": \"Warp\", \"op\": {}}]}]}",
     "unknown op 'Warp'; the program needs schema version 99, and this build supports version "},
    {"{\"chains\": [{\"instructions\": [{\"op_type\": \"Copy\", \"op\": {\"x\": {\"idx\": 0}}}]}]}",
     "op.out: the field is missing"},
    {"{\"chains\": [{\"instructions\": [{\"op_type\": \"Softmax\", \"op\": {\"x\": {\"idx\": 0}, "
     "\"log\": 1, \"out\": {\"idx\": 0}}}]}]}",
     "op.log: expected a boolean, got a number"},
    {"{\"chains\": [{\"instructions\": [{\"op_type\": \"Pad\", \"op\": {\"x\": {\"idx\": 0}, "
     "\"value\": 1e999, \"out\": {\"idx\": 0}}}]}]}",
     "op.value: expected a number"},
};

static void test_bad_json(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_json / sizeof *bad_json; i++) {
    expect_error(try_decode(decode_text, bad_json[i].text, strlen(bad_json[i].text)),
                 bad_json[i].error);
  }
}

/* JSON variants that flatc's reader accepts: enums and unions by number, numbers as strings. */
static void test_json_variants(void **state) {
  (void)state;
  const char *source =
      " {\"version\": \"1\", \"consts_hash\": \"18446744073709551615\", \"tensors\": [{\"dtype\": "
      "8, \"shape\": "
      "[{\"literal\": \"-9223372036854775808\"}]}], \"chains\": [{\"instructions\": [{\"op\": "
      "{\"x\": {\"idx\": 7}, "
      "\"value\": \"-inf\", \"out\": {\"idx\": 0}}, \"op_type\": 14}]}]} \n";
  mem_pool *pool;
  ir_program ir = {0};
  expect_good(mem_pool_create(&pool));
  expect_good(decode_json(source, strlen(source), pool, &ir));
  assert_int_equal(ir.version, 1);
  assert_true(ir.consts_hash == UINT64_MAX);
  assert_int_equal(ir.tensors.items[0].dtype, DTYPE_I64);
  assert_true(ir.tensors.items[0].shape.items[0].literal == INT64_MIN);
  const ir_instruction *ins = &ir.chains.items[0].instructions.items[0];
  assert_int_equal(ins->op_type, IR_OP_PAD);
  const ir_pad *pad = ins->op;
  assert_true(isinf(pad->value) && pad->value < 0);
  assert_int_equal(pad->x, 7);
  assert_int_equal(pad->out, 0);
  mem_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_truncation),
      cmocka_unit_test(test_changed_bytes),    cmocka_unit_test(test_shared_tables_are_bounded),
      cmocka_unit_test(test_not_a_flatbuffer), cmocka_unit_test(test_bad_json),
      cmocka_unit_test(test_json_variants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
