#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_PLANES_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_PLANES_H
/* Rows of four channels of bytes as one of words. */
#include <stdint.h>

/* Of one row of a plane: `left` words of padding, n of x, and padding up to `width`. */
typedef struct integer_row {
  const unsigned char *x[4]; /* the first element of each channel that is seen; NULL: zeros */
  int64_t step;              /* from an element to the next that is seen */
  int64_t left, n, width;
  int padding; /* a byte; of all four channels */
  uint32_t *to;
} integer_row;
void integer_join_row(const integer_row *row);

#endif
