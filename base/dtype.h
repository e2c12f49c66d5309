#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H
/* Element types: numbering (that of the schema), sizes, names, and scalar conversion of the 16-bit
 * floats. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
  DTYPE_COUNT = 10
} dtype;

size_t dtype_size(dtype t);      /* bytes per element */
const char *dtype_name(dtype t); /* "F32": safetensors' names */
bool dtype_from_name(const char *name, dtype *out);
bool dtype_is_float(dtype t); /* F32 F16 BF16 F64 */
bool dtype_is_int(dtype t);   /* I8 U8 I16 I32 I64, not BOOL */

/* Conversions round to nearest even, keep NaN (quieted), infinities and subnormals. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);

#endif
