/* Element types: a table with one row each, and conversions of floats smaller than F32. */
#include "base/dtype.h"

#include <string.h>

#define FLOAT_OF(u) float_of_bits(u)
#define BITS_OF(f) bits_of_float(f)
#include "base/float8.h"

typedef enum dtype_kind { KIND_FLOAT, KIND_INT, KIND_BOOL, STORED_INT, STORED_FLOAT } dtype_kind;

static const struct {
  const char *name;
  size_t size;
  dtype_kind kind;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F32] = {"F32", 4, KIND_FLOAT},
    [DTYPE_F16] = {"F16", 2, KIND_FLOAT},
    [DTYPE_BF16] = {"BF16", 2, KIND_FLOAT},
    [DTYPE_F64] = {"F64", 8, KIND_FLOAT},
    [DTYPE_I8] = {"I8", 1, KIND_INT},
    [DTYPE_U8] = {"U8", 1, KIND_INT},
    [DTYPE_I16] = {"I16", 2, KIND_INT},
    [DTYPE_I32] = {"I32", 4, KIND_INT},
    [DTYPE_I64] = {"I64", 8, KIND_INT},
    [DTYPE_BOOL] = {"BOOL", 1, KIND_BOOL},
    [DTYPE_U16] = {"U16", 2, STORED_INT},
    [DTYPE_U32] = {"U32", 4, STORED_INT},
    [DTYPE_U64] = {"U64", 8, STORED_INT},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1, STORED_FLOAT},
    [DTYPE_F8_E5M2] = {"F8_E5M2", 1, STORED_FLOAT},
};

static bool is_dtype(dtype t) { return (unsigned)t < DTYPE_COUNT; }

size_t dtype_size(dtype t) { return is_dtype(t) ? dtypes[t].size : 0; }
const char *dtype_name(dtype t) { return is_dtype(t) ? dtypes[t].name : "(no dtype)"; }
bool dtype_is_float(dtype t) { return is_dtype(t) && dtypes[t].kind == KIND_FLOAT; }
bool dtype_is_int(dtype t) { return is_dtype(t) && dtypes[t].kind == KIND_INT; }
bool dtype_is_stored(dtype t) { return is_dtype(t) && dtypes[t].kind >= STORED_INT; }
bool dtype_has_fractions(dtype t) {
  return dtype_is_float(t) || (is_dtype(t) && dtypes[t].kind == STORED_FLOAT);
}

bool dtype_from_name(const char *name, dtype *out) {
  for (int i = 0; i < DTYPE_COUNT; i++) {
    if (strcmp(dtypes[i].name, name) == 0) {
      *out = (dtype)i;
      return true;
    }
  }
  return false;
}

float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 31)
    return float_of_bits(sign | 0x7F800000u | (mantissa ? 0x400000u : 0) | mantissa << 13);
  if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f; /* exact */
  return float_of_bits(sign | bits_of_float(magnitude));
}

uint16_t f32_to_f16(float f) {
  uint32_t bits = bits_of_float(f), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu,
           result;
  if (magnitude > 0x7F800000u) {
    result = 0x7E00u | ((magnitude >> 13) & 0x3FFu); /* NaN, quieted */
  } else if (magnitude >= 0x477FF000u) {
    result = 0x7C00u; /* 65520 and above round to infinity */
  } else if (magnitude >= 0x38800000u) {
    result = shift_round_even(magnitude - 0x38000000u, 13); /* a carry into the exponent is right */
  } else if (magnitude >= 0x33000000u) {
    int shift = 126 - (int)(magnitude >> 23); /* subnormal: in units of 2^-24 */
    result = shift_round_even((magnitude & 0x7FFFFFu) | 0x800000u, shift);
  } else {
    result = 0; /* below half of the smallest subnormal, 2^-25 */
  }
  return (uint16_t)(sign | result);
}

float bf16_to_f32(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) bits |= 0x400000u;
  return float_of_bits(bits);
}

uint16_t f32_to_bf16(float f) {
  uint32_t bits = bits_of_float(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)shift_round_even(bits, 16);
}

float f8_e4m3_to_f32(uint8_t code) { return decode_E4M3(code); }
uint8_t f32_to_f8_e4m3(float f) { return (uint8_t)encode_E4M3(f); }
float f8_e5m2_to_f32(uint8_t code) { return decode_E5M2(code); }
uint8_t f32_to_f8_e5m2(float f) { return (uint8_t)encode_E5M2(f); }

double element_number(dtype t, const void *memory) {
  union {
    float f;
    double d;
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
  } e = {0};
  memcpy(&e, memory, dtype_size(t));
  switch (t) {
    case DTYPE_F32:
      return (double)e.f;
    case DTYPE_F16:
      return (double)f16_to_f32(e.u16);
    case DTYPE_BF16:
      return (double)bf16_to_f32(e.u16);
    case DTYPE_F64:
      return e.d;
    case DTYPE_I8:
      return e.i8;
    case DTYPE_U8:
      return e.u8;
    case DTYPE_I16:
      return e.i16;
    case DTYPE_I32:
      return e.i32;
    case DTYPE_I64:
      return (double)e.i64;
    case DTYPE_BOOL:
      return e.u8 != 0;
    case DTYPE_U16:
      return e.u16;
    case DTYPE_U32:
      return e.u32;
    case DTYPE_U64:
      return (double)e.u64;
    case DTYPE_F8_E4M3:
      return (double)f8_e4m3_to_f32(e.u8);
    case DTYPE_F8_E5M2:
      return (double)f8_e5m2_to_f32(e.u8);
    default:
      return 0;
  }
}
