/* Depthwise convolution of integers with dot products of bytes: sum = bias + the sum of weight * x.
 * Rows of x are read in place; a masked load replaces the padding. For 16 neighbouring outputs, two
 * shuffles gather the elements under four taps of a row as words, which are multiplied with a word
 * of the weight. Loop order: plane, 16 columns, output rows, taps. */
#include "backend/cpu/kernels/conv/depthwise_integer.h"

#include "backend/cpu/kernels/conv/conv_integer_kernels.h"
#include "backend/cpu/kernels/elementwise/requantise_vectors.h"
#include "backend/cpu/kernels/support/avx512.h"

enum {
  LANES = 16, /* outputs per vector */
  LANE_BYTES = 16 /* bytes of x that four outputs read */,
  LOADED = 64, /* bytes of x */
  MAX_STRIDE = LOADED / LANE_BYTES,
  MAX_ROWS = 16,
  MAX_WORDS = 4, /* per row of taps */
  OUTPUTS_PER_TASK = 4 * 1024
};

bool depthwise_integer_fits(const conv_integer_args *args) {
  const conv_args *own = &args->conv;
  const conv_dim *y = &own->dims[1], *x = &own->dims[2];
  return cpu_has_avx512_vnni() && own->channels == 1 && conv_dim_is_absent(&own->dims[0]) &&
         y->kernel <= MAX_ROWS && x->stride <= MAX_STRIDE && x->kernel <= LANE_BYTES &&
         x->dilation <= LANE_BYTES && 3 * x->stride + (x->kernel - 1) * x->dilation < LANE_BYTES;
}

#if KERNEL_X86
/* Tables that all planes share. */
typedef struct plane_tables {
  const conv_integer_args *args;
  unsigned char shuffles[MAX_WORDS][LOADED]; /* positions of the bytes of each word of taps */
  int32_t spread[LANES];                     /* which dwords of x each quarter receives */
} plane_tables;

/* A plane of x and its outputs. */
typedef struct plane {
  const plane_tables *s;
  const unsigned char *x;
  int64_t channel, first; /* index among an image's outputs; index in out of its first element */
  int32_t begin;          /* initial value of each sum */
  uint32_t words[MAX_ROWS][MAX_WORDS];
} plane;

static plane_tables make_plane_tables(const conv_integer_args *args) {
  enum { NONE = 0x80 };
  const conv_dim *dim = &args->conv.dims[2];
  plane_tables plane_tables = {.args = args};
  for (int w = 0; w < MAX_WORDS; w++)
    for (int i = 0; i < LOADED; i++) {
      const int output = i % LANE_BYTES / 4, tap = 4 * w + i % 4;
      plane_tables.shuffles[w][i] =
          tap < dim->kernel ? (unsigned char)(output * dim->stride + tap * dim->dilation) : NONE;
    }
  for (int i = 0; i < LANES; i++) plane_tables.spread[i] = (int32_t)(i / 4 * dim->stride + i % 4);
  return plane_tables;
}

static void depthwise_integer_find_taps(const conv_args *args, plane *plane) {
  const int64_t rows = args->dims[1].kernel, columns = args->dims[2].kernel;
  const signed char *weight = (const signed char *)args->weight + plane->channel * rows * columns;
  plane->begin = args->bias ? ((const int32_t *)args->bias)[plane->channel] : 0;
  for (int64_t y = 0; y < rows; y++) copy_few(plane->words[y], weight + y * columns, columns);
  for (int64_t i = 0; i < rows * columns && args->type == DTYPE_I8; i++)
    plane->begin -= 128 * weight[i];
}

/* Returns a mask of the bytes of a row of x that the 16 outputs from `from` on read. */
static __mmask64 seen_bytes(const conv_dim *dim, int64_t from) {
  const int64_t first = from * dim->stride - dim->padding;
  const int64_t begin = first < 0 ? -first : 0, left = dim->in - first,
                end = left < LOADED ? left : LOADED;
  if (begin >= end) return 0;
  return (~UINT64_C(0) >> (LOADED - (end - begin))) << begin;
}

