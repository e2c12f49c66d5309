#ifndef BACKEND_CPU_KERNELS_CONV_INTEGER_H
#define BACKEND_CPU_KERNELS_CONV_INTEGER_H
/* Convolution of 8-bit integers: x I8 or U8 (type), weight I8, bias I32; out the sums, I32, or
 * codes of them. */
#include "backend/cpu/kernels/conv_window.h"
#include "backend/cpu/kernels/requantise.h"

typedef struct conv_integer_args {
  conv_args conv; /* type: of x */
  int padding_value;
  bool makes_codes;
  requantise_args codes; /* where it does: of the sums, terms[0].x, into conv.out */
} conv_integer_args;
KERNEL(conv_integer, conv_integer_args);

/* Elements of codes.terms[1] from number `at` of out on; NULL: there are none. */
static inline const void *conv_integer_other(const conv_integer_args *a, int64_t at) {
  const requantise_term *t = &a->codes.terms[1];
  return a->makes_codes && t->x ? element_at(t->x, t->type, at) : NULL;
}

#endif
