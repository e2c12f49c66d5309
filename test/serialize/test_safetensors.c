/* Tests safetensors files: round trips, every dtype, damaged headers. */
#include "test/serialize/sample.h"

static clave_status parse(const void *bytes, size_t size, tensor_file **out) {
  return tensor_file_parse(bytes, size, out);
}

/* Parses a file of the header and `data_bytes` zeros. */
static clave_status parse_header(const char *header, size_t data_bytes) {
  uint64_t length = strlen(header);
  uint8_t *bytes = calloc(1, 8 + length + data_bytes);
  memcpy(bytes, &length, 8);
  memcpy(bytes + 8, header, length);
  tensor_file *file;
  clave_status st = parse(bytes, 8 + length + data_bytes, &file);
  tensor_file_destroy(file);
  free(bytes);
  return st;
}

static void test_round_trip(void **state) {
  (void)state;
  static const uint8_t data[8 * 6] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  tensor_entry entries[DTYPE_COUNT + 2] = {{0}};
  char names[DTYPE_COUNT][8];
  for (int i = 0; i < DTYPE_COUNT; i++) { /* small dtypes first, so that the writer has to sort */
    dtype t = (dtype)(DTYPE_COUNT - 1 - i);
    (void)snprintf(names[i], sizeof names[i], "t%d", i);
    entries[i] = (tensor_entry){names[i], t, 2, {2, 3}, data + dtype_size(t), 6 * dtype_size(t)};
    if (dtype_size(t) == 8) entries[i].data = data;
  }
  entries[DTYPE_COUNT] = (tensor_entry){"scalar \"\\\xc3\xa9\n", DTYPE_I32, 0, {0}, data, 4};
  entries[DTYPE_COUNT + 1] = (tensor_entry){"", DTYPE_F32, 3, {4, 0, 5}, NULL, 0};
  const char *metadata[4] = {"k", "v", "quote\"", ""};
  char *path = in_folder("t.safetensors");
  expect_good(tensor_file_save(path, entries, DTYPE_COUNT + 2, metadata, 2));
  tensor_file *file;
  expect_good(tensor_file_open(path, &file));
  assert_int_equal(file->count, DTYPE_COUNT + 2);
  for (uint32_t i = 0; i < file->count; i++) {
    const tensor_entry *saved = &entries[i], *loaded = &file->tensors[i];
    assert_string_equal(saved->name, loaded->name);
    assert_ptr_equal(tensor_file_find(file, saved->name), loaded);
    assert_int_equal(saved->type, loaded->type);
    assert_int_equal(saved->rank, loaded->rank);
    assert_int_equal(saved->bytes, loaded->bytes);
    for (int k = 0; k < saved->rank; k++) assert_int_equal(saved->dims[k], loaded->dims[k]);
    if (saved->bytes) assert_memory_equal(saved->data, loaded->data, saved->bytes);
    assert_int_equal((uintptr_t)loaded->data % dtype_size(loaded->type), 0);
  }
  assert_null(tensor_file_find(file, "missing"));
  assert_string_equal(tensor_file_metadata(file, "quote\""), "");
  assert_null(tensor_file_metadata(file, "missing"));
  tensor_file_destroy(file);

  size_t n;
  uint8_t *bytes = read_bytes(path, &n);
  for (size_t size = 0; size < n; size++) {
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, bytes, size);
    clave_status st = parse(exact, size, &file);
    assert_non_null(st);
    assert_null(file);
    status_free(st);
    free(exact);
  }
  free(bytes);
  free(path);
}

static void test_empty_file(void **state) {
  (void)state;
  char *path = in_folder("empty.safetensors");
  expect_good(tensor_file_save(path, NULL, 0, NULL, 0));
  tensor_file *file;
  expect_good(tensor_file_open(path, &file));
  assert_int_equal(file->count, 0);
  assert_null(tensor_file_find(file, "x"));
  tensor_file_destroy(file);
  free(path);
}

/* Data that is not aligned for its dtype is copied. */
static void test_misaligned(void **state) {
  (void)state;
  const char header[] =
      "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"f\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[1,17]}}";
  uint64_t length = sizeof header - 1;
  const double values[2] = {1.5, -2.5};
  uint8_t *bytes = malloc(8 + sizeof header - 1 + 17);
  memcpy(bytes, &length, 8);
  memcpy(bytes + 8, header, sizeof header - 1);
  bytes[8 + length] = 42;
  memcpy(bytes + 8 + length + 1, values, 16);
  tensor_file *file;
  expect_good(parse(bytes, 8 + length + 17, &file));
  assert_memory_equal(tensor_file_find(file, "f")->data, values, 16);
  assert_int_equal((uintptr_t)tensor_file_find(file, "f")->data % 8, 0);
  tensor_file_destroy(file);
  free(bytes);
}

