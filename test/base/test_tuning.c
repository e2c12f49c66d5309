/* Tests tuning tables: rows, their choices, and files that are damaged or foreign. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <inttypes.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/tuning.h"

static void good(clave_status st) {
  if (st) print_error("%s\n", status_message(st));
  assert_null(st);
}

static tuning *make(void) {
  tuning *tuning;
  good(tuning_create(&tuning));
  return tuning;
}

static void refused(tuning *tuning, const char *family, const char *key, const char *variant) {
  clave_status st = tuning_put(tuning, family, key, variant);
  assert_int_equal(status_code_of(st), STATUS_INVALID);
  status_free(st);
}

static void test_rows(void **state) {
  (void)state;
  tuning *tuning = make();
  tuning_row row;
  good(tuning_put(tuning, "b", "m=2", "x"));
  good(tuning_put(tuning, "a", "m=2", "y"));
  good(tuning_put(tuning, "a", "m=1", "z"));
  uint64_t version = tuning_version(tuning);
  good(tuning_put(tuning, "a", "m=2", "w"));
  assert_true(tuning_version(tuning) != version);
  assert_int_equal(tuning_count(tuning), 3);
  static const char *const order[] = {"z", "w", "x"};
  for (size_t i = 0; i < 3; i++) {
    assert_true(tuning_get(tuning, i, &row));
    assert_string_equal(row.variant, order[i]);
  }
  assert_false(tuning_get(tuning, 3, &row));
  assert_true(tuning_find(tuning, "a", "m=1", &row));
  assert_false(tuning_find(tuning, "a", "m=3", &row));
  good(tuning_put(tuning, "a", "*", "any"));
  assert_true(tuning_find(tuning, "a", "m=3", &row));
  assert_string_equal(row.variant, "any");
  assert_true(tuning_find(tuning, "a", "m=1", &row));
  assert_string_equal(row.variant, "z");
  tuning_destroy(tuning);
}

static void test_refused(void **state) {
  (void)state;
  tuning *tuning = make();
  char longest[TUNING_KEY], number[24];
  memset(longest, 'k', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  good(tuning_put(tuning, "a", longest, "v"));
  refused(tuning, "", "k", "v");
  refused(tuning, "a", "", "v");
  refused(tuning, "a", "k", "");
  refused(tuning, "a", "k\tk", "v");
  refused(tuning, "a", "k", "v\n");
  refused(tuning, "a", "k\x80", "v");
  refused(tuning, longest, "k", "v");
  refused(tuning, "a", "k", longest);
  for (int i = 1; i < TUNING_MAX; i++) {
    (void)snprintf(number, sizeof number, "%d", i);
    good(tuning_put(tuning, "n", number, "v"));
  }
  refused(tuning, "n", "one more", "v");
  good(tuning_put(tuning, "n", "1", "other")); /* in place */
  tuning_destroy(tuning);
}

/* ---------------------------------------------------------------- choices */

static bool never(const void *problem, const kernel_variant *variant) {
  (void)problem;
  (void)variant;
  return false;
}

static const kernel_variant rows[] = {
    {"first", .cost = 1}, {"never", .is_usable = never}, {"last", .cost = 2}};

static const variants family = {.family = "family", .rows = rows, .n = 3};

static int choose(const tuning *tuning, variant_choices *choices, int64_t m) {
  tuning_key key = tuning_key_begin(tuning, choices);
  tuning_key_text(&key, "x", "F32");
  tuning_key_int(&key, "m", m);
  return (int)(tuning_choose(tuning, choices, &family, &key) - rows);
}

