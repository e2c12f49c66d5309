/* Tuning tables: rows, choices by them, and files that are damaged, foreign or of others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/tuning.h"

static void good(clave_status st) {
  if (st) print_error("%s\n", status_message(st));
  assert_null(st);
}

static tuning *make(void) {
  tuning *t;
  good(tuning_create(&t));
  return t;
}

static void refused(tuning *t, const char *family, const char *key, const char *variant) {
  clave_status st = tuning_put(t, family, key, variant);
  assert_int_equal(status_code_of(st), STATUS_INVALID);
  status_free(st);
}

static void test_rows(void **state) {
  (void)state;
  tuning *t = make();
  tuning_row r;
  good(tuning_put(t, "b", "m=2", "x"));
  good(tuning_put(t, "a", "m=2", "y"));
  good(tuning_put(t, "a", "m=1", "z"));
  uint64_t version = tuning_version(t);
  good(tuning_put(t, "a", "m=2", "w"));
  assert_true(tuning_version(t) != version);
  assert_int_equal(tuning_count(t), 3);
  static const char *const order[] = {"z", "w", "x"};
  for (size_t i = 0; i < 3; i++) {
    assert_true(tuning_get(t, i, &r));
    assert_string_equal(r.variant, order[i]);
  }
  assert_false(tuning_get(t, 3, &r));
  assert_true(tuning_find(t, "a", "m=1", &r));
  assert_false(tuning_find(t, "a", "m=3", &r));
  good(tuning_put(t, "a", "*", "any"));
  assert_true(tuning_find(t, "a", "m=3", &r));
  assert_string_equal(r.variant, "any");
  assert_true(tuning_find(t, "a", "m=1", &r));
  assert_string_equal(r.variant, "z");
  tuning_destroy(t);
}

static void test_refused(void **state) {
  (void)state;
  tuning *t = make();
  char longest[TUNING_KEY], number[24];
  memset(longest, 'k', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  good(tuning_put(t, "a", longest, "v"));
  refused(t, "", "k", "v");
  refused(t, "a", "", "v");
  refused(t, "a", "k", "");
  refused(t, "a", "k\tk", "v");
  refused(t, "a", "k", "v\n");
  refused(t, "a", "k\x80", "v");
  refused(t, longest, "k", "v");
  refused(t, "a", "k", longest);
  for (int i = 1; i < TUNING_MOST; i++) {
    (void)snprintf(number, sizeof number, "%d", i);
    good(tuning_put(t, "n", number, "v"));
  }
  refused(t, "n", "one more", "v");
  good(tuning_put(t, "n", "1", "other")); /* in place */
  tuning_destroy(t);
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

static int choose(const tuning *t, variant_choices *c, int64_t m) {
  tuning_key k = tuning_key_begin(t, c);
  tuning_key_text(&k, "x", "F32");
  tuning_key_int(&k, "m", m);
  return (int)(tuning_choose(t, c, &family, &k) - rows);
}

static void test_choices(void **state) {
  (void)state;
  tuning *t = make(), *first = make();
  assert_int_equal(choose(NULL, NULL, 5), 0);
  assert_int_equal(choose(t, NULL, 5), 0);
  good(tuning_put(t, "family", "x=F32 m=5", "last"));
  assert_int_equal(choose(t, NULL, 5), 2);
  assert_int_equal(choose(t, NULL, 6), 0);
  good(tuning_put(t, "family", "x=F32 m=6", "never"));
  assert_int_equal(choose(t, NULL, 6), 0);
  good(tuning_put(t, "family", "x=F32 m=6", "unknown"));
  assert_int_equal(choose(t, NULL, 6), 0);
  variant_choices c = {.first = first};
  good(tuning_put(first, "family", "x=F32 m=5", "first"));
  assert_int_equal(choose(t, &c, 5), 0);
  assert_int_equal(choose(t, &c, 5), 0);
  assert_int_equal(c.n, 1);
  assert_string_equal(c.items[0].key, "x=F32 m=5");
  assert_int_equal(c.items[0].n, 2); /* those that can run */
  assert_string_equal(c.items[0].names[1], "last");
  good(tuning_put(first, "family", "x=F32 m=7", "last"));
  assert_int_equal(choose(t, &c, 7), 2);
  assert_int_equal(c.items[1].taken, 1);
  assert_int_equal(c.items[1].by_rule, 0);
  tuning_destroy(t);
  tuning_destroy(first);
}

