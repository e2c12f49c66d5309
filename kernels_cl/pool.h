/* Parameters and ranges that the pooling kernels share. */
#ifndef POOL_H
#define POOL_H
#define PLANES_PARAMS                                                                           \
  const index_t items, const int depth, const int rows, const int columns, const int out_depth, \
      const int out_rows, const int out_columns
#define WINDOW_PARAMS                                                             \
  const int kernel_z, const int kernel_y, const int kernel_x, const int stride_z, \
      const int stride_y, const int stride_x, const int pad_z, const int pad_y, const int pad_x

/* The positions begin, begin + step, ... below end of one dimension. */
typedef struct range {
  int begin, end, step;
} range;

/* Returns the taps start, start + d, ... of a window that are inside [0, size). */
static inline range window_inside(int start, int kernel_size, int d, int size) {
  const range r = {start >= 0 ? start : start + (-start + d - 1) / d * d,
                   min(start + (kernel_size - 1) * d + 1, size), d};
  return r;
}
#endif