static void test_choices(void **state) {
  (void)state;
  tuning *tuning = make(), *first = make();
  assert_int_equal(choose(NULL, NULL, 5), 0);
  assert_int_equal(choose(tuning, NULL, 5), 0);
  good(tuning_put(tuning, "family", "x=F32 m=5", "last"));
  assert_int_equal(choose(tuning, NULL, 5), 2);
  assert_int_equal(choose(tuning, NULL, 6), 0);
  good(tuning_put(tuning, "family", "x=F32 m=6", "never"));
  assert_int_equal(choose(tuning, NULL, 6), 0);
  good(tuning_put(tuning, "family", "x=F32 m=6", "unknown"));
  assert_int_equal(choose(tuning, NULL, 6), 0);
  variant_choices choices = {.first = first};
  good(tuning_put(first, "family", "x=F32 m=5", "first"));
  assert_int_equal(choose(tuning, &choices, 5), 0);
  assert_int_equal(choose(tuning, &choices, 5), 0);
  assert_int_equal(choices.n, 1);
  assert_string_equal(choices.items[0].key, "x=F32 m=5");
  assert_int_equal(choices.items[0].n, 2); /* rows that can run */
  assert_string_equal(choices.items[0].names[1], "last");
  good(tuning_put(first, "family", "x=F32 m=7", "last"));
  assert_int_equal(choose(tuning, &choices, 7), 2);
  assert_int_equal(choices.items[1].chosen, 1);
  assert_int_equal(choices.items[1].by_rule, 0);
  tuning_destroy(tuning);
  tuning_destroy(first);
}

static double cost_by_size(const void *problem, const kernel_variant *variant) {
  const int64_t n = *(const int64_t *)problem;
  return n > variant->parameters[0] ? ON_REQUEST : variant->cost;
}

/* Chooses the usable variant with the lowest cost, the first on a tie; never a variant on
 * request. */
static void test_cost(void **state) {
  (void)state;
  static const kernel_variant table[] = {
      {"asked for", .cost = ON_REQUEST},
      {"large", .cost = 3},
      {"as large", .cost = 3},
      {"small", .cost = 1, .cost_of = cost_by_size, .parameters = {8}},
      {"cheap", .is_usable = never}};
  int64_t n = 8;
  variants all = {.family = "costs", .rows = table, .n = 5, .problem = &n};
  assert_ptr_equal(variant_by_cost(&all), &table[3]);
  n = 9;
  assert_ptr_equal(variant_by_cost(&all), &table[1]);
  all.n = 1;
  assert_null(variant_by_cost(&all));
}

/* Each encoding has its own key. A plain operand adds nothing to the key. */
static void test_encoded_keys(void **state) {
  (void)state;
  static const char *const texts[] = {"int4:32", "int4:64", "int4:32:zeros", "Q4_0", "Q4_K"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    variant_choices choices = {.n = 0};
    char expected[64];
    encoding code;
    assert_true(encoding_parse(texts[i], &code));
    tuning_key key = tuning_key_begin(NULL, &choices), none = tuning_key_begin(NULL, NULL);
    tuning_key_encoding(&key, "plain", &(encoding){0});
    tuning_key_encoding(&key, "b", &code);
    tuning_key_encoding(&none, "b", &code);
    (void)snprintf(expected, sizeof expected, "b=%s", texts[i]);
    assert_string_equal(key.text, expected);
    assert_string_equal(none.text, "");
  }
}

/* Keys that are too long are shortened. They stay valid, and differ if they begin alike. */
static void test_long_keys(void **state) {
  (void)state;
  variant_choices choices = {.n = 0};
  for (int i = 0; i < 2; i++) {
    tuning_key key = tuning_key_begin(NULL, &choices);
    for (int j = 0; j < 40; j++) tuning_key_int(&key, "number", j < 39 ? 123456 : i);
    assert_ptr_equal(tuning_choose(NULL, &choices, &family, &key), rows);
  }
  assert_int_equal(choices.n, 2);
  assert_int_equal(strlen(choices.items[0].key), TUNING_KEY - 1);
  assert_string_not_equal(choices.items[0].key, choices.items[1].key);
  tuning *tuning = make();
  good(tuning_put(tuning, "family", choices.items[0].key, "last"));
  tuning_destroy(tuning);
}

