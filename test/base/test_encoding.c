/* Tests names of encodings in both directions, sizes of rows, codes and factors, which are compared
 * with decoded elements, and the layout of panels of codes. test/python/test_encodings.py compares
 * elements of named blocks with PyPI's gguf. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/code_panels.h"

static const char *const names[] = {
    "int2:16", "int3:48", "int4:32",      "int4:32:zeros", "int4:128:bf16", "int5:32:f32",
    "int6:64", "int7:32", "int8",         "int8:zeros",    "int8:f16",      "int8:32:zeros:f32",
    "e4m3",    "e4m3:32", "e5m2:64:bf16", "Q4_0",          "Q4_1",          "Q5_0",
    "Q5_1",    "Q8_0",    "Q2_K",         "Q3_K",          "Q4_K",          "Q5_K",
    "Q6_K",    "IQ4_NL",  "IQ4_XS",       "TQ1_0",         "TQ2_0",         "MXFP4",
    "IQ2_XXS", "IQ2_XS",  "IQ2_S",        "IQ3_XXS",       "IQ3_S",         "IQ1_S",
    "IQ1_M"};
enum { NAMES = sizeof names / sizeof *names, K = 512 };

static encoding parsed(const char *name) {
  encoding encoding;
  if (!encoding_parse(name, &encoding)) fail_msg("%s is not taken", name);
  return encoding;
}

static void test_names(void **state) {
  (void)state;
  for (int i = 0; i < NAMES; i++) {
    char text[64];
    encoding encoding = parsed(names[i]);
    assert_string_equal(encoding_text(&encoding, text, sizeof text), names[i]);
  }
  static const char *const bad[] = {"",
                                    "int",
                                    "int1",
                                    "int9",
                                    "int44",
                                    "int4:",
                                    "int4:x",
                                    "int4:-16",
                                    "int4:zeros:32",
                                    "int4:32:",
                                    "int4:32:f",
                                    "e4m3x",
                                    "q4_0",
                                    "Q4_0:32",
                                    "plain",
                                    "int4:99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    encoding encoding;
    if (encoding_parse(bad[i], &encoding)) fail_msg("'%s' is taken", bad[i]);
  }
}

static void test_row_bytes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t elements;
    size_t bytes;
  } rows[] = {{"int8", 131, 160 + 4},  {"int4:32", 64, 32 + 4},
              {"int4:32", 65, 48 + 8}, {"int4:32:zeros", 64, 32 + 8},
              {"int3:16", 16, 12 + 4}, {"int8:128:f32", 129, 160 + 8},
              {"e4m3", 1, 32 + 4},     {"Q4_0", 64, 36},
              {"Q6_K", 512, 420},      {"MXFP4", 96, 51},
              {"int8", 0, 0},          {"int8", INT64_MAX, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    encoding encoding = parsed(rows[i].name);
    if (encoding_row_bytes(&encoding, rows[i].elements) != rows[i].bytes)
      fail_msg("%s by %lld", rows[i].name, (long long)rows[i].elements);
  }
}

/* Fills bytes from a seed so that all scales are finite: the upper bits of a byte never have the
 * exponent of infinity. */
static void fill(uint8_t *row, size_t n) {
  uint32_t seed = 7;
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525 + 1013904223;
    row[i] = (uint8_t)(seed >> 24 & 0xb7);
  }
}

static void expect_split(const char *name) {
  encoding encoding = parsed(name);
  uint8_t row[2 * K + 512];
  fill(row, sizeof row);
  for (int part = 0; part < K / DECODED_AT_ONCE; part++) {
    float x[DECODED_AT_ONCE], codes[DECODED_AT_ONCE];
    encoding_decode(&encoding, row, K, part, x);
    code_factors factors = encoding_split(&encoding, row, K, part, codes);
    for (int i = 0; i < DECODED_AT_ONCE; i++) {
      double term = (double)factors.d[i / 16] * factors.s[i / 16] * codes[i],
             low = (double)factors.m[i / 16] * factors.l[i / 16];
      double bound = (fabs(term) + fabs(low)) * 0x1p-22;
      assert_true(encoding.code != CODE_INT || codes[i] == floorf(codes[i]));
      if (!(fabs(term + low - x[i]) <= bound)) fail_msg("%s, element %d", name, part * 32 + i);
    }
  }
}

