/* Depthwise convolutions with a kernel of SIDE by SIDE and a stride of STRIDE: what those by strips
 * and those with planes in lanes share. */
#ifndef DEPTHWISE_H
#define DEPTHWISE_H
#ifndef SIDE
#define SIDE 3
#endif
#ifndef STRIDE
#define STRIDE 1
#endif

/* The cells that a work-item makes of a plane, which lies at x. */
typedef struct cells {
  int first, rows, columns; /* of outputs */
  int in_rows, in_columns, top, left;
  index_t before, there; /* elements of x that lie before the plane, and from it on */
} cells;

/* Cell by cell, taps in the padding left out: infinite weights make no number of zeros there. */
static inline void make_directly(const __global float *x, const float *weight, float shift,
                                 __global float *out, const cells *t) {
  for (int y = t->first; y < t->first + t->rows; y++)
    for (int column = 0; column < t->columns; column++) {
      float sum = 0;
      for (int tap = 0; tap < SIDE * SIDE; tap++) {
        const int row = y * STRIDE + tap / SIDE - t->top,
                  at = column * STRIDE + tap % SIDE - t->left;
        if (row >= 0 && row < t->in_rows && at >= 0 && at < t->in_columns)
          sum = fma(weight[tap], x[row * t->in_columns + at], sum);
      }
      *out++ = sum + shift;
    }
}
#endif
