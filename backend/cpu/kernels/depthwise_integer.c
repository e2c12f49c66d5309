/* Depthwise convolutions of integers, where processors have dot products of bytes: rows of x are read
 * where they lie, with the padding as what a masked load leaves out. Of 16 neighbouring outputs the
 * elements under four taps of a row of the window become words, by two shuffles, that a word of the
 * weight is multiplied with. */
#include "backend/cpu/kernels/depthwise_integer.h"

#include <string.h>

#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/requantise_vectors.h"

enum {
  LANES = 16,     /* outputs of a vector */
  LANE_BYTES = 16 /* of x, that four outputs see */,
  LOADED = 64,    /* bytes of x */
  MOST_STRIDE = (LOADED / LANE_BYTES - 1) + 1,
  MOST_ROWS = 16,
  MOST_WORDS = 4, /* of a row of taps */
  OUTPUTS_PER_TASK = 32 * 1024
};

static bool is_absent(const kconv_dim *d) {
  return d->in == 1 && d->out == 1 && d->kernel == 1 && d->padding == 0;
}

bool depthwise_integer_fits(const conv_integer_args *args) {
  const conv_args *p = &args->conv;
  const kconv_dim *y = &p->dims[1], *x = &p->dims[2];
  return cpu_has_avx512_vnni() && p->channels == 1 && is_absent(&p->dims[0]) &&
         y->kernel <= MOST_ROWS && x->stride <= MOST_STRIDE && x->kernel <= LANE_BYTES &&
         x->dilation <= LANE_BYTES && 3 * x->stride + (x->kernel - 1) * x->dilation < LANE_BYTES;
}

#if KERNEL_X86
typedef struct plane_taps {
  int32_t begin; /* of each sum */
  uint32_t words[MOST_ROWS][MOST_WORDS];
} plane_taps;

/* A plane of x and what is made of it. */
typedef struct plane {
  const conv_integer_args *args;
  const unsigned char *x;
  int64_t channel, first; /* of all outputs of an image; number of its first element in out */
  plane_taps taps;
} plane;

static plane_taps taps_of(const conv_args *p, int64_t output) {
  const int64_t rows = p->dims[1].kernel, columns = p->dims[2].kernel;
  const signed char *weight = (const signed char *)p->weight + output * rows * columns;
  plane_taps t = {.begin = p->bias ? ((const int32_t *)p->bias)[output] : 0};
  for (int64_t y = 0; y < rows; y++)
    memcpy(t.words[y], weight + y * columns, (size_t)columns);
  for (int64_t i = 0; i < rows * columns && p->type == DTYPE_I8; i++) t.begin -= 128 * weight[i];
  return t;
}

/* What a word of taps, number `word`, sees of the 16 bytes of four outputs. */
static TARGET_AVX512_VNNI __m512i shuffle_of(const kconv_dim *d, int word) {
  enum { NONE = 0x80 };
  unsigned char at[LOADED];
  for (int i = 0; i < LOADED; i++) {
    const int output = i % LANE_BYTES / 4, tap = 4 * word + i % 4;
    at[i] = tap < d->kernel ? (unsigned char)(output * d->stride + tap * d->dilation) : NONE;
  }
  return _mm512_loadu_si512(at);
}

/* Dwords of 64 bytes as those of each four outputs stand in a quarter. */
static TARGET_AVX512_VNNI __m512i spread_of(const kconv_dim *d) {
  int32_t at[LANES];
  for (int i = 0; i < LANES; i++) at[i] = (int32_t)(i / 4 * d->stride + i % 4);
  return _mm512_loadu_si512(at);
}

/* Of 16 outputs from number `from` of a row on: which bytes of a row of x they see. */
static __mmask64 seen_bytes(const kconv_dim *d, int64_t from) {
  const int64_t first = from * d->stride - d->padding;
  const int64_t begin = first < 0 ? -first : 0, left = d->in - first,
                end = left < LOADED ? left : LOADED;
  if (begin >= end) return 0;
  return (~UINT64_C(0) >> (LOADED - (end - begin))) << begin;
}

KERNEL_INLINE TARGET_AVX512_VNNI __m512i add_dots(__m512i sum, __m512i x, uint32_t word) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(_mm512_set1_epi32((int)word)));
  return sum;
}

