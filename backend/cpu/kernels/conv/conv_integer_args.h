#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_ARGS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_ARGS_H
/* Arguments of a convolution of 8-bit integers: x is I8 or U8 (type), weight I8, bias I32. out is
 * the sums (I32), their requantised codes, or the decoded values of the codes (F32). */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "backend/cpu/kernels/elementwise/requantise_args.h"

typedef struct conv_integer_args {
  conv_args conv; /* type: of x */
  int padding_value;
  bool makes_codes;
  requantise_args codes; /* if makes_codes: requantises the sums, terms[0], to conv.out */
  bool decodes; /* out = ((float)code - decode_zero) * decode_scale; requires channels > 1 */
  float decode_zero, decode_scale;
} conv_integer_args;

/* Decodes n codes. */
static inline void conv_integer_decode(const conv_integer_args *args, const unsigned char *codes,
                                       int n, float *out) {
  const bool is_signed = args->codes.type == DTYPE_I8;
  for (int i = 0; i < n; i++) {
    const float code = is_signed ? (float)(signed char)codes[i] : (float)codes[i];
    out[i] = (code - args->decode_zero) * args->decode_scale;
  }
}

#endif
