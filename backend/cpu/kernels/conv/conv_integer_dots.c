/* Dot products of rows of bytes, for the outputs of 16 channels at once. */
#include "backend/cpu/kernels/conv/conv_integer_dots.h"

#include <string.h>

#include "backend/cpu/kernels/elementwise/requantise.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "base/counts.h"

enum { MAX_MULTIPLIES = 128 * 1024 /* with more, packing and other threads save time */ };

bool conv_integer_is_dots(const conv_args *args) {
  if (args->is_packed) return false;
  for (int d = 0; d < CONV_DIMS; d++) {
    const conv_dim *dim = &args->dims[d];
    if (dim->kernel != dim->in || dim->out != 1 || dim->padding != 0) return false;
  }
  return args->images * args->groups * args->outputs * args->channels * kernel_size(args) <=
         MAX_MULTIPLIES;
}

/* Two rows of n bytes: w is signed; x is signed or not. */
typedef struct byte_rows {
  const signed char *w;
  const unsigned char *x;
  int64_t n;
  bool is_signed;
} byte_rows;

static uint32_t conv_integer_dot_portable(const byte_rows *rows) {
  int32_t sum = 0; /* MAX_MULTIPLIES products fit */
  for (int64_t i = 0; i < rows->n; i++)
    sum += rows->w[i] * (rows->is_signed ? (signed char)rows->x[i] : rows->x[i]);
  return (uint32_t)sum;
}

#if KERNEL_X86
TARGET_AVX512 static uint32_t conv_integer_dot_avx512(const byte_rows *rows) {
  enum { BYTES = 32 };
  __m512i sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < rows->n; i += BYTES) {
    const int64_t left = rows->n - i;
    const __mmask32 some = left < BYTES ? bits_between(0, left) : ~UINT32_C(0);
    const __m256i x = _mm256_maskz_loadu_epi8(some, rows->x + i),
                  w = _mm256_maskz_loadu_epi8(some, rows->w + i);
    sum = _mm512_add_epi32(
        sum, _mm512_madd_epi16(rows->is_signed ? _mm512_cvtepi8_epi16(x) : _mm512_cvtepu8_epi16(x),
                               _mm512_cvtepi8_epi16(w)));
  }
  return (uint32_t)_mm512_reduce_add_epi32(sum);
}
#endif

static uint32_t conv_integer_dots_sum(const byte_rows *rows) {
#if KERNEL_X86
  if (cpu_has_avx512()) return conv_integer_dot_avx512(rows);
#endif
  return conv_integer_dot_portable(rows);
}

/* Stores the sums of n channels. at: index in out of the first one. */
static void conv_integer_dots_store(const conv_integer_args *args, int64_t channel, int n,
                                    int64_t at, const int32_t *sums) {
  const requantise_term *other = &args->codes.terms[1];
  unsigned char codes[REQUANTISE_CHANNELS];
  if (!args->makes_codes) {
    memcpy((int32_t *)args->conv.out + at, sums, (size_t)n * sizeof *sums);
    return;
  }
  requantise_channels(&args->codes, channel, n, sums,
                      other->x ? element_at(other->x, other->type, at) : NULL, codes);
  if (args->decodes)
    conv_integer_decode(args, codes, n, (float *)args->conv.out + at);
  else
    memcpy((unsigned char *)args->conv.out + at, codes, (size_t)n);
}

bool conv_integer_dots_run(const conv_integer_args *args) {
  const conv_args *conv = &args->conv;
  const int64_t channels = conv->groups * conv->outputs, k = conv->channels * kernel_size(conv);
  const int32_t *bias = conv->bias;
  if (!conv_integer_is_dots(conv)) return false;
  for (int64_t at = 0; at < conv->images * channels;) {
    int32_t sums[REQUANTISE_CHANNELS];
    const int64_t first = at % channels, image = at / channels;
    const int n = (int)min_i64(channels - first, REQUANTISE_CHANNELS);
    for (int i = 0; i < n; i++) {
      const int64_t channel = first + i, group = channel / conv->outputs;
      const byte_rows rows = {(const signed char *)conv->weight + channel * k,
                              (const unsigned char *)conv->x + (image * conv->groups + group) * k,
                              k, conv->type == DTYPE_I8};
      sums[i] = (int32_t)((bias ? (uint32_t)bias[channel] : 0) + conv_integer_dots_sum(&rows));
    }
    conv_integer_dots_store(args, first, n, at, sums);
    at += n;
  }
  return true;
}
