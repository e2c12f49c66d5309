/* The JSON reader refuses everything that is not RFC 8259, fields are read by type, and the
 * writer's output reads back unchanged. */
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
  json *json;
  expect_good(json_parse(source, strlen(source), &json));
  return json;
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
    {"{\"a\": \"\\x\"}", "unknown escape"},
    {"{\"a\": \"\\u0000\"}", "NUL"},
    {"{\"a\": \"\\ud800\"}", "half of a surrogate pair"},
    {"{\"a\": \"\\udc00\"}", "half of a surrogate pair"},
    {"{\"a\": \"\\ud800\\u0041\"}", "half of a surrogate pair"},
    {"{\"a\": \"\\u12g4\"}", "four hexadecimal digits"},
    {"{\"a\": \"\xff\"}", "not valid UTF-8"},
    {"{\"a\": \"\xc0\x80\"}", "not valid UTF-8"},
    {"{\"a\": \"open", "closing quote"},
    {"{\"a\": NaN}", "expected a value"},
    {"{\"a\": nul}", "expected a value"},
    {"{\"a\": 1 \"b\": 2}", "expected ',' or '}'"},
    {"{\"a\": [1 2]}", "expected ',' or ']'"},
    {"// hello\n{}", "expected a value"},
    {"{\"a\": 1, \"b\": 1, \"a\": 1}", "key \"a\" appears twice"},
    {"[{\"b\": {\"a\": 1, \"\\u0061\": 2}}]", "key \"a\" appears twice"},
    {"0.00000000000000000000000000000000000000000000000000000000000000001",
     "the number has too many digits"},
};

static void test_bad_syntax(void **state) {
  (void)state;
  json *json;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    expect_error(json_parse(bad[i].source, strlen(bad[i].source), &json), bad[i].error);
    assert_null(json);
  }
  expect_error(json_parse("\"a\0b\"", 5, &json), "control character");
  expect_error(json_parse_integers("[1, 2.0]", 8, &json), "expected an integer without fraction");
  expect_error(json_parse_integers("[1e3]", 5, &json), "expected an integer without fraction");
}

/* Strings are read eight bytes at a time where no byte needs decoding: each byte, at each place. */
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

/* Parses n nested containers. */
static clave_status parse_nested(size_t n) {
  char deep[2 * (JSON_MAX_DEPTH + 1)];
  memset(deep, '[', n);
  memset(deep + n, ']', n);
  json *json;
  clave_status st = json_parse(deep, 2 * n, &json);
  json_free(json);
  return st;
}

static void test_limits(void **state) {
  (void)state;
  expect_good(parse_nested(JSON_MAX_DEPTH));
  expect_error(parse_nested(JSON_MAX_DEPTH + 1), "values are nested too deeply");
  const size_t size =
      2 * (size_t)JSON_MAX_VALUES + 1; /* the array and its values exceed the limit by one */
  char *many = malloc(size);
  for (size_t i = 0; i < size; i++) many[i] = i % 2 ? '0' : ',';
  many[0] = '[';
  many[size - 1] = ']';
  expect_error(json_check_syntax(many, size, false), "the file has too many values");
  many[size - 3] = ']';
  expect_good(json_check_syntax(many, size - 2, false));
  free(many);
}

/* ---------------------------------------------------------------- values */

static void test_numbers(void **state) {
  (void)state;
  json *value = parse(
      "[9007199254740991, 9007199254740992, 1.5, \"-9223372036854775808\", -1, 1e999, "
      "\"-inf\", \"18446744073709551615\", \"1x\"]");
  const json *at = json_first(value);
  int64_t i;
  uint64_t u;
  double f;
  assert_int_equal(json_count(value), 9);
  assert_true(json_i64(at, &i) && i == INT64_C(9007199254740991));
  at = json_next(at);
  assert_false(json_i64(at, &i)); /* 2^53 + 1 would be read as the same number */
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
  json_free(value);
}

static void test_fields(void **state) {
  (void)state;
  static const field_choice choices[] = {{"left", 0}, {"right", 1}};
  json *value = parse(
      "{\"on\": true, \"n\": 7, \"name\": \"x\", \"none\": null, \"wide\": \"\\u00e9\", "
      "\"side\": \"right\", \"list\": []}");
  const json *list;
  bool on;
  uint32_t n;
  span span;
  int side;
  expect_good(field_bool(value, "on", false, &on));
  assert_true(on);
  expect_good(field_bool(value, "none", true, &on));
  assert_true(on);
  expect_error(field_bool(value, "n", true, &on), "\"n\"");
  expect_good(field_index(value, "n", 7, 3, &n));
  assert_int_equal(n, 7);
  expect_error(field_index(value, "n", 6, 3, &n), "expected an integer from 0 to 6; \"n\"");
  expect_good(field_index(value, "absent", 6, 300, &n));
  assert_int_equal(n, 300);
  expect_good(field_text(value, "name", NULL, &span));
  assert_true(span.size == 1 && *span.data == 'x');
  expect_error(field_text(value, "absent", NULL, &span),
               "expected a string as \"absent\", but the member is missing");
  expect_good(field_character(value, "wide", &n));
  assert_int_equal(n, 0xE9);
  expect_error(field_character(value, "side", &n),
               "\"side\": expected one character, got \"right\"");
  expect_good(field_choose(value, "side", choices, 2, -1, &side));
  assert_int_equal(side, 1);
  expect_error(field_choose(value, "name", choices, 2, -1, &side), "expected left or right");
  expect_good(field(value, "list", JSON_ARRAY, &list));
  expect_error(field(value, "name", JSON_ARRAY, &list),
               "expected an array, got a string; \"name\"");
  json_free(value);
}

