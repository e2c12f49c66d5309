/* Compares our code with flatc, over programs with every op and field: flatc reads our JSON and our
 * FlatBuffers, and its conversions are the same program. Skipped where flatc is not installed. */
#include "test/serialize/sample.h"

static const char *gen; /* folder with steps.fbs: BUILD/gen, from the path of this test */

/* Runs flatc on `name` in the test's folder, which also gets the result. */
static void run_flatc(const char *options, const char *name) {
  char command[2048];
  (void)snprintf(command, sizeof command, "flatc -I %s -o %s %s %s/%s", gen, sample_folder, options,
                 sample_folder, name);
  if (system(command) != 0) fail_msg("flatc failed: %s", command);
}

static void put_file(const char *name, const text *text) {
  char *path = in_folder(name);
  write_bytes(path, text->data, text->size);
  free(path);
}

static void *get_file(const char *name, size_t *count) {
  char *path = in_folder(name);
  void *bytes = read_bytes(path, count);
  (void)file_remove(path);
  free(path);
  return bytes;
}

static void compare(uint64_t seed, int tame, uint32_t *next_op) {
  mem_pool *pool;
  ir_program ir = {0}, from_json = {0}, from_binary = {0};
  text lines = {0}, bytes = {0};
  size_t n;
  expect_good(mem_pool_create(&pool));
  sampler sampler = {.pool = pool, .seed = seed, .next_op = *next_op, .tame = tame};
  sample_table(&sampler, &ir_program_table, &ir);
  *next_op = sampler.next_op;
  ir.version = 1;
  expect_good(encode_json(&ir, &lines));
  put_file("a.json", &lines);
  run_flatc("--binary serialize/schema.fbs", "a.json");
  void *binary = get_file("a.bin", &n);
  expect_good(decode_flatbuffer(binary, n, pool, &from_json));
  assert_same_table(&ir_program_table, &ir, &from_json);
  free(binary);
  if (tame == 2) {
    expect_good(encode_flatbuffer(&ir, &bytes));
    put_file("b.bin", &bytes);
    run_flatc("--json --strict-json serialize/schema.fbs --", "b.bin");
    char *printed = get_file("b.json", &n);
    expect_good(decode_json(printed, n, pool, &from_binary));
    assert_same_table(&ir_program_table, &ir, &from_binary);
    free(printed);
  }
  text_free(&lines);
  text_free(&bytes);
  mem_pool_destroy(pool);
}

static void test_every_op(void **state) {
  (void)state;
  uint32_t next_op = 0;
  if (system("flatc --version > /dev/null 2>&1") != 0) skip();
  for (uint64_t seed = 1; seed <= 6; seed++) compare(seed, 1, &next_op);
  for (uint64_t seed = 7; seed <= 12; seed++) compare(seed, 2, &next_op);
  assert_true(next_op >= 2 * IR_OP_COUNT);
}

int main(int argc, char **argv) {
  (void)argc;
  char folder[1024];
  const char *slash = strrchr(argv[0], '/');
  (void)snprintf(folder, sizeof folder, "%.*s/../../gen", slash ? (int)(slash - argv[0]) : 1,
                 slash ? argv[0] : ".");
  gen = folder;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_op)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
