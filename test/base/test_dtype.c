/* Tests floats of 8 and 16 bits: every value is converted to another type and back, and rounding is
 * compared with exact arithmetic in double. Also tests elements as doubles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"

static void test_f16_round_trip(void **state) {
  (void)state;
  for (uint32_t h = 0; h <= UINT16_MAX; h++) {
    float f = f16_to_f32((uint16_t)h);
    uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 31 && mantissa) {
      assert_true(isnan(f));
      assert_int_equal(f32_to_f16(f), h | 0x200);
      continue;
    }
    double want = exponent == 31 ? INFINITY
                  : exponent     ? ldexp(1024 + mantissa, (int)exponent - 25)
                                 : ldexp(mantissa, -24);
    assert_true((double)f == (h & 0x8000 ? -want : want));
    assert_int_equal(f32_to_f16(f), h);
  }
}

/* Between neighbours lo < hi, values below the midpoint round down, values above it up, and the
 * midpoint rounds to even. */
static void test_f16_rounding(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x7BFF; h++) {
    float lo = f16_to_f32((uint16_t)h), hi = f16_to_f32((uint16_t)(h + 1)), middle = (lo + hi) / 2;
    assert_int_equal(f32_to_f16(middle), h & 1 ? h + 1 : h);
    assert_int_equal(f32_to_f16(nextafterf(middle, 0)), h);
    assert_int_equal(f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
    assert_int_equal(f32_to_f16(-nextafterf(middle, INFINITY)), (h + 1) | 0x8000);
  }
  assert_int_equal(f32_to_f16(65519.996f), 0x7BFF);
  assert_int_equal(f32_to_f16(65520.0f), 0x7C00);
  assert_int_equal(f32_to_f16(1e30f), 0x7C00);
  assert_int_equal(f32_to_f16(-0.0f), 0x8000);
}

static void test_bf16(void **state) {
  (void)state;
  for (uint32_t h = 0; h <= UINT16_MAX; h++) {
    float f = bf16_to_f32((uint16_t)h);
    if (isnan(f)) {
      assert_int_equal(f32_to_bf16(f), h | 0x40);
      continue;
    }
    assert_int_equal(f32_to_bf16(f), h);
    if ((h & 0x7FFF) >= 0x7F7F) continue; /* no finite neighbour */
    double middle = ((double)f + (double)bf16_to_f32((uint16_t)(h + 1))) / 2;
    assert_int_equal(f32_to_bf16((float)middle), h & 1 ? h + 1 : h);
    assert_int_equal(f32_to_bf16(nextafterf((float)middle, 0)), h);
  }
  assert_int_equal(f32_to_bf16(3.4028235e38f), 0x7F80);
  static const uint32_t nans[] = {0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF, 0xFF807FFF};
  for (int i = 0; i < 4; i++) { /* rounding would turn these into zeros and infinities */
    float f;
    memcpy(&f, &nans[i], sizeof f);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(f))));
    assert_int_equal(f32_to_bf16(f) >> 15, nans[i] >> 31);
  }
}

typedef struct float8 {
  int mantissa, bias;
  uint8_t largest, above; /* the codes of the largest number and of all larger ones */
  float (*decode)(uint8_t);
  uint8_t (*encode)(float);
} float8;
static const float8 formats[] = {{3, 7, 0x7E, 0x7E, f8_e4m3_to_f32, f32_to_f8_e4m3},
                                 {2, 15, 0x7B, 0x7C, f8_e5m2_to_f32, f32_to_f8_e5m2}};

/* Returns the value of a code, by the definition of the format. */
static double float8_value(const float8 *float8, int code) {
  int exponent = code >> float8->mantissa, mantissa = code & ((1 << float8->mantissa) - 1);
  if (exponent)
    return ldexp((1 << float8->mantissa) + mantissa, exponent - float8->bias - float8->mantissa);
  return ldexp(mantissa, 1 - float8->bias - float8->mantissa);
}