/* Tests every kind of value, also nested. */
static void test_trees(void **state) {
  (void)state;
  static const char source[] =
      "[true, false, null, {\"a\": [1, 2.5e1], \"b\": \"\\u00e9\"}, [], -0.5]";
  json *document;
  assert_null(json_parse(source, sizeof source - 1, &document));
  assert_int_equal(json_count(document), 6);
  const json *value = json_first(document);
  assert_true(json_kind_of(value) == JSON_BOOL && json_is_true(value) && !json_key(value));
  value = json_next(value);
  assert_true(json_kind_of(value) == JSON_BOOL && !json_is_true(value));
  value = json_next(value);
  assert_true(json_kind_of(value) == JSON_NULL && !json_is_true(value));
  const json *object = json_next(value), *json = json_member(object, "a");
  assert_int_equal(json_kind_of(object), JSON_OBJECT);
  assert_string_equal(json_key(json_next(json_first(object))), "b");
  assert_int_equal(json_kind_of(json), JSON_ARRAY);
  assert_true(json_number(json_first(json)) == 1 && !json_key(json_first(json)));
  assert_true(json_number(json_next(json_first(json))) == 25);
  assert_string_equal(json_string(json_member(object, "b")), "\xc3\xa9");
  assert_null(json_member(object, "c"));
  value = json_next(object);
  assert_true(json_kind_of(value) == JSON_ARRAY && !json_first(value));
  assert_true(json_number(json_next(value)) == -0.5);
  assert_null(json_next(json_next(value)));
  json_free(document);
}

static void test_read_string(void **state) {
  (void)state;
  static const char source[] = " \"a\\u0000\\\"\\n\\ud83d\\ude00\\u00e9\xc3\xa9\" ";
  static const char meant[] = "a\0\"\n\xf0\x9f\x98\x80\xc3\xa9\xc3\xa9";
  text text = {0};
  expect_good(json_read_string(source, strlen(source), &text));
  assert_int_equal(text.size, sizeof meant - 1);
  assert_memory_equal(text.data, meant, text.size);
  expect_error(json_read_string("[1]", 3, &text), "JSON column 1: expected a string");
  expect_error(json_read_string("", 0, &text), "expected a string");
  expect_error(json_read_string("\"a\" b", 5, &text), "expected nothing after the value");
  expect_error(json_read_string("\"a", 2, &text), "closing quote");
  text_free(&text);
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

static void write_sample(json_writer *writer) {
  emit_object(writer, NULL);
  emit_string(writer, "a\"\\", "\x01\x7f\xff\xc3\xa9\n");
  emit_array(writer, "lines");
  emit_record(writer, NULL);
  emit_integer(writer, "i", -3);
  emit_list(writer, "in");
  emit_bool(writer, NULL, true);
  emit_string(writer, NULL, NULL);
  emit_end_array(writer);
  emit_end_object(writer);
  emit_end_array(writer);
  emit_object(writer, "empty");
  emit_end_object(writer);
  emit_text(writer, "nul", "a\0b", 3);
  emit_decimal(writer, "ms", 1234.5678, 2);
  emit_end_object(writer);
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
    json_writer writer = {.out = &out, .compact = i};
    write_sample(&writer);
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
    json_writer writer = {.out = &out};
    double f;
    int64_t i = 0;
    uint64_t u;
    emit_list(&writer, NULL);
    emit_f64(&writer, NULL, doubles[n]);
    emit_i64(&writer, NULL, integers[n % 5]);
    emit_u64(&writer, NULL, UINT64_MAX >> n);
    emit_number(&writer, NULL, doubles[n]);
    emit_end_array(&writer);
    json *value = parse(out.data);
    const json *at = json_first(value);
    assert_true(json_f64(at, &f));
    assert_true(isnan(f) ? isnan(doubles[n]) : memcmp(&f, &doubles[n], sizeof f) == 0);
    at = json_next(at);
    assert_true(json_i64(at, &i) && i == integers[n % 5]);
    at = json_next(at);
    assert_true(json_u64(at, &u) && u == UINT64_MAX >> n);
    at = json_next(at);
    assert_int_equal(json_kind_of(at), isfinite(doubles[n]) ? JSON_NUMBER : JSON_NULL);
    json_free(value);
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