/* Stores the first n of 16 sums at element `at` of out. */
KERNEL_INLINE TARGET_AVX512_VNNI void depthwise_integer_store_sums(
    const conv_integer_args *args, const requantise_vectors *vectors, int64_t at, int64_t n,
    __m512i sums) {
  const requantise_term *term = &args->codes.terms[1];
  const __mmask16 some = (__mmask16)(0xffff >> (LANES - n));
  if (!args->makes_codes) {
    _mm512_mask_storeu_epi32((int32_t *)args->conv.out + at, some, sums);
    return;
  }
  __m512 other = vectors->zero;
  if (vectors->has_other)
    other = requantise_load_some(term->type, element_at(term->x, term->type, at), some);
  _mm_mask_storeu_epi8((unsigned char *)args->conv.out + at, some,
                       requantise_vector(vectors, _mm512_cvtepi32_ps(sums), other));
}

KERNEL_INLINE TARGET_AVX512_VNNI __m128i plain_codes(const requantise_vectors *vectors,
                                                     bool saturates, __m512 sums) {
  if (!saturates) return requantise_vector(vectors, sums, vectors->zero);
  const __m512i whole = requantise_whole(vectors, sums, vectors->zero);
  return _mm512_cvtusepi32_epi8(_mm512_max_epi32(whole, _mm512_setzero_si512()));
}

/* Reads a row of x as words of taps, for 16 outputs. */
typedef struct row_reader {
  __m512i flip, around, spread, shuffles[MAX_WORDS];
  __mmask64 seen;
} row_reader;

KERNEL_INLINE TARGET_AVX512_VNNI void depthwise_integer_read_row(const row_reader *reader,
                                                                 int words, const unsigned char *x,
                                                                 bool is_inside, __m512i *to) {
  __m512i bytes = _mm512_mask_loadu_epi8(reader->around, is_inside ? reader->seen : 0, x);
  bytes = _mm512_permutexvar_epi32(reader->spread, _mm512_xor_si512(bytes, reader->flip));
  for (int w = 0; w < words; w++) to[w] = _mm512_shuffle_epi8(bytes, reader->shuffles[w]);
}

/* Computes 16 columns from `from` on, one row of outputs after another. rows, words: size of the
 * window. rolls: an output reads the same rows as the output above it, except one. */
KERNEL_INLINE TARGET_AVX512_VNNI void depthwise_integer_run_columns(
    const plane *plane, const row_reader *reader, const requantise_vectors *vectors, int64_t from,
    int rows, int words, bool rolls, bool is_plain) {
  const conv_integer_args *args = plane->s->args;
  const conv_dim y = args->conv.dims[1], x = args->conv.dims[2];
  const int64_t n = x.out - from < LANES ? x.out - from : LANES;
  const __mmask16 some = (__mmask16)(0xffff >> (LANES - n));
  const bool saturates = requantise_saturates(&args->codes);
  const unsigned char *column = plane->x + (from * x.stride - x.padding);
  unsigned char *codes = (unsigned char *)args->conv.out + plane->first + from;
  __m512i taps[MAX_ROWS][MAX_WORDS], seen[MAX_ROWS][MAX_WORDS];
  for (int r = 0; r < rows; r++)
    for (int w = 0; w < words; w++) taps[r][w] = _mm512_set1_epi32((int)plane->words[r][w]);
  for (int64_t i = 0; i < y.out; i++, codes += x.out) {
    __m512i sum = _mm512_set1_epi32(plane->begin);
    const int64_t top = i * y.stride - y.padding;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const int64_t row = top + r * y.dilation;
      if (rolls && i > 0 && r + 1 < rows)
        for (int w = 0; w < words; w++) seen[r][w] = seen[r + 1][w];
      else
        depthwise_integer_read_row(reader, words, column + row * x.in, row >= 0 && row < y.in,
                                   seen[r]);
      for (int w = 0; w < words; w++) sum = add_dots_avx512(sum, seen[r][w], taps[r][w]);
    }
    if (is_plain)
      _mm_mask_storeu_epi8(codes, some, plain_codes(vectors, saturates, _mm512_cvtepi32_ps(sum)));
    else
      depthwise_integer_store_sums(args, vectors, plane->first + i * x.out + from, n, sum);
  }
}