static void test_float8(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    const float8 *float8 = &formats[k];
    for (int code = 0; code <= float8->largest; code++) {
      double x = float8_value(float8, code);
      assert_true((double)float8->decode((uint8_t)code) == x);
      assert_true((double)float8->decode((uint8_t)(code | 0x80)) == -x);
      assert_int_equal(float8->encode((float)x), code);
      assert_int_equal(float8->encode((float)-x), code | 0x80);
      if (code == float8->largest) break;
      double next = float8_value(float8, code + 1), middle = (x + next) / 2;
      assert_int_equal(float8->encode((float)middle), code & 1 ? code + 1 : code);
      assert_int_equal(float8->encode(nextafterf((float)middle, 0)), code);
      assert_int_equal(float8->encode(nextafterf((float)middle, INFINITY)), code + 1);
      assert_int_equal(float8->encode(-nextafterf((float)middle, INFINITY)), (code + 1) | 0x80);
    }
    static const float large[] = {65536, 1e30f, 3.4028235e38f, INFINITY};
    for (int i = 0; i < 4; i++) assert_int_equal(float8->encode(large[i]), float8->above);
    assert_int_equal(float8->encode(-INFINITY), float8->above | 0x80);
    for (int code = float8->above + 1; code < 0x80; code++) {
      assert_true(isnan(float8->decode((uint8_t)code)));
      assert_int_equal(float8->encode(float8->decode((uint8_t)code)), 0x7F);
      assert_int_equal(float8->encode(float8->decode((uint8_t)(code | 0x80))), 0xFF);
    }
    assert_int_equal(float8->encode(1e-30f), 0);
    assert_int_equal(float8->encode(-1e-45f), 0x80);
  }
  assert_true(isinf(f8_e5m2_to_f32(0x7C)) && f8_e5m2_to_f32(0xFC) < 0);
  assert_int_equal(f32_to_f8_e4m3(464.1f), 0x7E);
  assert_int_equal(f32_to_f8_e5m2(61439.0f), 0x7B); /* 61440 is the midpoint to infinity */
  assert_int_equal(f32_to_f8_e5m2(61440.0f), 0x7C);
}

static void test_numbers(void **state) {
  (void)state;
  static const struct {
    dtype type;
    uint64_t bits;
    double want;
  } rows[] = {{DTYPE_F32, 0x3FC00000, 1.5}, {DTYPE_F16, 0x3E00, 1.5},
              {DTYPE_BF16, 0x3FC0, 1.5},    {DTYPE_F64, 0x3FF8000000000000, 1.5},
              {DTYPE_I8, 0xFF, -1},         {DTYPE_U8, 0xFF, 255},
              {DTYPE_I16, 0xFFFF, -1},      {DTYPE_U16, 0xFFFF, 65535},
              {DTYPE_I32, 0xFFFFFFFF, -1},  {DTYPE_U32, 0xFFFFFFFF, 4294967295.0},
              {DTYPE_I64, UINT64_MAX, -1},  {DTYPE_U64, UINT64_MAX, 0x1p64},
              {DTYPE_BOOL, 2, 1},           {DTYPE_F8_E4M3, 0x3C, 1.5},
              {DTYPE_F8_E5M2, 0x3E, 1.5}};
  assert_int_equal(sizeof rows / sizeof *rows, DTYPE_COUNT);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    unsigned char at[9]; /* any alignment; little-endian */
    memcpy(at + 1, &rows[i].bits, sizeof rows[i].bits);
    assert_true(element_number(rows[i].type, at + 1) == rows[i].want);
  }
}

static void test_kinds(void **state) {
  (void)state;
  for (int i = 0; i < DTYPE_COUNT; i++) {
    dtype t = (dtype)i;
    assert_int_equal(dtype_is_float(t) + dtype_is_int(t) + dtype_is_stored(t) + (t == DTYPE_BOOL),
                     1);
  }
  assert_true(dtype_is_stored(DTYPE_U64) && !dtype_has_fractions(DTYPE_U64));
  assert_true(dtype_is_stored(DTYPE_F8_E5M2) && dtype_has_fractions(DTYPE_F8_E5M2));
  assert_true(dtype_has_fractions(DTYPE_F16) && !dtype_has_fractions(DTYPE_COUNT));
}

static void test_names(void **state) {
  (void)state;
  for (int i = 0; i < DTYPE_COUNT; i++) {
    dtype t;
    assert_true(dtype_from_name(dtype_name((dtype)i), &t));
    assert_int_equal(t, i);
    assert_true(dtype_size(t) >= 1);
  }
  dtype t;
  assert_false(dtype_from_name("F8_E8M0", &t));
  assert_int_equal(dtype_size(DTYPE_COUNT), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_f16_round_trip), cmocka_unit_test(test_f16_rounding),
      cmocka_unit_test(test_bf16),           cmocka_unit_test(test_float8),
      cmocka_unit_test(test_numbers),        cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
