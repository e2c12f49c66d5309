/* The 16-bit floats: every value there and back, and rounding against exact arithmetic in double.
 */
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

/* Between neighbours lo < hi: below the middle goes down, above it up, the middle to the even one.
 */
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
  for (int i = 0; i < 4; i++) { /* rounding would make zeros and infinities of them */
    float f;
    memcpy(&f, &nans[i], sizeof f);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(f))));
    assert_int_equal(f32_to_bf16(f) >> 15, nans[i] >> 31);
  }
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
  assert_false(dtype_from_name("F8_E4M3", &t));
  assert_int_equal(dtype_size(DTYPE_COUNT), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_f16_round_trip),
      cmocka_unit_test(test_f16_rounding),
      cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
