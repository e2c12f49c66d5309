/* Tests program files: round trips of .clv and .json, saving over used files, damaged and foreign
 * files. */
#include "base/hash.h"
#include "test/serialize/sample.h"

static program *make_sample(void) {
  program *program;
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  return program;
}

/* Compares two programs; `right` was read from a file, so it always has a hash of its constants. */
static void assert_same_program(const program *left, const program *right) {
  ir_program hashed = left->ir;
  assert_true(right->ir.consts_hash != 0);
  if (left->unhashed) hashed.consts_hash = right->ir.consts_hash;
  assert_same_table(&ir_program_table, &hashed, &right->ir);
  assert_memory_equal(left->constants[0], right->constants[0], sizeof sample_weights);
  assert_memory_equal(left->constants[1], right->constants[1], sizeof sample_start);
}

static void test_create(void **state) {
  (void)state;
  program *program = make_sample();
  assert_int_equal(program->ir.version, 1);
  assert_true(program->unhashed && program->ir.consts_hash == 0);
  assert_int_equal(program->types[2].dims[0], DIM_UNKNOWN);
  assert_int_equal(program->types[0].strides[0], 4);
  assert_int_equal(program_slot_kind(&program->ir, 1), SLOT_CONSTANT);
  assert_int_equal(program_slot_kind(&program->ir, 2), SLOT_INPUT);
  assert_int_equal(program_slot_kind(&program->ir, 3), SLOT_OUTPUT);
  assert_int_equal(program_slot_kind(&program->ir, 4), SLOT_STATE);
  assert_int_equal(program_slot_kind(&program->ir, 5), SLOT_TEMPORARY);
  expect_good(program_check_hashes(program));
  program_destroy(program);
  program_destroy(NULL);

  const int64_t dims[2] = {3, 5};
  const constant_data wrong[2] = {{DTYPE_F32, 2, dims, sample_weights},
                                  {DTYPE_I64, 1, dims, sample_start}};
  text bytes = encode_sample();
  expect_error(
      program_create(bytes.data, bytes.size, &(constant_source){.list = wrong, .n = 2}, &program),
      "dtype or shape differs from the program's declaration; constant 0 ('w')");
  assert_null(program);
  expect_error(
      program_create(bytes.data, bytes.size, &(constant_source){.list = wrong, .n = 1}, &program),
      "1 constants are given, and the program has 2");
  text_free(&bytes);
}

/* Saves and loads both formats, and each from the other. */
static void test_round_trips(void **state) {
  (void)state;
  static const char *const names[] = {"a.clv", "b.json", "c.clv", "b.json"};
  program *first = make_sample(), *program = make_sample(), *next;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *path = in_folder(names[i]);
    expect_good(program_save(program, path));
    expect_good(program_load(path, NULL, &next));
    assert_same_program(first, next);
    expect_good(program_check_hashes(next));
    program_destroy(program);
    program = next;
    free(path);
  }
  program_destroy(program);
  size_t n, m;
  char *first_path = in_folder("a.clv"), *last_path = in_folder("c.clv");
  void *first_bytes = read_bytes(first_path, &n), *last_bytes = read_bytes(last_path, &m);
  assert_int_equal(n, m);
  assert_memory_equal(first_bytes, last_bytes, n);
  free(first_bytes);
  free(last_bytes);
  free(first_path);
  free(last_path);
  expect_error(program_save(first, "/tmp/x.bin"),
               "expected a file name that ends in .clv or .json");
  expect_error(program_save(first, "/nonexistent/x.clv"), "/nonexistent/x.clv: no such file");
  expect_error(program_save(first, "/nonexistent/x.json"), "/nonexistent/");
  program_destroy(first);
}

static void test_other_sections_are_kept(void **state) {
  (void)state;
  program *program = make_sample(), *back;
  expect_good(program_set_section(program, "TEST", "hello", 5, false));
  char *path = in_folder("sections.clv"), *json_path = in_folder("sections.json");
  expect_good(program_save(program, path));
  expect_error(program_save(program, json_path),
               "cannot store section 'TEST' of the program: save the program as a .clv");
  expect_good(program_load(path, NULL, &back));
  assert_int_equal(back->n_sections, 1);
  assert_memory_equal(back->sections[0].data, "hello", 5);
  program_destroy(back);
  expect_good(program_set_section(program, "TEST", "hello", 5, true));
  expect_good(program_save(program, path));
  expect_error(program_load(path, NULL, &back), "the file needs section 'TEST'");
  program_destroy(program);
  free(path);
  free(json_path);
}

