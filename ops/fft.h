#ifndef OPS_FFT_H
#define OPS_FFT_H
/* The discrete Fourier transform along any axis, and how it is divided. */
#include "ops/node.h"

/* What transforms are made of: a length is a product of these, or goes to a power of two. */
enum { FFT_RADICES = 7, FFT_MAX_PASSES = 64 };
#define FFT_TOO_MANY (INT64_C(1) << 32) /* points of a transform */
extern const int fft_radices[FFT_RADICES];

/* A transform of `length` in passes, each of one radix; their product is the length. */
typedef struct fft_plan {
  int64_t length;
  int count[FFT_RADICES]; /* passes of each of fft_radices */
} fft_plan;
/* False where n has another prime factor. n >= 1. */
bool fft_divide(int64_t n, fft_plan *out);
/* The radices of the passes in order; gives how many. */
int fft_passes(const fft_plan *plan, int radices[FFT_MAX_PASSES]);

/* n_rows transforms of n points. rows[0] of x, rows[1] of out, without the dimension of pairs: see
 * rows_along; of n_in and n_out elements. */
typedef struct fft_form {
  const bound_tensor *x, *out;
  ir_fft_kind kind;
  tensor rows[2];
  int64_t pair[2]; /* from the real to the imaginary part, in elements; of a real tensor 0 */
  int64_t n_rows, n, n_in, n_out;
  bool inverse;
  double scale;
  /* Of n points, or where `chirp` of at least 2 n - 1: then the transform is a convolution with
   * exp(pi i j^2 / n) (Bluestein's algorithm). */
  fft_plan plan;
  bool chirp;
} fft_form;
void describe_fft(const node *node, fft_form *desc);

#endif
