/* Elements of host tensors: converts each dtype to and from double, and computes summaries. */
#include "cli/values.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

bool is_integer(clave_dtype type) { return type >= CLAVE_I8 && type <= CLAVE_U64; }

bool fits_dtype(clave_dtype type, int64_t value) {
  int bits = type == CLAVE_BOOL ? 1 : 8 * (int)clave_dtype_size(type);
  if (bits == 64) return true;
  bool is_unsigned = type >= CLAVE_BOOL || type == CLAVE_U8; /* U16 and U32 follow BOOL */
  int64_t limit = (int64_t)1 << (is_unsigned ? bits : bits - 1);
  return value < limit && value >= (is_unsigned ? 0 : -limit);
}

static uint16_t narrow_to_half(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  if (isnan(value)) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520) return (uint16_t)(sign | 0x7c00);
  int exponent = 0;
  (void)frexp(size, &exponent); /* size in [2^(exponent-1), 2^exponent) */
  if (size == 0 || exponent < -13) return (uint16_t)(sign | (int)nearbyint(ldexp(size, 24)));
  int fraction = (int)nearbyint(ldexp(size, 11 - exponent)); /* 11-bit fraction, 1024 ... 2048 */
  return (uint16_t)(sign | ((exponent + 13) * 1024 + fraction));
}

static uint64_t load_bits(const void *element, size_t size) {
  unsigned char bytes[8] = {0};
  uint64_t bits = 0;
  memcpy(bytes, element, size);
  for (size_t i = 0; i < size; i++) bits |= (uint64_t)bytes[i] << 8 * i;
  return bits;
}

int64_t load_integer(clave_dtype type, const void *element) {
  uint64_t bits = load_bits(element, clave_dtype_size(type));
  switch (type) {
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

double load_number(clave_dtype type, const void *element) {
  return element_number((dtype)type, element); /* clave_dtype and dtype have the same values */
}

void store_number(clave_dtype type, double value, void *element) {
  float single = (float)value;
  uint16_t half;
  int64_t integer;
  switch (type) {
    case CLAVE_F32:
      memcpy(element, &single, sizeof single);
      return;
    case CLAVE_F64:
      memcpy(element, &value, sizeof value);
      return;
    case CLAVE_F16:
    case CLAVE_BF16:
      half = type == CLAVE_F16 ? narrow_to_half(value) : f32_to_bf16(single);
      memcpy(element, &half, sizeof half);
      return;
    case CLAVE_F8_E4M3:
    case CLAVE_F8_E5M2:
      *(uint8_t *)element =
          (uint8_t)(type == CLAVE_F8_E4M3 ? f32_to_f8_e4m3(single) : f32_to_f8_e5m2(single));
      return;
    default:
      integer = (int64_t)value;
      for (size_t i = 0; i < clave_dtype_size(type); i++) {
        ((unsigned char *)element)[i] = (unsigned char)((uint64_t)integer >> 8 * i);
      }
  }
}

uint64_t count_elements(const clave_tensor *tensor) {
  uint64_t n = 1;
  for (int i = 0; i < tensor->rank; i++) n *= (uint64_t)tensor->dims[i];
  return n;
}

bool is_contiguous(const clave_tensor *tensor) {
  int64_t expected = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    if (tensor->dims[i] > 1 && tensor->strides[i] != expected) return false;
    expected *= tensor->dims[i];
  }
  return true;
}

const void *values_element_at(const clave_tensor *tensor, uint64_t flat) {
  int64_t offset = 0;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    uint64_t size = (uint64_t)tensor->dims[i];
    offset += (int64_t)(flat % size) * tensor->strides[i];
    flat /= size;
  }
  return (const char *)tensor->data + offset * (int64_t)clave_dtype_size(tensor->dtype);
}

tensor_summary summarise_tensor(const clave_tensor *tensor) {
  tensor_summary summary = {.count = count_elements(tensor)};
  double sum = 0;
  uint64_t n = 0;
  for (uint64_t i = 0; i < summary.count; i++) {
    double value = load_number(tensor->dtype, values_element_at(tensor, i));
    if (isnan(value)) continue;
    if (!n || value < summary.min) summary.min = value;
    if (!n || value > summary.max) summary.max = value;
    sum += value;
    n++;
  }
  if (n) summary.mean = sum / (double)n;
  summary.n_nan = summary.count - n;
  return summary;
}