/* ---------------------------------------------------------------- damage */

static clave_status load_bytes(const char *name, const void *bytes, size_t n, program **out) {
  char *path = in_folder(name);
  write_bytes(path, bytes, n);
  clave_status st = program_load(path, NULL, out);
  if (st && !strstr(status_message(st), path))
    fail_msg("'%s' does not name the file", status_message(st));
  (void)file_remove(path);
  free(path);
  return st;
}

static clave_status read_clv(const uint8_t *bytes, size_t n) {
  program *program;
  expect_good(program_new(&program));
  uint8_t *exact = memory_alloc_aligned(64, (n + 64) / 64 * 64);
  memcpy(exact, bytes, n);
  clave_status st = clv_read(program, exact, n);
  program_destroy(program);
  memory_free(exact);
  return st;
}

static void test_damaged_clv(void **state) {
  (void)state;
  program *program = make_sample(), *bad;
  char *path = in_folder("d.clv");
  expect_good(program_save(program, path));
  size_t n;
  uint8_t *bytes = read_bytes(path, &n);
  assert_int_equal(n, 4096 + 512); /* two constants, each padded to 256, on 4096 */
  expect_error(load_bytes("e.clv", bytes, n - 1, &bad), "cut off or has grown");
  for (size_t size = 0; size < n; size += size < 4000 ? 1 : 37) {
    clave_status st = read_clv(bytes, size);
    assert_non_null(st);
    status_free(st);
  }
  uint64_t end_of_program;
  memcpy(&end_of_program, bytes + 64 + 32 + 8, 8); /* where the second section begins */
  for (size_t i = 0; i < end_of_program; i++) {
    bytes[i] ^= 0x10;
    clave_status st = read_clv(bytes, n);
    uint64_t offset, size;
    memcpy(&offset, bytes + 64 + 8, 8);
    memcpy(&size, bytes + 64 + 16, 8);
    bool padding = i >= 160 && (i < 192 || i >= 192 + size);
    if (!st && !padding) fail_msg("a change of byte %zu goes unnoticed", i);
    status_free(st);
    bytes[i] ^= 0x10;
  }
  bytes[4096] ^= 1; /* a weight, which load does not check */
  write_bytes(path, bytes, n);
  expect_good(program_load(path, NULL, &bad));
  expect_error(program_check_hashes(bad), "the constants are not those of the program");
  program_destroy(bad);
  free(bytes);
  free(path);
  program_destroy(program);
}

/* A change of a .clv, whose hashes are then corrected. */
typedef struct patch {
  size_t section; /* SIZE_MAX: the header */
  size_t at;      /* offset in the table's entry, or in the header */
  uint64_t value;
  size_t bytes;
  const char *error;
} patch;

static void rehash(uint8_t *bytes) {
  uint32_t n;
  uint64_t hash = 0;
  memcpy(&n, bytes + 24, 4);
  memcpy(bytes + 32, &hash, 8);
  hash = hash_bytes(bytes, 64 + 32 * (size_t)(n < 64 ? n : 64));
  memcpy(bytes + 32, &hash, 8);
}