KERNEL_INLINE TARGET_AVX512_VNNI void depthwise_integer_run_plane(const plane *plane,
                                                                  requantise_vectors v, int rows,
                                                                  int words, bool rolls,
                                                                  bool is_plain) {
  const conv_integer_args *args = plane->s->args;
  const conv_dim *dim = &args->conv.dims[2];
  row_reader reader = {.flip = _mm512_set1_epi8((char)(args->conv.type == DTYPE_I8 ? 0x80 : 0)),
                       .around = _mm512_set1_epi8((char)args->padding_value),
                       .spread = _mm512_loadu_si512(plane->s->spread)};
  if (is_plain) v = requantise_plain(v);
  for (int w = 0; w < words; w++) reader.shuffles[w] = _mm512_loadu_si512(plane->s->shuffles[w]);
  for (int64_t from = 0; from < dim->out; from += LANES) {
    reader.seen = seen_bytes(dim, from);
    depthwise_integer_run_columns(plane, &reader, &v, from, rows, words, rolls, is_plain);
  }
}

static TARGET_AVX512_VNNI void run_plain_plane(const plane *plane,
                                               const requantise_vectors *vectors, bool rolls) {
  if (rolls)
    depthwise_integer_run_plane(plane, *vectors, 3, 1, true, true);
  else
    depthwise_integer_run_plane(plane, *vectors, 3, 1, false, true);
}

static TARGET_AVX512_VNNI void run_some_plane(const plane *plane,
                                              const requantise_vectors *vectors) {
  const conv_integer_args *args = plane->s->args;
  const conv_dim *dim = args->conv.dims;
  const int rows = (int)dim[1].kernel, words = (int)(dim[2].kernel + 3) / 4;
  const bool rolls = dim[1].stride == 1 && dim[1].dilation == 1;
  if (rows == 3 && words == 1 && args->makes_codes && requantise_is_plain(vectors))
    run_plain_plane(plane, vectors, rolls);
  else if (rows == 3 && words == 1)
    depthwise_integer_run_plane(plane, *vectors, 3, 1, false, false);
  else if (rows == 5 && words == 2 && rolls)
    depthwise_integer_run_plane(plane, *vectors, 5, 2, true, false);
  else
    depthwise_integer_run_plane(plane, *vectors, rows, words, false, false);
}

static TARGET_AVX512_VNNI void depthwise_integer_run_planes(void *ctx, int64_t begin, int64_t end) {
  const plane_tables *plane_tables = ctx;
  const conv_args *args = &plane_tables->args->conv;
  const int64_t channels = args->groups * args->outputs;
  requantise_vectors v =
      requantise_vectors_numbers_of(&plane_tables->args->codes, begin % channels);
  plane plane = {.s = plane_tables};
  for (int64_t k = begin; k < end; k++) {
    plane.channel = k % channels;
    plane.first = k * out_size(args);
    plane.x = (const unsigned char *)args->x +
              (k / channels * args->groups + plane.channel / args->outputs) * in_size(args);
    depthwise_integer_find_taps(args, &plane);
    requantise_vectors_set_channel(&v, &plane_tables->args->codes, plane.channel);
    run_some_plane(&plane, &v);
  }
}
#endif

void depthwise_integer_run(const kernel_context *ctx, const conv_integer_args *args) {
#if KERNEL_X86
  const conv_args *own = &args->conv;
  plane_tables plane_tables = make_plane_tables(args);
  ctx->parallel_for(ctx->pool, own->images * own->groups * own->outputs,
                    OUTPUTS_PER_TASK / (out_size(own) + 1) + 1, depthwise_integer_run_planes,
                    &plane_tables);
#else
  (void)ctx, (void)args;
#endif
}