/* The first n of 16 sums, element `at` of out. */
KERNEL_INLINE TARGET_AVX512_VNNI void store_sums(const plane *q, const requantise_vectors *v,
                                                 int64_t at, int64_t n, __m512i sums) {
  const conv_integer_args *a = q->args;
  const requantise_term *t = &a->codes.terms[1];
  const __mmask16 some = (__mmask16)(0xffff >> (LANES - n));
  if (!a->makes_codes) {
    _mm512_mask_storeu_epi32((int32_t *)a->conv.out + at, some, sums);
    return;
  }
  __m512 other = v->zero;
  if (v->has_other) other = requantise_load_some(t->type, conv_integer_other(a, at), some);
  const __m128i codes = requantise_vector(v, _mm512_cvtepi32_ps(sums), other);
  unsigned char *to = (unsigned char *)a->conv.out + at;
  if (n == LANES)
    _mm_storeu_si128((__m128i *)(void *)to, codes);
  else
    _mm512_mask_storeu_epi8(to, some, _mm512_castsi128_si512(codes));
}

/* words: of a row of taps; rows: of the window. */
KERNEL_INLINE TARGET_AVX512_VNNI void run_plane(const plane *q, int rows, int words) {
  const conv_args *p = &q->args->conv;
  const kconv_dim *y = &p->dims[1], *x = &p->dims[2];
  const requantise_vectors v = requantise_vectors_of(&q->args->codes, q->channel);
  const __m512i flip = _mm512_set1_epi8((char)(p->type == DTYPE_I8 ? 0x80 : 0)),
                around = _mm512_set1_epi8((char)q->args->padding_value), spread = spread_of(x);
  __m512i shuffles[MOST_WORDS];
  for (int w = 0; w < words; w++) shuffles[w] = shuffle_of(x, w);
  for (int64_t from = 0; from < x->out; from += LANES) {
    const __mmask64 seen = seen_bytes(x, from);
    const int64_t n = x->out - from < LANES ? x->out - from : LANES;
    const unsigned char *column = q->x + (from * x->stride - x->padding);
    for (int64_t i = 0; i < y->out; i++) {
      __m512i sum = _mm512_set1_epi32(q->taps.begin);
      for (int r = 0; r < rows; r++) {
        const int64_t row = i * y->stride - y->padding + r * y->dilation;
        const __mmask64 there = row >= 0 && row < y->in ? seen : 0;
        __m512i bytes = _mm512_mask_loadu_epi8(around, there, column + row * x->in);
        bytes = _mm512_permutexvar_epi32(spread, _mm512_xor_si512(bytes, flip));
        for (int w = 0; w < words; w++)
          sum = add_dots(sum, _mm512_shuffle_epi8(bytes, shuffles[w]), q->taps.words[r][w]);
      }
      store_sums(q, &v, q->first + i * x->out + from, n, sum);
    }
  }
}

static TARGET_AVX512_VNNI void run_some_plane(const plane *q) {
  const int rows = (int)q->args->conv.dims[1].kernel,
            words = (int)(q->args->conv.dims[2].kernel + 3) / 4;
  if (rows == 3 && words == 1)
    run_plane(q, 3, 1);
  else if (rows == 5 && words == 2)
    run_plane(q, 5, 2);
  else
    run_plane(q, rows, words);
}

static void run_planes(void *ctx, int64_t begin, int64_t end) {
  const conv_integer_args *args = ctx;
  const conv_args *p = &args->conv;
  const int64_t channels = p->groups * p->outputs;
  for (int64_t k = begin; k < end; k++) {
    const int64_t channel = k % channels;
    const plane q = {
        .args = args,
        .x = (const unsigned char *)p->x +
             (k / channels * p->groups + channel / p->outputs) * in_size(p),
        .channel = channel,
        .first = k * out_size(p),
        .taps = taps_of(p, channel)};
    run_some_plane(&q);
  }
}
#endif

void depthwise_integer_run(const kernel_context *ctx, const conv_integer_args *args) {
#if KERNEL_X86
  const conv_args *p = &args->conv;
  ctx->parallel_for(ctx->pool, p->images * p->groups * p->outputs,
                    OUTPUTS_PER_TASK / (out_size(p) + 1) + 1, run_planes,
                    (void *)(uintptr_t)args);
#else
  (void)ctx, (void)args;
#endif
}
