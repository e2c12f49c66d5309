#ifndef BACKEND_CPU_KERNELS_FFT_H
#define BACKEND_CPU_KERNELS_FFT_H
/* Discrete Fourier transforms along the last dimension, in double. */
#include "base/kernel.h"

typedef enum kfft_kind { KFFT_COMPLEX, KFFT_FROM_REAL, KFFT_TO_REAL } kfft_kind;

enum { KFFT_MAX_PASSES = 64, KFFT_MAX_RADIX = 13 };

/* out[k] = scale * sum over j < n of x[j] * exp(-2 pi i j k / n), +2 pi i if inverse. x has n_in
 * elements; with KFFT_TO_REAL the others follow by symmetry. The first n_out results are stored. */
typedef struct fft_args {
  kfft_kind kind;
  ktensor x, out; /* F32 or F64: (*, n_in) and (*, n_out) of n_rows rows, the real parts */
  int64_t x_pair, out_pair; /* elements from a real part to its imaginary part */
  int64_t n_rows, n, n_in, n_out;
  int64_t length; /* product of the radices: n, or with a chirp at least 2 n - 1 */
  int n_passes;
  int radices[KFFT_MAX_PASSES]; /* 2, 4 or odd */
  bool inverse, chirp;
  double scale;
} fft_args;
KERNEL(fft, fft_args);

#endif
