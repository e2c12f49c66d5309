#ifndef IMPORT_EMIT_QUANTIZE_H
#define IMPORT_EMIT_QUANTIZE_H
/* Emits the arithmetic of quantised tensors: steps that encode and decode, and integer products.
 * The optimiser recognises these steps (interp/passes/integer.c). */
#include "import/emit_window.h"

/* The codes of a dtype; `bits` if they are fewer than the dtype has, else 0. */
typedef struct code_range {
  clave_dtype type;
  int bits;
} code_range;

/* Quantised operand: codes, their scale and zero, which are broadcast to the codes. zero: NULL for
 * 0, in the codes' dtype or F32. */
typedef struct quantized {
  value *codes, *scale, *zero;
} quantized;

/* (codes - zero) * scale in the scale's dtype */
value *emit_dequantize(importer *im, const quantized *input);
/* Rounds input / scale half to even, except for 8-bit floats, adds the zero and limits the sum to
 * the range. scale (NULL: 1) and zero (NULL: 0) are broadcast to input; input is F32 or F64. */
value *emit_quantize(importer *im, value *input, value *scale, value *zero, code_range range);
/* True if the value is known to be 0 in all elements; NULL is. */
bool emit_is_zero(importer *im, value *input);

/* (a - left_zero) @ (right - right_zero) in I32, which wraps. left, right: I8 or U8, of at least
 * rank 2; zeros: NULL, or of the dtype of their operand and broadcast to it. */
value *emit_matmul_integer(importer *im, value *left, value *left_zero, value *right,
                           value *right_zero);
/* Pads the spatial dimensions of input: (N, C, spatial...) with its zero (NULL: 0), of one element.
 */
value *emit_pad_codes(importer *im, value *input, value *zero, const number *before,
                      const number *after);
/* The convolution of (input - input_zero) with (weight - weight_zero) in I32, padded with zeros.
 * input_zero: NULL or one element; weight_zero: NULL, one element or (O). */
value *emit_conv_integer(importer *im, const quantized *input, const quantized *weight, value *bias,
                         const window *window, int64_t groups);

#endif