/* ---------------------------------------------------------------- files */

typedef struct fixture {
  char folder[64];
  char *path;
} fixture;

static int setup(void **state) {
  fixture *fixture = calloc(1, sizeof *fixture);
  strcpy(fixture->folder, "/tmp/clave_tuning_XXXXXX");
  assert_non_null(mkdtemp(fixture->folder));
  fixture->path = tuning_path(fixture->folder, "device");
  *state = fixture;
  return 0;
}

static int teardown(void **state) {
  fixture *fixture = *state;
  uint64_t bytes;
  (void)chmod(fixture->folder, 0700);
  (void)folder_remove(fixture->folder, &bytes);
  free(fixture->path);
  free(fixture);
  return 0;
}

static const char *load(const fixture *fixture, const char *device, size_t *count) {
  tuning *tuning = make();
  const char *why;
  good(tuning_load(tuning, fixture->path, device, &why));
  *count = tuning_count(tuning);
  tuning_destroy(tuning);
  return why;
}

static void save_one(const fixture *fixture, const char *key) {
  tuning *tuning = make();
  good(tuning_put(tuning, "family", key, "variant"));
  good(tuning_save(tuning, fixture->folder, "device"));
  tuning_destroy(tuning);
}

/* Two processes save their rows, and neither loses one. */
static void test_merged(void **state) {
  const fixture *fixture = *state;
  size_t n;
  assert_null(load(fixture, "device", &n));
  assert_int_equal(n, 0);
  save_one(fixture, "m=1");
  save_one(fixture, "m=2");
  assert_null(load(fixture, "device", &n));
  assert_int_equal(n, 2);
  uint64_t bytes = 0, files = 0;
  tuning_measure(fixture->folder, &bytes, &files);
  assert_int_equal(files, 1);
  assert_int_equal(tuning_remove(fixture->folder), bytes);
  assert_null(load(fixture, "device", &n));
  assert_int_equal(n, 0);
}

/* Rows that were only read do not overwrite rows that another process has changed since. */
static void test_own_rows_alone(void **state) {
  const fixture *fixture = *state;
  const char *why;
  tuning *old = make(), *now = make();
  tuning_row row;
  save_one(fixture, "m=1");
  good(tuning_load(old, fixture->path, "device", &why));
  good(tuning_put(now, "family", "m=1", "better"));
  good(tuning_save(now, fixture->folder, "device"));
  good(tuning_put(old, "family", "m=9", "variant"));
  good(tuning_save(old, fixture->folder, "device"));
  tuning_clear(now);
  good(tuning_load(now, fixture->path, "device", &why));
  assert_int_equal(tuning_count(now), 2);
  assert_true(tuning_find(now, "family", "m=1", &row));
  assert_string_equal(row.variant, "better");
  good(tuning_put(old, "family", "m=10", "variant")); /* rows that were kept before do not either */
  good(tuning_put(now, "family", "m=9", "better"));
  good(tuning_save(now, fixture->folder, "device"));
  good(tuning_save(old, fixture->folder, "device"));
  tuning_clear(now);
  good(tuning_load(now, fixture->path, "device", &why));
  assert_int_equal(tuning_count(now), 3);
  assert_true(tuning_find(now, "family", "m=9", &row));
  assert_string_equal(row.variant, "better");
  tuning_destroy(old);
  tuning_destroy(now);
}

