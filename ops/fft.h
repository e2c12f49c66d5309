#ifndef OPS_FFT_H
#define OPS_FFT_H
/* The discrete Fourier transform along any axis, and its division into passes. */
#include "ops/node.h"

/* The supported radices. A length with another prime factor is transformed by a convolution whose
 * length is a power of two. */
enum { FFT_RADICES = 7, FFT_MAX_PASSES = 64 };
#define FFT_TOO_MANY (INT64_C(1) << 32) /* limit on the points of a transform */
extern const int fft_radices[FFT_RADICES];

/* A transform of `length` points as passes of one radix each, whose product is length. */
typedef struct fft_plan {
  int64_t length;
  int count[FFT_RADICES]; /* number of passes per entry of fft_radices */
} fft_plan;
/* Plans a transform of n >= 1 points. Returns false if n has a prime factor that is not a radix. */
bool fft_divide(int64_t n, fft_plan *out);
/* Stores the radix of each pass in order and returns the number of passes. */
int fft_passes(const fft_plan *plan, int radices[FFT_MAX_PASSES]);

/* n_rows transforms of n points. rows[0] and rows[1] are the layouts of x and out without the
 * dimension of real and imaginary parts (see rows_along), of n_in and n_out elements per row. */
typedef struct fft_desc {
  const bound_tensor *x, *out;
  ir_fft_kind kind;
  tensor rows[2];
  int64_t pair[2]; /* elements from the real to the imaginary part; 0 for real tensors */
  int64_t n_rows, n, n_in, n_out;
  bool inverse;
  double scale;
  /* Plan for n points or, if `chirp`, for at least 2 n - 1 points: the transform is then computed
   * as a convolution with exp(pi i j^2 / n) (Bluestein's algorithm). */
  fft_plan plan;
  bool chirp;
} fft_desc;
void describe_fft(const node *node, fft_desc *desc);

#endif