static const struct {
  const char *header;
  size_t data;
  const char *error;
} bad_headers[] = {
    {"", 0, "the header is not a JSON object"},
    {"[]", 0, "the header is not a JSON object"},
    {"{", 0, "JSON column 2"},
    {"{\"a\":1}", 0, "tensor 'a'"},
    {"{\"a\":{}}", 0, "the entry has no dtype"},
    {"{\"a\":{\"dtype\":\"F8_E8M0\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
     "dtype F8_E8M0 is not supported; tensor 'a'"},
    {"{\"a\":{\"dtype\":\"C64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, "dtype C64"},
    {"{\"a\":{\"dtype\":\"float\",\"shape\":[],\"data_offsets\":[0,8]}}", 8,
     "'float' is not a dtype of the safetensors format"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "the entry has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "is not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4,
     "column 31: expected an integer without fraction or exponent"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
     "expected an integer without fraction"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0.0,4.0]}}", 4,
     "expected an integer without fraction"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4e0]}}", 4,
     "expected an integer without fraction"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[\"0\",\"4\"]}}", 4,
     "data_offsets: expected [begin, end]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-0,4]}}", 4,
     "data_offsets: expected [begin, end]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "is not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "expected rank 0 to 8, got 9"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,4]"
     "}}",
     4, "overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387],\"data_offsets\":[0,4]}}", 4,
     SIZE_MAX > UINT32_MAX ? "its shape and dtype need" : "overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4,
     "the data of the tensor ends at 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,3]}}", 4,
     "the tensor has 3 bytes of data, and its shape and dtype need 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5,
     "the last 1 bytes belong to no tensor"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6,
     "2 bytes before the data of tensor 'a'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\","
     "\"shape\":[1],\"data_offsets\":[2,6]}}",
     6, "overlaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\","
     "\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "key \"a\" appears twice"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is an array"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ \"a\" is not a string"},
};

static void test_bad_headers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++) {
    expect_error(parse_header(bad_headers[i].header, bad_headers[i].data), bad_headers[i].error);
  }
  tensor_file *file;
  expect_error(parse("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &file), "cut off");
  expect_error(parse("abc", 3, &file), "not a safetensors file");
  expect_error(tensor_file_open("/nonexistent.safetensors", &file),
               "/nonexistent.safetensors: no such file");
}

/* Error messages clip long texts that they quote from the file. */
static void test_long_words(void **state) {
  (void)state;
  static const char *const formats[] = {
      "{\"a\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,4]}}",
      "{\"a\":{\"%s\":1,\"%s\":2}}", "{\"%s\":1}", "{\"__metadata__\":{\"%s\":1}}",
      "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}"};
  static char word[4097], header[3 * sizeof word];
  memset(word, 'x', sizeof word - 1);
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    (void)snprintf(header, sizeof header, formats[i], word, word);
    clave_status st = parse_header(header, 6);
    assert_non_null(st);
    assert_true(strlen(status_message(st)) < 600);
    status_free(st);
  }
}

static void test_bad_names(void **state) {
  (void)state;
  const float one = 1;
  tensor_entry entry[2] = {{"\xff", DTYPE_F32, 0, {0}, &one, 4}, {"a", DTYPE_F32, 0, {0}, &one, 4}};
  char *path = in_folder("bad.safetensors");
  expect_error(tensor_file_save(path, entry, 1, NULL, 0), "not valid UTF-8");
  entry[0].name = "a";
  expect_error(tensor_file_save(path, entry, 2, NULL, 0), "two tensors are named 'a'");
  entry[0].name = "__metadata__";
  expect_error(tensor_file_save(path, entry, 1, NULL, 0), "cannot be named __metadata__");
  entry[0] = (tensor_entry){"b", DTYPE_F32, 1, {INT64_MAX}, &one, SIZE_MAX};
  expect_error(tensor_file_save(path, entry, 2, NULL, 0), "the size of the tensors overflows");
  expect_error(tensor_file_save("/dev/full", entry + 1, 1, NULL, 0), "no space left");
  assert_false(file_exists(path));
  free(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_empty_file),
      cmocka_unit_test(test_misaligned), cmocka_unit_test(test_bad_headers),
      cmocka_unit_test(test_bad_names),  cmocka_unit_test(test_long_words),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