/* A full table reads a full file of the same rows, but no additional row. */
static void test_full(void **state) {
  const fixture *fixture = *state;
  const char *why;
  char number[24];
  tuning *tuning = make();
  for (int i = 0; i < TUNING_MAX; i++) {
    (void)snprintf(number, sizeof number, "%d", i);
    good(tuning_put(tuning, "n", number, "v"));
  }
  good(tuning_save(tuning, fixture->folder, "device"));
  good(tuning_load(tuning, fixture->path, "device", &why));
  assert_null(why);
  assert_int_equal(tuning_count(tuning), TUNING_MAX);
  tuning_clear(tuning);
  good(tuning_put(tuning, "n", "one more", "v"));
  good(tuning_load(tuning, fixture->path, "device", &why));
  assert_string_equal(why, "the file has too many rows");
  assert_int_equal(tuning_count(tuning), 1);
  tuning_destroy(tuning);
}

/* A row that is malformed, under a right hash, makes the whole file useless. The table keeps what
 * it had. */
static void test_malformed(void **state) {
  const fixture *fixture = *state;
  static const char *const rows[] = {"family\tm=1\tv\nfamily m=2 v\n", "family\tm=1\t\n", "\n"};
  const char *why;
  tuning_row row;
  tuning *tuning = make();
  good(tuning_put(tuning, "family", "m=1", "own"));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char bytes[256];
    (void)snprintf(bytes, sizeof bytes, "clave tuning 1\ndevice\n%s", rows[i]);
    FILE *out = fopen(fixture->path, "w");
    fprintf(out, "%shash %016" PRIx64 "\n", bytes, hash_bytes(bytes, strlen(bytes)));
    fclose(out);
    good(tuning_load(tuning, fixture->path, "device", &why));
    assert_string_equal(why, "the file has a malformed row");
    assert_int_equal(tuning_count(tuning), 1);
    assert_true(tuning_find(tuning, "family", "m=1", &row));
    assert_string_equal(row.variant, "own");
  }
  tuning_destroy(tuning);
}

static void test_foreign(void **state) {
  const fixture *fixture = *state;
  size_t n;
  save_one(fixture, "m=1");
  assert_non_null(strstr(load(fixture, "another", &n), "another device"));
  assert_int_equal(n, 0);
}

/* A file with any byte changed, or of any other length, is ignored and replaced. */
static void test_damaged(void **state) {
  const fixture *fixture = *state;
  size_t n;
  char bytes[512];
  save_one(fixture, "m=1");
  FILE *in = fopen(fixture->path, "r");
  size_t size = fread(bytes, 1, sizeof bytes, in);
  fclose(in);
  for (size_t i = 0; i < 2 * size; i++) {
    FILE *out = fopen(fixture->path, "w");
    if (i < size) bytes[i] ^= 1;
    fwrite(bytes, 1, i < size ? size : i - size, out);
    if (i < size) bytes[i] ^= 1;
    fclose(out);
    assert_non_null(load(fixture, "device", &n));
    assert_int_equal(n, 0);
  }
  save_one(fixture, "m=2");
  assert_null(load(fixture, "device", &n));
  assert_int_equal(n, 1);
}

/* A folder that others can write to is refused. A read-only folder is an error that leaves the
 * table unchanged. */
static void test_folders(void **state) {
  const fixture *fixture = *state;
  tuning *tuning = make();
  good(tuning_put(tuning, "family", "m=1", "variant"));
  assert_int_equal(chmod(fixture->folder, 0777), 0);
  clave_status st = tuning_save(tuning, fixture->folder, "device");
  assert_non_null(st);
  assert_non_null(strstr(status_message(st), "can be written by others"));
  status_free(st);
  assert_int_equal(chmod(fixture->folder, 0500), 0);
  if (geteuid() != 0) {
    st = tuning_save(tuning, fixture->folder, "device");
    assert_non_null(st);
    status_free(st);
  }
  assert_int_equal(tuning_count(tuning), 1);
  tuning_destroy(tuning);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_cost),
      cmocka_unit_test(test_encoded_keys),
      cmocka_unit_test(test_long_keys),
      cmocka_unit_test_setup_teardown(test_merged, setup, teardown),
      cmocka_unit_test_setup_teardown(test_own_rows_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_full, setup, teardown),
      cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
      cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folders, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
