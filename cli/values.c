/* Elements of host tensors: conversion of each dtype to and from double, and summaries. */
#include "cli/values.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
#define FLOAT_OF(u) float_of(u)
#define BITS_OF(f) bits_of(f)
#include "base/float8.h"

bool is_integer(clave_dtype dtype) { return dtype >= CLAVE_I8 && dtype <= CLAVE_U64; }

bool fits_dtype(clave_dtype dtype, int64_t value) {
  int bits = dtype == CLAVE_BOOL ? 1 : 8 * (int)clave_dtype_size(dtype);
  if (bits == 64) return true;
  bool is_unsigned = dtype >= CLAVE_BOOL || dtype == CLAVE_U8; /* U16 and U32 are above BOOL */
  int64_t limit = (int64_t)1 << (is_unsigned ? bits : bits - 1);
  return value < limit && value >= (is_unsigned ? 0 : -limit);
}

static double widen_half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(fraction + 1024, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

static uint16_t narrow_to_half(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  if (isnan(value)) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520) return (uint16_t)(sign | 0x7c00);
  int exponent = 0;
  (void)frexp(size, &exponent); /* size in [2^(exponent-1), 2^exponent) */
  if (size == 0 || exponent < -13) return (uint16_t)(sign | (int)nearbyint(ldexp(size, 24)));
  int fraction = (int)nearbyint(ldexp(size, 11 - exponent)); /* 1024 ... 2048 */
  return (uint16_t)(sign | ((exponent + 13) * 1024 + fraction));
}

static uint16_t narrow_to_bf16(double value) {
  uint32_t bits = bits_of((float)value);
  if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint64_t load_bits(const void *element, size_t size) {
  unsigned char bytes[8] = {0};
  uint64_t bits = 0;
  memcpy(bytes, element, size);
  for (size_t i = 0; i < size; i++) bits |= (uint64_t)bytes[i] << 8 * i;
  return bits;
}

int64_t load_integer(clave_dtype dtype, const void *element) {
  uint64_t bits = load_bits(element, clave_dtype_size(dtype));
  switch (dtype) {
    case CLAVE_I8:
      return (int8_t)bits;
    case CLAVE_I16:
      return (int16_t)bits;
    case CLAVE_I32:
      return (int32_t)bits;
    default:
      return (int64_t)bits;
  }
}

double load_number(clave_dtype dtype, const void *element) {
  float single;
  double number;
  switch (dtype) {
    case CLAVE_F32:
      memcpy(&single, element, sizeof single);
      return (double)single;
    case CLAVE_F64:
      memcpy(&number, element, sizeof number);
      return number;
    case CLAVE_F16:
      return widen_half((uint16_t)load_bits(element, 2));
    case CLAVE_BF16:
      return (double)float_of((uint32_t)load_bits(element, 2) << 16);
    case CLAVE_F8_E4M3:
      return (double)decode_E4M3((int)load_bits(element, 1));
    case CLAVE_F8_E5M2:
      return (double)decode_E5M2((int)load_bits(element, 1));
    case CLAVE_U64:
      return (double)load_bits(element, 8);
    default:
      return (double)load_integer(dtype, element);
  }
}

void store_number(clave_dtype dtype, double value, void *element) {
  float single = (float)value;
  uint16_t half;
  int64_t integer;
  switch (dtype) {
    case CLAVE_F32:
      memcpy(element, &single, sizeof single);
      return;
    case CLAVE_F64:
      memcpy(element, &value, sizeof value);
      return;
    case CLAVE_F16:
    case CLAVE_BF16:
      half = dtype == CLAVE_F16 ? narrow_to_half(value) : narrow_to_bf16(value);
      memcpy(element, &half, sizeof half);
      return;
    case CLAVE_F8_E4M3:
    case CLAVE_F8_E5M2:
      *(uint8_t *)element =
          (uint8_t)(dtype == CLAVE_F8_E4M3 ? encode_E4M3(single) : encode_E5M2(single));
      return;
    default:
      integer = (int64_t)value;
      for (size_t i = 0; i < clave_dtype_size(dtype); i++) {
        ((unsigned char *)element)[i] = (unsigned char)((uint64_t)integer >> 8 * i);
      }
  }
}

uint64_t count_elements(const clave_tensor *t) {
  uint64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= (uint64_t)t->dims[i];
  return n;
}

bool is_contiguous(const clave_tensor *t) {
  int64_t expected = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->dims[i] > 1 && t->strides[i] != expected) return false;
    expected *= t->dims[i];
  }
  return true;
}

const void *element_at(const clave_tensor *t, uint64_t flat) {
  int64_t offset = 0;
  for (int i = t->rank - 1; i >= 0; i--) {
    uint64_t size = (uint64_t)t->dims[i];
    offset += (int64_t)(flat % size) * t->strides[i];
    flat /= size;
  }
  return (const char *)t->data + offset * (int64_t)clave_dtype_size(t->dtype);
}

tensor_summary summarise_tensor(const clave_tensor *t) {
  tensor_summary s = {.count = count_elements(t)};
  double sum = 0;
  uint64_t n = 0;
  for (uint64_t i = 0; i < s.count; i++) {
    double value = load_number(t->dtype, element_at(t, i));
    if (isnan(value)) continue;
    if (!n || value < s.min) s.min = value;
    if (!n || value > s.max) s.max = value;
    sum += value;
    n++;
  }
  if (n) s.mean = sum / (double)n;
  s.n_nan = s.count - n;
  return s;
}