static void test_hostile_clv(void **state) {
  (void)state;
  static const patch patches[] = {
      {SIZE_MAX, 8, 2, 4, "container version 2"},
      {SIZE_MAX, 12, 4, 4, "needs features 0x4"},
      {SIZE_MAX, 16, 1, 8, "its header says 1"},
      {SIZE_MAX, 24, 65, 4, "expected at most 64 sections, got 65"},
      {SIZE_MAX, 24, 0, 4, "section 'PROG' is missing"},
      {SIZE_MAX, 24, 1, 4, "section 'CIDX' is missing"},
      {SIZE_MAX, 24, 2, 4, "section 'CONS' is missing"},
      {0, 0, 0x20202020, 4, "which this build does not support"},
      {1, 0, 0x474F5250, 4, "section 'PROG' appears twice"},
      {0, 8, 0, 8, "overlaps another"},
      {1, 8, 200, 8, "overlaps another"},
      {2, 8, UINT64_MAX, 8, "overlaps another or the end"},
      {2, 16, UINT64_MAX, 8, "overlaps another or the end"},
      {2, 16, 513, 8, "overlaps another or the end"},
      {2, 16, 260, 8, "constant 1 ('start')"},
      {2, 24, 7, 8, "the constants belong to another program"},
      {1, 16, 16, 8, "section 'CIDX' is damaged"},
  };
  program *program = make_sample();
  char *path = in_folder("h.clv");
  expect_good(program_save(program, path));
  size_t n;
  uint8_t *bytes = read_bytes(path, &n), *copy = malloc(n);
  for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
    const patch *patch = &patches[i];
    size_t base = patch->section == SIZE_MAX ? 0 : 64 + 32 * patch->section;
    memcpy(copy, bytes, n);
    memcpy(copy + base + patch->at, &patch->value, patch->bytes);
    rehash(copy);
    expect_error(read_clv(copy, n), patch->error);
  }
  free(bytes);
  free(copy);
  free(path);
  program_destroy(program);
}

static void test_hostile_index(void **state) {
  (void)state;
  static const patch entries[] = {
      /* index: offset and size of constant 0 and 1 */
      {0, 0, 128, 8, "expected a multiple of 256"},
      {0, 8, 47, 8, "47 bytes, and its dtype and shape need 48"},
      {0, 16, 0, 8, "overlap another"},
      {0, 16, UINT64_MAX - 255, 8, "overlap another or the end"},
      {0, 0, 1024, 8, "overlap another or the end"},
  };
  program *program = make_sample();
  char *path = in_folder("i.clv");
  expect_good(program_save(program, path));
  size_t n;
  uint8_t *bytes = read_bytes(path, &n), *copy = malloc(n);
  uint64_t index, hash;
  memcpy(&index, bytes + 64 + 32 + 8, 8);
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    memcpy(copy, bytes, n);
    memcpy(copy + index + entries[i].at, &entries[i].value, 8);
    hash = hash_bytes(copy + index, 32);
    memcpy(copy + 64 + 32 + 24, &hash, 8);
    rehash(copy);
    expect_error(read_clv(copy, n), entries[i].error);
  }
  const uint64_t half = 16; /* bytes of half the index */
  memcpy(copy, bytes, n);
  memcpy(copy + 64 + 32 + 16, &half, 8);
  hash = hash_bytes(copy + index, half);
  memcpy(copy + 64 + 32 + 24, &hash, 8);
  rehash(copy);
  expect_error(read_clv(copy, n), "has 16 bytes, and 2 constants need 32");
  free(bytes);
  free(copy);
  free(path);
  program_destroy(program);
}

/* ---------------------------------------------------------------- foreign and missing files */

static void test_foreign_files(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t n;
    const char *error;
  } files[] = {
      {"", 0, "expected a .clv or .json program, got an empty file"},
      {"hello", 5, "neither a program (.clv, .json) nor a model"},
      {"PK\x03\x04....", 8, "a zip archive"},
      {"GGUF....", 8, "a GGUF model; python -m clave from-gguf converts"},
      {"\x7f"
       "ELF....",
       8, "an executable"},
      {"....CLVP", 8, "a bare FlatBuffers program"},
      {"\x02\0\0\0\0\0\0\0{\"x\"", 12, "a safetensors file"},
      {"\xef\xbb\xbf{}", 5, "byte order mark"},
      {"{}", 2, "the program has no methods"},
  };
  program *program;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    expect_error(load_bytes("f.bin", files[i].bytes, files[i].n, &program), files[i].error);
    assert_null(program);
  }
  expect_error(program_load("/nonexistent/m.clv", NULL, &program),
               "/nonexistent/m.clv: no such file");
  expect_error(program_load(sample_folder, NULL, &program),
               "expected a .clv or .json program, got a folder");
}

