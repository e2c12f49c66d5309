/* The JSON reader refuses what is not RFC 8259, fields are read by type, and what the writer wrote
 * reads back as it was. */
#include "json/json.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json/fields.h"
#include "json/writer.h"

static void expect_good(clave_status st) {
  if (st) print_error("%s\n", status_message(st));
  assert_null(st);
}

static void expect_error(clave_status st, const char *message) {
  assert_non_null(st);
  if (!strstr(status_message(st), message))
    fail_msg("\"%s\" does not say \"%s\"", status_message(st), message);
  status_free(st);
}

static json *parse(const char *source) {
  json *v;
  expect_good(json_parse(source, strlen(source), &v));
  return v;
}

/* ---------------------------------------------------------------- syntax */

static const struct {
  const char *source, *error;
} bad[] = {
    {"", "JSON column 1 (end of text): expected a value"},
    {"{\n \"a\": ?}", "JSON line 2, column 7: expected a value"},
    {"{} x", "expected nothing after the value"},
    {"{\"a\": 1,}", "expected a key in quotes"},
    {"{a: 1}", "expected a key in quotes"},
    {"{\"a\" 1}", "expected ':' after a key"},
    {"{\"a\": 01}", "leading zero"},
    {"{\"a\": +1}", "expected a value"},
    {"{\"a\": 1.}", "digit after the decimal point"},
    {"{\"a\": 1e}", "digit in the exponent"},
    {"{\"a\": \"a\nb\"}", "control character"},
    {"{\"a\": \"\\x\"}", "no such escape"},
    {"{\"a\": \"\\u0000\"}", "NUL"},
    {"{\"a\": \"\\ud800\"}", "half a surrogate pair"},
    {"{\"a\": \"\\udc00\"}", "half a surrogate pair"},
    {"{\"a\": \"\\ud800\\u0041\"}", "half a surrogate pair"},
    {"{\"a\": \"\\u12g4\"}", "four hexadecimal digits"},
    {"{\"a\": \"\xff\"}", "not valid UTF-8"},
    {"{\"a\": \"\xc0\x80\"}", "not valid UTF-8"},
    {"{\"a\": \"open", "closing quote"},
    {"{\"a\": NaN}", "expected a value"},
    {"{\"a\": nul}", "expected a value"},
    {"{\"a\": 1 \"b\": 2}", "expected ',' or '}'"},
    {"{\"a\": [1 2]}", "expected ',' or ']'"},
    {"// hello\n{}", "expected a value"},
    {"{\"a\": 1, \"b\": 1, \"a\": 1}", "key \"a\" twice"},
    {"[{\"b\": {\"a\": 1, \"\\u0061\": 2}}]", "key \"a\" twice"},
    {"0.00000000000000000000000000000000000000000000000000000000000000001", "number too long"},
};

static void test_bad_syntax(void **state) {
  (void)state;
  json *v;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    expect_error(json_parse(bad[i].source, strlen(bad[i].source), &v), bad[i].error);
    assert_null(v);
  }
  expect_error(json_parse("\"a\0b\"", 5, &v), "control character");
  expect_error(json_parse_integers("[1, 2.0]", 8, &v), "not written as an integer");
  expect_error(json_parse_integers("[1e3]", 5, &v), "not written as an integer");
}

/* Strings are read by eight bytes where those stand for themselves: each byte, at each place. */
static void test_each_byte_of_a_string(void **state) {
  enum { LENGTH_OF_TEXT = 27 };
  (void)state;
  for (int byte = 0; byte < 256; byte++) {
    for (size_t at = 1; at < LENGTH_OF_TEXT - 1; at++) {
      char source[LENGTH_OF_TEXT];
      memset(source, 'a', sizeof source);
      source[0] = source[LENGTH_OF_TEXT - 1] = '"';
      source[at] = (char)byte;
      const bool good = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
      text found = {0};
      clave_status st = json_read_string(source, sizeof source, &found);
      assert_true(good == !st);
      if (good) {
        assert_int_equal(found.size, LENGTH_OF_TEXT - 2);
        assert_memory_equal(found.data, source + 1, found.size);
      }
      status_free(st);
      text_free(&found);
    }
  }
}

