#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_PLANES_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_PLANES_H
/* Joins rows of four channels of bytes to one row of words. */
#include <stdint.h>

/* A row of a plane: `left` words of padding, n words of x, and padding up to `width` words. */
typedef struct integer_row {
  const unsigned char *x[4]; /* first element read from each channel; NULL: zeros */
  int64_t step;              /* elements between those that are read */
  int64_t left, n, width;
  int padding; /* byte value of all four channels */
  uint32_t *to;
} integer_row;
/* Writes the `width` words of a row to row->to. */
void integer_join_row(const integer_row *row);

#endif