static void test_constants_of_json(void **state) {
  (void)state;
  program *program = make_sample(), *back;
  char *path = in_folder("j.json"), *consts = in_folder("consts.safetensors"),
       *other = in_folder("other.safetensors");
  expect_good(program_save(program, path));
  size_t n;
  uint8_t *bytes = read_bytes(consts, &n);
  write_bytes(other, bytes, n);
  expect_good(program_load(path, other, &back));
  program_destroy(back);
  bytes[n - 1] ^= 1;
  write_bytes(other, bytes, n);
  expect_error(program_load(path, other, &back), "the constants are not those of the program");
  expect_error(program_load(path, "/nonexistent/c.safetensors", &back),
               "/nonexistent/c.safetensors: no such file");
  const float w[12] = {0};
  tensor_entry entry = {"w", DTYPE_F32, 2, {4, 3}, w, sizeof w};
  expect_good(tensor_file_save(other, &entry, 1, NULL, 0));
  expect_error(program_load(path, other, &back),
               "the program declares F32 of rank 2 with other sizes; constant 0 ('w')");
  entry.name = "v";
  expect_good(tensor_file_save(other, &entry, 1, NULL, 0));
  expect_error(program_load(path, other, &back),
               "the constants file has no tensor of this name; constant 0 ('w')");
  char *clv = in_folder("j.clv");
  expect_good(program_save(program, clv));
  expect_error(program_load(clv, other, &back), "contains its constants");
  free(clv);
  free(bytes);
  free(path);
  free(consts);
  free(other);
  program_destroy(program);
}

/* Returns a program with the same text and another weight. */
static program *make_other(float first) {
  static float weights[12];
  static const int64_t dims[2][2] = {{3, 4}, {2, 0}};
  memcpy(weights, sample_weights, sizeof weights);
  weights[0] = first;
  const constant_data constants[2] = {{DTYPE_F32, 2, dims[0], weights},
                                      {DTYPE_I64, 1, dims[1], sample_start}};
  program *program = make_sample(), *other;
  text bytes = {0};
  expect_good(encode_flatbuffer(&program->ir, &bytes));
  expect_good(program_create(bytes.data, bytes.size, &(constant_source){.list = constants, .n = 2},
                             &other));
  text_free(&bytes);
  program_destroy(program);
  return other;
}

static void test_whose_constants(void **state) {
  (void)state;
  program *program = make_sample(), *other = make_other(99);
  char *left = in_folder("mine.json"), *right = in_folder("second.json"),
       *consts = in_folder("consts.safetensors");
  clear_folder();
  expect_good(program_save(program, left));
  expect_good(program_save(program, left));                    /* the same again */
  expect_good(program_save(program, right));                   /* the same constants */
  expect_error(program_save(other, right), "is also used by"); /* a's too */
  (void)file_remove(left);
  expect_good(program_save(other, right)); /* only the constant of b */
  expect_error(program_save(program, left), "has the constants of another program");
  assert_false(file_exists(left));
  write_bytes(consts, "x", 1);
  expect_error(program_save(program, left),
               "consts.safetensors exists and may belong to another program");
  (void)file_remove(consts);
  const float w = 1;
  tensor_entry entry = {"w", DTYPE_F32, 0, {0}, &w, 4};
  expect_good(tensor_file_save(consts, &entry, 1, NULL, 0));
  expect_error(program_save(program, left), "may belong to another program");
  (void)file_remove(consts);
  free(left);
  free(right);
  free(consts);
  program_destroy(program);
  program_destroy(other);
}

/* A program may be saved over the files from which it is mapped. */
static void test_save_over_itself(void **state) {
  (void)state;
  static const char *const names[] = {"self.clv", "self.json"};
  for (int i = 0; i < 2; i++) {
    char *path = in_folder(names[i]);
    program *program = make_sample(), *mapped, *back;
    expect_good(program_save(program, path));
    expect_good(program_load(path, NULL, &mapped));
    expect_good(program_save(mapped, path));
    expect_good(program_check_hashes(mapped));
    expect_good(program_load(path, NULL, &back));
    assert_same_program(program, back);
    program_destroy(program);
    program_destroy(mapped);
    program_destroy(back);
    free(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_create),
      cmocka_unit_test(test_round_trips),
      cmocka_unit_test(test_other_sections_are_kept),
      cmocka_unit_test(test_damaged_clv),
      cmocka_unit_test(test_hostile_clv),
      cmocka_unit_test(test_hostile_index),
      cmocka_unit_test(test_foreign_files),
      cmocka_unit_test(test_constants_of_json),
      cmocka_unit_test(test_whose_constants),
      cmocka_unit_test(test_save_over_itself),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