static void test_split(void **state) {
  (void)state;
  for (int i = 0; i < NAMES; i++) expect_split(names[i]);
}

/* Expects that each code minus the least code fits the bits that a panel has for it. */
static void expect_codes_fit(const char *name) {
  encoding encoding = parsed(name);
  code_panels panels;
  if (!code_panels_of(&encoding, K, &panels)) return;
  uint8_t row[2 * K + 512];
  fill(row, sizeof row);
  for (int part = 0; part < panels.parts; part++) {
    float codes[DECODED_AT_ONCE];
    code_factors factors = encoding_split(&encoding, row, K, part, codes);
    for (int i = 0; i < DECODED_AT_ONCE; i++) {
      float code = codes[i] - (float)panels.least;
      if (panels.code == CODE_INT && !(code >= 0 && code < (float)(1 << panels.bits)))
        fail_msg("%s, code %g", name, (double)code);
    }
    for (int h = 0; h < 2; h++) {
      assert_true(factors.s[h] >= INT8_MIN && factors.s[h] <= INT8_MAX && factors.l[h] >= 0 &&
                  factors.l[h] <= INT8_MAX);
      assert_true(panels.has_subs || (factors.s[h] == 1 && factors.l[h] == 1));
      assert_true(panels.spans == 2 ||
                  (factors.s[0] == factors.s[1] && factors.l[0] == factors.l[1] &&
                   factors.d[0] == factors.d[1] && factors.m[0] == factors.m[1]));
      assert_true(panels.has_lows || (factors.m[h] == 0 && signbit(factors.m[h])));
      assert_true(panels.wide || f16_to_f32(f32_to_f16(factors.d[h])) == factors.d[h]);
    }
  }
}

static void test_panels(void **state) {
  (void)state;
  code_panels panels;
  for (int i = 0; i < NAMES; i++) expect_codes_fit(names[i]);
  encoding plain = {0}, int8 = parsed("int8"), int4 = parsed("int4:48:f32");
  assert_false(code_panels_of(&plain, K, &panels));
  assert_false(code_panels_of(&int8, (int64_t)INT32_MAX + 1, &panels));
  assert_true(code_panels_of(&int4, 100, &panels)); /* 4 parts, 8 spans, the third scale ends
                                                     * later */
  assert_int_equal(panels.spans, 2);
  assert_int_equal(panels.period, 1);
  assert_int_equal(panels.m_at, panels.d_at + 8 * 16 * 4);
  assert_true(code_panels_of(&int4, 192, &panels)); /* 6 parts, 4 scales */
  assert_int_equal(panels.period, 3);
  encoding q4_k = parsed("Q4_K");
  assert_true(code_panels_of(&q4_k, 512, &panels));
  assert_int_equal(panels.bits, 4);
  assert_int_equal(panels.block, 8);
  assert_int_equal(panels.d_at, 256 * 16 / 2);
  assert_int_equal(panels.m_at, panels.d_at + 16 * 2);
  assert_int_equal(panels.s_at, panels.m_at + 16 * 2);
  assert_int_equal(panels.l_at, panels.s_at + 8 * 16);
  assert_int_equal(panels.block_bytes, panels.l_at + 8 * 16);
  assert_int_equal(panels.bytes, 2 * panels.block_bytes);
  assert_int_equal(code_block_at(&panels, 7), 0);
  assert_int_equal(code_block_at(&panels, 8), panels.block_bytes);
}

/* Tests spans that share a scale within a block of 8 parts. */
static void test_periods(void **state) {
  (void)state;
  const struct {
    const char *name;
    int64_t k;
    int period;
  } rows[] = {{"int8", 2048, 8},     {"int8", 96, 3},       {"int4:64", 2048, 2},
              {"int4:128", 2048, 4}, {"int4:512", 2048, 8}, {"int4:96", 2048, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    encoding encoding = parsed(rows[i].name);
    code_panels panels;
    assert_true(code_panels_of(&encoding, rows[i].k, &panels));
    if (panels.period != rows[i].period) fail_msg("%s: %d", rows[i].name, panels.period);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),  cmocka_unit_test(test_row_bytes), cmocka_unit_test(test_split),
      cmocka_unit_test(test_panels), cmocka_unit_test(test_periods),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