static double cost_by_size(const void *problem, const kernel_variant *variant) {
  const int64_t n = *(const int64_t *)problem;
  return n > variant->parameters[0] ? ON_REQUEST : variant->cost;
}

/* The lowest cost of those that are usable; of equal ones the first; none where all are on request.
 */
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

/* What is encoded otherwise has another key; what is plain is not named. */
static void test_encoded_keys(void **state) {
  (void)state;
  static const char *const texts[] = {"int4:32", "int4:64", "int4:32:zeros", "Q4_0", "Q4_K"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    variant_choices c = {.n = 0};
    char expected[64];
    encoding e;
    assert_true(encoding_parse(texts[i], &e));
    tuning_key k = tuning_key_begin(NULL, &c), none = tuning_key_begin(NULL, NULL);
    tuning_key_encoding(&k, "plain", &(encoding){0});
    tuning_key_encoding(&k, "b", &e);
    tuning_key_encoding(&none, "b", &e);
    (void)snprintf(expected, sizeof expected, "b=%s", texts[i]);
    assert_string_equal(k.text, expected);
    assert_string_equal(none.text, "");
  }
}

/* Keys that are too long differ where they are alike at first, and can be rows. */
static void test_long_keys(void **state) {
  (void)state;
  variant_choices c = {.n = 0};
  for (int i = 0; i < 2; i++) {
    tuning_key k = tuning_key_begin(NULL, &c);
    for (int j = 0; j < 40; j++) tuning_key_int(&k, "number", j < 39 ? 123456 : i);
    assert_ptr_equal(tuning_choose(NULL, &c, &family, &k), rows);
  }
  assert_int_equal(c.n, 2);
  assert_int_equal(strlen(c.items[0].key), TUNING_KEY - 1);
  assert_string_not_equal(c.items[0].key, c.items[1].key);
  tuning *t = make();
  good(tuning_put(t, "family", c.items[0].key, "last"));
  tuning_destroy(t);
}

/* ---------------------------------------------------------------- files */