/* n containers, one in the other. */
static clave_status parse_nested(size_t n) {
  char deep[2 * (JSON_MAX_DEPTH + 1)];
  memset(deep, '[', n);
  memset(deep + n, ']', n);
  json *v;
  clave_status st = json_parse(deep, 2 * n, &v);
  json_free(v);
  return st;
}

static void test_limits(void **state) {
  (void)state;
  expect_good(parse_nested(JSON_MAX_DEPTH));
  expect_error(parse_nested(JSON_MAX_DEPTH + 1), "nested too deeply");
  const size_t size =
      2 * (size_t)JSON_MAX_VALUES + 1; /* the array, and this many values less one */
  char *many = malloc(size);
  for (size_t i = 0; i < size; i++) many[i] = i % 2 ? '0' : ',';
  many[0] = '[';
  many[size - 1] = ']';
  expect_error(json_check_syntax(many, size, false), "more values than a file may hold");
  many[size - 3] = ']';
  expect_good(json_check_syntax(many, size - 2, false));
  free(many);
}

/* ---------------------------------------------------------------- values */

static void test_numbers(void **state) {
  (void)state;
  json *v = parse(
      "[9007199254740991, 9007199254740992, 1.5, \"-9223372036854775808\", -1, 1e999, "
      "\"-inf\", \"18446744073709551615\", \"1x\"]");
  const json *at = json_first(v);
  int64_t i;
  uint64_t u;
  double f;
  assert_int_equal(json_count(v), 9);
  assert_true(json_i64(at, &i) && i == INT64_C(9007199254740991));
  at = json_next(at);
  assert_false(json_i64(at, &i)); /* 2^53 + 1 would read as the same */
  at = json_next(at);
  assert_false(json_i64(at, &i));
  assert_true(json_f64(at, &f) && f == 1.5);
  at = json_next(at);
  assert_true(json_i64(at, &i) && i == INT64_MIN);
  assert_false(json_u64(at, &u));
  at = json_next(at);
  assert_true(json_i64(at, &i) && i == -1);
  assert_false(json_u64(at, &u));
  at = json_next(at);
  assert_false(json_f64(at, &f));
  at = json_next(at);
  assert_true(json_f64(at, &f) && isinf(f) && f < 0);
  at = json_next(at);
  assert_true(json_u64(at, &u) && u == UINT64_MAX);
  at = json_next(at);
  assert_false(json_i64(at, &i));
  assert_null(json_next(at));
  json_free(v);
}

static void test_fields(void **state) {
  (void)state;
  static const field_choice choices[] = {{"left", 0}, {"right", 1}};
  json *v = parse(
      "{\"on\": true, \"n\": 7, \"name\": \"x\", \"none\": null, \"wide\": \"\\u00e9\", "
      "\"side\": \"right\", \"list\": []}");
  const json *list;
  bool on;
  uint32_t n;
  span s;
  int side;
  expect_good(field_bool(v, "on", false, &on));
  assert_true(on);
  expect_good(field_bool(v, "none", true, &on));
  assert_true(on);
  expect_error(field_bool(v, "n", true, &on), "\"n\"");
  expect_good(field_index(v, "n", 7, 3, &n));
  assert_int_equal(n, 7);
  expect_error(field_index(v, "n", 6, 3, &n), "expected an integer from 0 to 6; \"n\"");
  expect_good(field_index(v, "absent", 6, 300, &n));
  assert_int_equal(n, 300);
  expect_good(field_text(v, "name", NULL, &s));
  assert_true(s.size == 1 && *s.data == 'x');
  expect_error(field_text(v, "absent", NULL, &s), "expected a string as \"absent\", got nothing");
  expect_good(field_character(v, "wide", &n));
  assert_int_equal(n, 0xE9);
  expect_error(field_character(v, "side", &n), "\"side\": expected one character, got \"right\"");
  expect_good(field_choose(v, "side", choices, 2, -1, &side));
  assert_int_equal(side, 1);
  expect_error(field_choose(v, "name", choices, 2, -1, &side), "expected left or right");
  expect_good(field(v, "list", JSON_ARRAY, &list));
  expect_error(field(v, "name", JSON_ARRAY, &list), "expected an array, got a string; \"name\"");
  json_free(v);
}

