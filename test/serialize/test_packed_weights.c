/* Packed weights in a .clv: round trips, lookup by the fields that determine the bytes, damage. */
#include "base/hash.h"
#include "test/serialize/sample.h"

enum { BYTES = 5000, HEAD = 16, ENTRY = 232 };

/* Returns packed weight `n` of the sample's first constant. */
static program_packed_weight form_of(int n) {
  program_packed_weight desc = {
      .layout = "cpu 1 test",
      .kind = n,
      .view = {.type = DTYPE_F32, .rank = 2, .dims = {4, 3}, .strides = {1, 4}},
      .size = {3, 4, 1},
      .bytes = BYTES};
  uint8_t *bytes = malloc(BYTES);
  assert_non_null(bytes);
  for (int i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(i * 7 + n);
  desc.data = desc.own = bytes;
  return desc;
}

static program *make_packed(int packed_weights) {
  program *program;
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  for (int i = 0; i < packed_weights; i++) {
    const program_packed_weight desc = form_of(i);
    expect_good(program_add_packed_weight(program, &desc));
  }
  return program;
}

static program *save_and_load(const program *prog, const char *name) {
  program *back;
  char *path = in_folder(name);
  expect_good(program_save(prog, path));
  expect_good(program_load(path, NULL, &back));
  free(path);
  return back;
}

static void there_and_back(void **state) {
  (void)state;
  program *prog = make_packed(3), *once = save_and_load(prog, "a.clv"),
          *twice = save_and_load(once, "b.clv"), *json = save_and_load(twice, "c.json");
  assert_int_equal(json->n_packed_weights, 0);
  assert_int_equal(twice->n_packed_weights, 3);
  expect_good(program_check_hashes(twice));
  for (int i = 0; i < 3; i++) {
    program_packed_weight want = form_of(i);
    const program_packed_weight *desc = program_find_packed_weight(twice, &want);
    assert_non_null(desc);
    assert_true(program_packed_weight_is_whole(desc));
    assert_memory_equal(desc->data, want.data, BYTES);
    assert_int_equal((uintptr_t)desc->data % 4096, 0);
    free(want.own);
  }
  program *all[] = {prog, once, twice, json};
  for (size_t i = 0; i < 4; i++) program_destroy(all[i]);
}

/* Each field distinguishes a packed weight from others. */
static void found_by_every_field(void **state) {
  (void)state;
  program *program = make_packed(1), *back = save_and_load(program, "d.clv");
  program_packed_weight desc = form_of(0), others[11];
  enum { N = sizeof others / sizeof *others };
  for (int i = 0; i < N; i++) others[i] = desc;
  strcpy(others[0].layout, "cpu 2 test");
  others[1].constant = 1;
  others[2].kind = 1;
  others[3].view.type = DTYPE_I32;
  others[4].view.rank = 1;
  others[5].view.dims[1] = 2;
  others[6].view.strides[0] = 2;
  others[7].view.offset = 1;
  others[8].size[2] = 2;
  others[9].bytes = BYTES - 1;
  strcpy(others[10].layout, "cpu 1 tes");
  assert_non_null(program_find_packed_weight(back, &desc));
  for (int i = 0; i < N; i++) assert_null(program_find_packed_weight(back, &others[i]));
  free(desc.own);
  program_destroy(program);
  program_destroy(back);
}

static void one_takes_the_place_of_the_same(void **state) {
  (void)state;
  program *program = make_packed(2);
  program_packed_weight desc = form_of(1);
  ((uint8_t *)desc.own)[9] ^= 1;
  expect_good(program_add_packed_weight(program, &desc));
  assert_int_equal(program->n_packed_weights, 2);
  assert_true(program_find_packed_weight(program, &desc)->data == desc.data &&
              program_packed_weight_is_whole(&program->packed_weights[1]));
  program_drop_packed_weights(program);
  assert_int_equal(program->n_packed_weights, 0);
  program_destroy(program);
}

/* ---------------------------------------------------------------- damage */

typedef struct file {
  uint8_t *bytes; /* owned, aligned */
  size_t size;
  uint8_t *index, *packed_weights; /* in the table of sections */
} file;

static uint64_t get(const uint8_t *at) {
  uint64_t v;
  memcpy(&v, at, sizeof v);
  return v;
}
static void put(uint8_t *at, uint64_t v) { memcpy(at, &v, sizeof v); }

static file open_file(void) {
  program *program = make_packed(2);
  char *path = in_folder("e.clv");
  expect_good(program_save(program, path));
  program_destroy(program);
  file file;
  void *read = read_bytes(path, &file.size);
  file.bytes = memory_alloc_aligned(4096, (file.size + 4096) / 4096 * 4096);
  assert_non_null(file.bytes);
  memcpy(file.bytes, read, file.size);
  free(read);
  free(path);
  uint32_t n;
  memcpy(&n, file.bytes + 24, sizeof n);
  for (uint32_t i = 0; i < n; i++) {
    uint8_t *bytes = file.bytes + 64 + 32 * i;
    if (memcmp(bytes, "FIDX", 4) == 0) file.index = bytes;
    if (memcmp(bytes, "FORM", 4) == 0) file.packed_weights = bytes;
  }
  return file;
}

/* Returns the entry of packed weight i in the index. */
static uint8_t *entry(const file *file, int i) {
  return file->bytes + get(file->index + 8) + HEAD + (size_t)i * ENTRY;
}

/* Reads the file after correcting the hashes of index and table. */
static clave_status read_file(const file *file, program **out) {
  uint32_t n;
  memcpy(&n, file->bytes + 24, sizeof n);
  put(file->index + 24, hash_bytes(file->bytes + get(file->index + 8), get(file->index + 16)));
  put(file->bytes + 32, 0);
  put(file->bytes + 32, hash_bytes(file->bytes, 64 + 32 * (size_t)n));
  expect_good(program_new(out));
  return clv_read(*out, file->bytes, file->size);
}

static void refused(const file *file, const char *why) {
  program *program;
  expect_error(read_file(file, &program), why);
  program_destroy(program);
}

enum {
  AT_LAYOUT = 0,
  AT_CONSTANT = 32,
  AT_KIND = 36,
  AT_DTYPE = 40,
  AT_RANK = 44,
  AT_OFFSET = 208,
  AT_BYTES = 216,
};

static void damaged_entries(void **state) {
  (void)state;
  static const struct {
    size_t at;
    int size;
    uint64_t value;
    const char *why;
  } bad[] = {
      {AT_LAYOUT, 1, 7,
       "the name of the layout is not printable text; packed weight 1; section 'FIDX'"},
      {AT_LAYOUT, 1, 0, "the name of the layout is not printable text"},
      {AT_LAYOUT + 31, 1, 'x', "the name of the layout is not printable text"},
      {AT_CONSTANT, 4, 2, "constant 2 is out of range: the program has 2; packed weight 1"},
      {AT_CONSTANT, 4, UINT32_MAX, "constant 4294967295 is out of range"},
      {AT_KIND, 4, UINT32_MAX, "kind 4294967295"},
      {AT_DTYPE, 4, DTYPE_COUNT, "dtype 15"},
      {AT_RANK, 4, MAX_RANK + 1, "rank 9"},
      {AT_OFFSET, 8, 4096, "overlap another or the end of section 'FORM'"},
      {AT_OFFSET, 8, 8193, "offset: expected a multiple of 4096, got 8193"},
      {AT_OFFSET, 8, 16384 + 4096, "overlap another or the end"},
      {AT_OFFSET, 8, UINT64_MAX - 4095, "overlap another or the end"},
      {AT_BYTES, 8, 0, "0 bytes at 8192"},
      {AT_BYTES, 8, 8193, "8193 bytes at 8192 overlap another or the end"},
      {AT_BYTES, 8, UINT64_MAX, "overlap another or the end"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    file file = open_file();
    memcpy(entry(&file, 1) + bad[i].at, &bad[i].value, (size_t)bad[i].size);
    refused(&file, bad[i].why);
    memory_free(file.bytes);
  }
}

static void damaged_sections(void **state) {
  (void)state;
  file file = open_file();
  uint8_t *head = file.bytes + get(file.index + 8);
  put(head + 8, UINT32_MAX);
  refused(&file, "480 bytes, and 4294967295 packed weights need");
  put(head + 8, 1);
  refused(&file, "480 bytes, and 1 packed weights need 248");
  put(head + 8, 2);
  put(file.index + 16, 479);
  refused(&file, "479 bytes, and 2 packed weights need 480");
  put(file.index + 16, 8);
  refused(&file, "8 bytes, and its header needs 16");
  put(file.index + 16, 480);
  memcpy(file.packed_weights, "ELSE", 4);
  put(file.packed_weights + 24,
      hash_bytes(file.bytes + get(file.packed_weights + 8), get(file.packed_weights + 16)));
  refused(&file, "section 'FORM' is missing or not at a multiple of 4096");
  memcpy(file.packed_weights, "FORM", 4);
  put(file.packed_weights + 8, get(file.packed_weights + 8) + 64);
  put(file.packed_weights + 16, get(file.packed_weights + 16) - 64);
  refused(&file, "section 'FORM' is missing or not at a multiple of 4096");
  memory_free(file.bytes);
  file = open_file();
  memcpy(file.index, "ELSE", 4);
  refused(&file, "section 'FIDX' is missing");
  memory_free(file.bytes);
}

/* Packed bytes are checked when they are used, not when the file is loaded. */
static void damaged_bytes(void **state) {
  (void)state;
  program *program;
  file file = open_file();
  file.bytes[get(file.packed_weights + 8) + 8192 + 77] ^= 4;
  expect_good(read_file(&file, &program));
  assert_true(program_packed_weight_is_whole(&program->packed_weights[0]) &&
              !program_packed_weight_is_whole(&program->packed_weights[1]));
  expect_error(program_check_hashes(program),
               "the packed weight of constant 'w' for 'cpu 1 test' is damaged (hash)");
  program_destroy(program);
  memory_free(file.bytes);
}

/* Packed weights of other constants are ignored without an error. */
static void of_other_constants(void **state) {
  (void)state;
  program *program;
  file file = open_file();
  uint8_t *head = file.bytes + get(file.index + 8);
  put(head, get(head) + 1);
  expect_good(read_file(&file, &program));
  assert_int_equal(program->n_packed_weights, 0);
  program_destroy(program);
  memory_free(file.bytes);
}

/* A reader that does not know the tags of the two sections can still check their hashes. */
static void sections_have_hashes(void **state) {
  (void)state;
  file file = open_file();
  const uint8_t *sections[] = {file.index, file.packed_weights};
  for (size_t i = 0; i < 2; i++) {
    const uint8_t *bytes = sections[i];
    assert_int_equal(get(bytes + 24), hash_bytes(file.bytes + get(bytes + 8), get(bytes + 16)));
    assert_int_equal(bytes[4] & 1, 0);
  }
  memory_free(file.bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(there_and_back),     cmocka_unit_test(found_by_every_field),
      cmocka_unit_test(damaged_entries),    cmocka_unit_test(one_takes_the_place_of_the_same),
      cmocka_unit_test(damaged_sections),   cmocka_unit_test(damaged_bytes),
      cmocka_unit_test(of_other_constants), cmocka_unit_test(sections_have_hashes),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