typedef struct fixture {
  char folder[64];
  char *path;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  strcpy(f->folder, "/tmp/clave_tuning_XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  f->path = tuning_path(f->folder, "device");
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  uint64_t bytes;
  (void)chmod(f->folder, 0700);
  (void)folder_remove(f->folder, &bytes);
  free(f->path);
  free(f);
  return 0;
}

static const char *load(const fixture *f, const char *device, size_t *n) {
  tuning *t = make();
  const char *why;
  good(tuning_load(t, f->path, device, &why));
  *n = tuning_count(t);
  tuning_destroy(t);
  return why;
}

static void save_one(const fixture *f, const char *key) {
  tuning *t = make();
  good(tuning_put(t, "family", key, "variant"));
  good(tuning_save(t, f->folder, "device"));
  tuning_destroy(t);
}

/* Two who saved what each had found: neither loses anything. */
static void test_merged(void **state) {
  const fixture *f = *state;
  size_t n;
  assert_null(load(f, "device", &n));
  assert_int_equal(n, 0);
  save_one(f, "m=1");
  save_one(f, "m=2");
  assert_null(load(f, "device", &n));
  assert_int_equal(n, 2);
  uint64_t bytes = 0, files = 0;
  tuning_measure(f->folder, &bytes, &files);
  assert_int_equal(files, 1);
  assert_int_equal(tuning_remove(f->folder), bytes);
  assert_null(load(f, "device", &n));
  assert_int_equal(n, 0);
}

/* Rows that were only read do not bring back what another has changed since. */
static void test_own_rows_alone(void **state) {
  const fixture *f = *state;
  const char *why;
  tuning *old = make(), *now = make();
  tuning_row r;
  save_one(f, "m=1");
  good(tuning_load(old, f->path, "device", &why));
  good(tuning_put(now, "family", "m=1", "better"));
  good(tuning_save(now, f->folder, "device"));
  good(tuning_put(old, "family", "m=9", "variant"));
  good(tuning_save(old, f->folder, "device"));
  tuning_clear(now);
  good(tuning_load(now, f->path, "device", &why));
  assert_int_equal(tuning_count(now), 2);
  assert_true(tuning_find(now, "family", "m=1", &r));
  assert_string_equal(r.variant, "better");
  good(tuning_put(old, "family", "m=10", "variant")); /* nor do rows that were kept before */
  good(tuning_put(now, "family", "m=9", "better"));
  good(tuning_save(now, f->folder, "device"));
  good(tuning_save(old, f->folder, "device"));
  tuning_clear(now);
  good(tuning_load(now, f->path, "device", &why));
  assert_int_equal(tuning_count(now), 3);
  assert_true(tuning_find(now, "family", "m=9", &r));
  assert_string_equal(r.variant, "better");
  tuning_destroy(old);
  tuning_destroy(now);
}

/* A full table takes a full file of the same rows, but not one row more. */
static void test_full(void **state) {
  const fixture *f = *state;
  const char *why;
  char number[24];
  tuning *t = make();
  for (int i = 0; i < TUNING_MOST; i++) {
    (void)snprintf(number, sizeof number, "%d", i);
    good(tuning_put(t, "n", number, "v"));
  }
  good(tuning_save(t, f->folder, "device"));
  good(tuning_load(t, f->path, "device", &why));
  assert_null(why);
  assert_int_equal(tuning_count(t), TUNING_MOST);
  tuning_clear(t);
  good(tuning_put(t, "n", "one more", "v"));
  good(tuning_load(t, f->path, "device", &why));
  assert_string_equal(why, "it has too many rows");
  tuning_destroy(t);
}

static void test_foreign(void **state) {
  const fixture *f = *state;
  size_t n;
  save_one(f, "m=1");
  assert_non_null(strstr(load(f, "another", &n), "another device"));
  assert_int_equal(n, 0);
}

/* Every byte changed, and every length: nothing of such a file counts, and it is replaced. */
static void test_damaged(void **state) {
  const fixture *f = *state;
  size_t n;
  char bytes[512];
  save_one(f, "m=1");
  FILE *in = fopen(f->path, "r");
  size_t size = fread(bytes, 1, sizeof bytes, in);
  fclose(in);
  for (size_t i = 0; i < 2 * size; i++) {
    FILE *out = fopen(f->path, "w");
    if (i < size) bytes[i] ^= 1;
    fwrite(bytes, 1, i < size ? size : i - size, out);
    if (i < size) bytes[i] ^= 1;
    fclose(out);
    assert_non_null(load(f, "device", &n));
    assert_int_equal(n, 0);
  }
  save_one(f, "m=2");
  assert_null(load(f, "device", &n));
  assert_int_equal(n, 1);
}

/* What others may write to is not written; a read-only folder is an error, and the table stays. */
static void test_folders(void **state) {
  const fixture *f = *state;
  tuning *t = make();
  good(tuning_put(t, "family", "m=1", "variant"));
  assert_int_equal(chmod(f->folder, 0777), 0);
  clave_status st = tuning_save(t, f->folder, "device");
  assert_non_null(st);
  assert_non_null(strstr(status_message(st), "can be written by others"));
  status_free(st);
  assert_int_equal(chmod(f->folder, 0500), 0);
  if (geteuid() != 0) {
    st = tuning_save(t, f->folder, "device");
    assert_non_null(st);
    status_free(st);
  }
  assert_int_equal(tuning_count(t), 1);
  tuning_destroy(t);
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
      cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folders, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