/* Every kind of value, as it nests. */
static void test_trees(void **state) {
  (void)state;
  static const char source[] =
      "[true, false, null, {\"a\": [1, 2.5e1], \"b\": \"\\u00e9\"}, [], -0.5]";
  json *document;
  assert_null(json_parse(source, sizeof source - 1, &document));
  assert_int_equal(json_count(document), 6);
  const json *v = json_first(document);
  assert_true(json_kind_of(v) == JSON_BOOL && json_is_true(v) && !json_key(v));
  v = json_next(v);
  assert_true(json_kind_of(v) == JSON_BOOL && !json_is_true(v));
  v = json_next(v);
  assert_true(json_kind_of(v) == JSON_NULL && !json_is_true(v));
  const json *object = json_next(v), *a = json_member(object, "a");
  assert_int_equal(json_kind_of(object), JSON_OBJECT);
  assert_string_equal(json_key(json_next(json_first(object))), "b");
  assert_int_equal(json_kind_of(a), JSON_ARRAY);
  assert_true(json_number(json_first(a)) == 1 && !json_key(json_first(a)));
  assert_true(json_number(json_next(json_first(a))) == 25);
  assert_string_equal(json_string(json_member(object, "b")), "\xc3\xa9");
  assert_null(json_member(object, "c"));
  v = json_next(object);
  assert_true(json_kind_of(v) == JSON_ARRAY && !json_first(v));
  assert_true(json_number(json_next(v)) == -0.5);
  assert_null(json_next(json_next(v)));
  json_free(document);
}

static void test_read_string(void **state) {
  (void)state;
  static const char source[] = " \"a\\u0000\\\"\\n\\ud83d\\ude00\\u00e9\xc3\xa9\" ";
  static const char meant[] = "a\0\"\n\xf0\x9f\x98\x80\xc3\xa9\xc3\xa9";
  text s = {0};
  expect_good(json_read_string(source, strlen(source), &s));
  assert_int_equal(s.size, sizeof meant - 1);
  assert_memory_equal(s.data, meant, s.size);
  expect_error(json_read_string("[1]", 3, &s), "JSON column 1: expected a string");
  expect_error(json_read_string("", 0, &s), "expected a string");
  expect_error(json_read_string("\"a\" b", 5, &s), "expected nothing after the value");
  expect_error(json_read_string("\"a", 2, &s), "closing quote");
  text_free(&s);
}

static void test_read_u32s(void **state) {
  (void)state;
  static const char *const bad_lists[][2] = {
      {"{}", "expected an array of integers"},
      {"[1 2]", "expected ',' or ']'"},
      {"[1,]", "expected an integer"},
      {"[,1]", "expected an integer"},
      {"[-1]", "from 0 to 4294967295"},
      {"[4294967296]", "from 0 to 4294967295"},
      {"[01]", "from 0 to 4294967295"},
      {"[1.5]", "expected ',' or ']'"},
      {"[1", "(end of text)"},
      {"[1] 2", "expected nothing after the value"},
      {"", "expected an array of integers"},
      {"[\"1\"]", "expected an integer"},
  };
  uint32_t ids[16];
  size_t n;
  expect_good(json_read_u32s(" [ 0 ,4294967295,\t7] ", 21, ids, &n));
  assert_int_equal(n, 3);
  assert_true(ids[0] == 0 && ids[1] == UINT32_MAX && ids[2] == 7);
  expect_good(json_read_u32s("[ ]", 3, ids, &n));
  assert_int_equal(n, 0);
  for (size_t i = 0; i < sizeof bad_lists / sizeof *bad_lists; i++)
    expect_error(json_read_u32s(bad_lists[i][0], strlen(bad_lists[i][0]), ids, &n),
                 bad_lists[i][1]);
}

