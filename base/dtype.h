#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H
/* Element types: numbering (that of the schema), sizes, names, and scalar conversion of floats
 * smaller than F32. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum dtype {
  DTYPE_F32 = 0,
  DTYPE_F16 = 1,
  DTYPE_BF16 = 2,
  DTYPE_F64 = 3,
  DTYPE_I8 = 4,
  DTYPE_U8 = 5,
  DTYPE_I16 = 6,
  DTYPE_I32 = 7,
  DTYPE_I64 = 8,
  DTYPE_BOOL = 9,
  DTYPE_U16 = 10,
  DTYPE_U32 = 11,
  DTYPE_U64 = 12,
  DTYPE_F8_E4M3 = 13,
  DTYPE_F8_E5M2 = 14,
  DTYPE_COUNT = 15
} dtype;

size_t dtype_size(dtype t);      /* bytes per element */
const char *dtype_name(dtype t); /* "F32": the name in safetensors files */
bool dtype_from_name(const char *name, dtype *out);
bool dtype_is_float(dtype t); /* F32 F16 BF16 F64 */
bool dtype_is_int(dtype t);   /* I8 U8 I16 I32 I64, not BOOL */
/* U16 U32 U64 F8_E4M3 F8_E5M2: elements are only moved and cast, never computed with. */
bool dtype_is_stored(dtype t);
bool dtype_has_fractions(dtype t); /* true for floats of any size */
/* Returns an element as a double, which may lose low bits of a 64-bit integer; BOOL is 0 or 1.
 * memory: may be unaligned. */
double element_number(dtype t, const void *memory);

static inline uint32_t bits_of_float(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static inline float float_of_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Conversions round to nearest even, and keep NaN (quieted), infinities and subnormals;
 * base/float8.h has the exceptions of 8-bit floats. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
float f8_e4m3_to_f32(uint8_t code);
uint8_t f32_to_f8_e4m3(float f);
float f8_e5m2_to_f32(uint8_t code);
uint8_t f32_to_f8_e5m2(float f);

#endif
