/* Element types: one table row each, and the 16-bit floats' conversions. */
#include "base/dtype.h"

#include <string.h>

static const struct {
  const char *name;
  size_t size;
  bool is_float, is_int;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F32] = {"F32", 4, true, false},   [DTYPE_F16] = {"F16", 2, true, false},
    [DTYPE_BF16] = {"BF16", 2, true, false}, [DTYPE_F64] = {"F64", 8, true, false},
    [DTYPE_I8] = {"I8", 1, false, true},     [DTYPE_U8] = {"U8", 1, false, true},
    [DTYPE_I16] = {"I16", 2, false, true},   [DTYPE_I32] = {"I32", 4, false, true},
    [DTYPE_I64] = {"I64", 8, false, true},   [DTYPE_BOOL] = {"BOOL", 1, false, false},
};

static bool is_dtype(dtype t) { return (unsigned)t < DTYPE_COUNT; }

size_t dtype_size(dtype t) { return is_dtype(t) ? dtypes[t].size : 0; }
const char *dtype_name(dtype t) { return is_dtype(t) ? dtypes[t].name : "(no dtype)"; }
bool dtype_is_float(dtype t) { return is_dtype(t) && dtypes[t].is_float; }
bool dtype_is_int(dtype t) { return is_dtype(t) && dtypes[t].is_int; }

bool dtype_from_name(const char *name, dtype *out) {
  for (int i = 0; i < DTYPE_COUNT; i++) {
    if (strcmp(dtypes[i].name, name) == 0) {
      *out = (dtype)i;
      return true;
    }
  }
  return false;
}

static uint32_t float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float bits_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 31)
    return bits_float(sign | 0x7F800000u | (mantissa ? 0x400000u : 0) | mantissa << 13);
  if (exponent != 0) return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f; /* exact */
  return bits_float(sign | float_bits(magnitude));
}

/* value >> shift, rounded to nearest even; 0 < shift < 32. */
static uint32_t shift_round_even(uint32_t value, unsigned shift) {
  uint32_t half = 1u << (shift - 1), rest = value & ((half << 1) - 1), result = value >> shift;
  return result + (rest > half || (rest == half && (result & 1u)));
}

uint16_t f32_to_f16(float f) {
  uint32_t bits = float_bits(f), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu,
           result;
  if (magnitude > 0x7F800000u) {
    result = 0x7E00u | ((magnitude >> 13) & 0x3FFu); /* NaN, quieted */
  } else if (magnitude >= 0x477FF000u) {
    result = 0x7C00u; /* 65520 and above round to infinity */
  } else if (magnitude >= 0x38800000u) {
    result = shift_round_even(magnitude - 0x38000000u, 13); /* a carry into the exponent is right */
  } else if (magnitude >= 0x33000000u) {
    unsigned shift = 126u - (magnitude >> 23); /* subnormal: in units of 2^-24 */
    result = shift_round_even((magnitude & 0x7FFFFFu) | 0x800000u, shift);
  } else {
    result = 0; /* below half of the smallest subnormal, 2^-25 */
  }
  return (uint16_t)(sign | result);
}

float bf16_to_f32(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) bits |= 0x400000u;
  return bits_float(bits);
}

uint16_t f32_to_bf16(float f) {
  uint32_t bits = float_bits(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)shift_round_even(bits, 16);
}