/* ---------------------------------------------------------------- writing */

static void write_sample(json_writer *j) {
  emit_object(j, NULL);
  emit_string(j, "a\"\\", "\x01\x7f\xff\xc3\xa9\n");
  emit_array(j, "lines");
  emit_record(j, NULL);
  emit_integer(j, "i", -3);
  emit_list(j, "in");
  emit_bool(j, NULL, true);
  emit_string(j, NULL, NULL);
  emit_end_array(j);
  emit_end_object(j);
  emit_end_array(j);
  emit_object(j, "empty");
  emit_end_object(j);
  emit_text(j, "nul", "a\0b", 3);
  emit_decimal(j, "ms", 1234.5678, 2);
  emit_end_object(j);
}

static void test_layout(void **state) {
  (void)state;
  static const char lines[] =
      "{\n  \"a\\\"\\\\\": \"\\u0001\\u007f\\ufffd\xc3\xa9\\u000a\",\n"
      "  \"lines\": [\n    {\"i\": -3, \"in\": [true, null]}\n  ],\n  \"empty\": {},\n"
      "  \"nul\": \"a\\u0000b\",\n  \"ms\": 1234.57\n}\n";
  static const char compact[] =
      "{\"a\\\"\\\\\":\"\\u0001\\u007f\\ufffd\xc3\xa9\\u000a\",\"lines\":[{\"i\":-3,\"in\":[true,"
      "null]}],\"empty\":{},\"nul\":\"a\\u0000b\",\"ms\":1234.57}";
  for (int i = 0; i < 2; i++) {
    text out = {0};
    json_writer j = {.out = &out, .compact = i};
    write_sample(&j);
    assert_string_equal(out.data, i ? compact : lines);
    text_free(&out);
  }
}

static void test_exact_numbers(void **state) {
  (void)state;
  static const int64_t integers[] = {0, -1, INT64_C(1) << 53, (INT64_C(1) << 53) - 1, INT64_MIN};
  static const double doubles[] = {0.1, -0.0, DBL_MAX, 5e-324, 1e22, INFINITY, -INFINITY, NAN};
  for (size_t n = 0; n < sizeof doubles / sizeof *doubles; n++) {
    text out = {0};
    json_writer j = {.out = &out};
    double f;
    int64_t i = 0;
    uint64_t u;
    emit_list(&j, NULL);
    emit_f64(&j, NULL, doubles[n]);
    emit_i64(&j, NULL, integers[n % 5]);
    emit_u64(&j, NULL, UINT64_MAX >> n);
    emit_number(&j, NULL, doubles[n]);
    emit_end_array(&j);
    json *v = parse(out.data);
    const json *at = json_first(v);
    assert_true(json_f64(at, &f));
    assert_true(isnan(f) ? isnan(doubles[n]) : memcmp(&f, &doubles[n], sizeof f) == 0);
    at = json_next(at);
    assert_true(json_i64(at, &i) && i == integers[n % 5]);
    at = json_next(at);
    assert_true(json_u64(at, &u) && u == UINT64_MAX >> n);
    at = json_next(at);
    assert_int_equal(json_kind_of(at), isfinite(doubles[n]) ? JSON_NUMBER : JSON_NULL);
    json_free(v);
    text_free(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_syntax),    cmocka_unit_test(test_each_byte_of_a_string),
      cmocka_unit_test(test_limits),        cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_fields),        cmocka_unit_test(test_read_string),
      cmocka_unit_test(test_read_u32s),     cmocka_unit_test(test_layout),
      cmocka_unit_test(test_exact_numbers), cmocka_unit_test(test_trees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
