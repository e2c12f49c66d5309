/* A program that is rebuilt through clave_builder.h has the same bytes. Tests the examples, the
 * valid programs that fuzzing found, and the op cases, which have every op, if they are built.
 *
 *   test_builder_cases [FOLDER of op cases]
 *
 * Run from the project's root. */
#include <cmocka.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "api/internal.h"
#include "base/file.h"
#include "serialize/decode.h"
#include "serialize/encode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"
#include "test/api/rebuild.h"

enum { PATH_SIZE = 512 };
static const char *cases;
static uint32_t ops[IR_OP_COUNT];

static void good(clave_status st, const char *path) {
  if (st) print_error("%s: %s\n", path, clave_status_message(st));
  assert_null(st);
}

static text bytes_of(const ir_program *ir) {
  text text = {0};
  good(encode_flatbuffer(ir, &text), "encoding");
  return text;
}

/* True if the program has kernels of custom ops, which a builder has no setter for. */
static bool has_kernels(const program *program) {
  for (uint32_t c = 0; c < program->ir.chains.count; c++)
    for (uint32_t i = 0; i < program->ir.chains.items[c].instructions.count; i++)
      if (program->ir.chains.items[c].instructions.items[i].op_type == IR_OP_CUSTOM) return true;
  return false;
}

static void expect_same(const program *program, const char *path) {
  clave_program *made;
  good(rebuild_program(program, ops, &made), path);
  good(hash_constants(made->program, &made->program->ir.consts_hash),
       path); /* as where it is saved */
  text given = bytes_of(&program->ir), rebuilt = bytes_of(&made->program->ir);
  if (given.size != rebuilt.size || memcmp(given.data, rebuilt.data, given.size) != 0)
    fail_msg("%s: %zu bytes become %zu others", path, given.size, rebuilt.size);
  for (uint32_t i = 0; i < program->ir.constants.count; i++)
    if (i % 2 == 0 && (uintptr_t)program->constants[i] % 8 == 0)
      assert_ptr_equal(made->program->constants[i], program->constants[i]); /* borrowed */
  text_free(&given);
  text_free(&rebuilt);
  clave_program_destroy(made);
}

static void rebuild_file(const char *path) {
  program *program;
  good(program_load(path, NULL, &program), path);
  if (!has_kernels(program)) expect_same(program, path);
  program_destroy(program);
}

/* Lists the names in a folder, except those that begin with a dot, and returns their number. */
static int each_file(const char *folder, const char *ending, void (*use)(const char *path)) {
  DIR *listing = opendir(folder);
  struct dirent *entry;
  int n = 0;
  while (listing && (entry = readdir(listing))) {
    char path[PATH_SIZE];
    size_t size = strlen(entry->d_name), tail = strlen(ending);
    if (entry->d_name[0] == '.' || size < tail || strcmp(entry->d_name + size - tail, ending) != 0)
      continue;
    assert_true((size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < sizeof path);
    use(path);
    n++;
  }
  if (listing) closedir(listing);
  return n;
}

static void test_examples(void **state) {
  (void)state;
  rebuild_file("examples/mnist/mnist.clv");
  rebuild_file("examples/tinylm/tinylm.clv");
}

static void rebuild_family(const char *folder) { (void)each_file(folder, ".clv", rebuild_file); }

static void test_op_cases(void **state) {
  (void)state;
  if (!cases) skip(); /* not built yet */
  assert_true(each_file(cases, "", rebuild_family) > 20);
  for (int i = 1; i < IR_OP_COUNT; i++)
    if (!ops[i] && i != IR_OP_CUSTOM) fail_msg("no case has %s", op_table[i].name);
}

/* ---------------------------------------------------------------- cases from fuzzing */

static int found_sound;

/* True if the program has only parts that a builder can write: no encodings, constants or kernels,
 * and chains in the order of the methods. */
static bool is_usual(const program *program) {
  for (uint32_t i = 0; i < program->ir.tensors.count; i++)
    if (program->ir.tensors.items[i].encoding) return false;
  for (uint32_t i = 0; i < program->ir.methods.count; i++)
    if (program->ir.methods.items[i].chain != i) return false;
  return program->ir.constants.count == 0 && !has_kernels(program);
}

/* A program that the verifier accepts can be rebuilt, and the result is valid, too. */
static void rebuild_found(const char *path) {
  file_map map;
  program *program;
  clave_program *made = NULL;
  good(file_map_open(path, &map), path);
  good(program_new(&program), path);
  clave_status st = decode_flatbuffer(map.data, map.size, program->pool, &program->ir);
  if (!st) st = verify_program(program);
  if (!st && is_usual(program)) {
    good(rebuild_program(program, ops, &made), path);
    assert_int_equal(made->program->ir.tensors.count, program->ir.tensors.count);
    found_sound++;
  }
  status_free(st);
  clave_program_destroy(made);
  program_destroy(program);
  file_map_close(&map);
}

static void test_found_programs(void **state) {
  (void)state;
  assert_true(each_file("test/fuzz/found/run", "", rebuild_found) > 100);
  print_message("%d sound programs\n", found_sound);
  assert_true(found_sound > 50);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_examples),
      cmocka_unit_test(test_op_cases),
      cmocka_unit_test(test_found_programs),
  };
  cases = argc > 1 ? argv[1] : NULL;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
