/* ConvInteger: of TILE neighbouring cells the patches, four bytes of neighbouring k a word, times
 * four bytes of the weight's row at once. Bytes of x are unsigned there, or signed, as the
 * processor has it: what is the other is 128 more or less, which 128 times the sum of the weight's
 * row makes up for. */
#include "backend/cpu/kernels/conv_integer.h"

#include <string.h>

#include "backend/cpu/kernels/depthwise.h"
#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/slots.h"
#if KERNEL_X86
#include <immintrin.h>
#endif
#if KERNEL_ARM
#include <arm_neon.h>
#endif

enum {
  TILE = 64,       /* cells */
  ROWS = 4,        /* outputs at a time */
  LEAST_BLOCK = 64 /* outputs of a task at least, where there are few tiles */
};
static const int64_t MULTIPLIES_PER_TASK = 512 * 1024, PLANE_MULTIPLIES_PER_TASK = 128 * 1024;

/* `rows` outputs' rows of the weight, `stride` bytes apart, as words: n whole ones and, behind
 * them, the rest of each, zeros after it. */
typedef struct weight_rows {
  const unsigned char *first;
  int64_t stride, n;
  bool has_rest;
  uint32_t rest[ROWS];
} weight_rows;

typedef struct multiplier {
  /* sums (rows, TILE) += w by patches (words, TILE) */
  void (*run)(int rows, const weight_rows *w, const uint32_t *patches, int32_t *sums);
  bool is_signed; /* bytes of patches */
} multiplier;

KERNEL_INLINE uint32_t weight_word(const weight_rows *w, int row, int64_t i) {
  uint32_t word;
  if (i == w->n) return w->rest[row];
  memcpy(&word, w->first + row * w->stride + 4 * i, sizeof word);
  return word;
}

KERNEL_INLINE int64_t word_count(const weight_rows *w) { return w->n + (w->has_rest ? 1 : 0); }

static void multiply_portable(int rows, const weight_rows *w, const uint32_t *patches,
                              int32_t *sums) {
  for (int64_t i = 0; i < word_count(w); i++, patches += TILE)
    for (int r = 0; r < rows; r++) {
      uint32_t word = weight_word(w, r, i);
      int b[4];
      for (int j = 0; j < 4; j++) b[j] = (signed char)(word >> 8 * j);
      int32_t *to = sums + r * TILE;
      for (int c = 0; c < TILE; c++) {
        uint32_t x = patches[c];
        to[c] += (int)(x & 255) * b[0] + (int)(x >> 8 & 255) * b[1] + (int)(x >> 16 & 255) * b[2] +
                 (int)(x >> 24) * b[3];
      }
    }
}

#if KERNEL_X86
enum { AVX2_VECTORS = 2, AVX512_VECTORS = TILE / 16 };

/* Bytes 0 and 2, and 1 and 3, as pairs of 16 bits, whose products' sums no 32 bits overflow. */
KERNEL_INLINE __attribute__((target("avx2"))) void multiply_avx2_rows(int rows,
                                                                      const weight_rows *w,
                                                                      const uint32_t *patches,
                                                                      int32_t *sums) {
  const __m256i low = _mm256_set1_epi32(0x00ff00ff);
  __m256i sum[ROWS][AVX2_VECTORS];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < AVX2_VECTORS; v++)
      sum[r][v] = _mm256_loadu_si256((const __m256i *)(sums + r * TILE + 8 * v));
  for (int64_t i = 0; i < word_count(w); i++, patches += TILE) {
    __m256i even[AVX2_VECTORS], odd[AVX2_VECTORS];
    for (int v = 0; v < AVX2_VECTORS; v++) {
      const __m256i x = _mm256_loadu_si256((const __m256i *)(patches + 8 * v));
      even[v] = _mm256_and_si256(x, low);
      odd[v] = _mm256_srli_epi16(x, 8);
    }
    for (int r = 0; r < rows; r++) {
      const __m256i word = _mm256_set1_epi32((int)weight_word(w, r, i)),
                    b_odd = _mm256_srai_epi16(word, 8),
                    b_even = _mm256_srai_epi16(_mm256_slli_epi16(word, 8), 8);
      for (int v = 0; v < AVX2_VECTORS; v++) {
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(even[v], b_even));
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(odd[v], b_odd));
      }
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < AVX2_VECTORS; v++)
      _mm256_storeu_si256((__m256i *)(sums + r * TILE + 8 * v), sum[r][v]);
}

static __attribute__((target("avx2"))) void multiply_avx2(int rows, const weight_rows *w,
                                                          const uint32_t *patches, int32_t *sums) {
  for (int c = 0; c < TILE; c += 8 * AVX2_VECTORS) {
    if (rows == ROWS)
      multiply_avx2_rows(ROWS, w, patches + c, sums + c);
    else
      for (int r = 0; r < rows; r++) {
        weight_rows one = *w;
        one.first += r * w->stride;
        one.rest[0] = w->rest[r];
        multiply_avx2_rows(1, &one, patches + c, sums + r * TILE + c);
      }
  }
}

KERNEL_INLINE TARGET_AVX512_VNNI void multiply_vnni_rows(int rows, const weight_rows *w,
                                                         const uint32_t *patches, int32_t *sums) {
  __m512i sum[ROWS][AVX512_VECTORS];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < AVX512_VECTORS; v++)
      sum[r][v] = _mm512_loadu_si512(sums + r * TILE + 16 * v);
  for (int64_t i = 0; i < word_count(w); i++, patches += TILE)
    for (int r = 0; r < rows; r++) {
      const __m512i word = _mm512_set1_epi32((int)weight_word(w, r, i));
      for (int v = 0; v < AVX512_VECTORS; v++)
        sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], _mm512_loadu_si512(patches + 16 * v), word);
    }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < AVX512_VECTORS; v++)
      _mm512_storeu_si512(sums + r * TILE + 16 * v, sum[r][v]);
}

static TARGET_AVX512_VNNI void multiply_vnni(int rows, const weight_rows *w,
                                             const uint32_t *patches, int32_t *sums) {
  switch (rows) {
    case 4:
      multiply_vnni_rows(4, w, patches, sums);
      break;
    case 3:
      multiply_vnni_rows(3, w, patches, sums);
      break;
    case 2:
      multiply_vnni_rows(2, w, patches, sums);
      break;
    default:
      multiply_vnni_rows(1, w, patches, sums);
  }
}
#endif

#if KERNEL_ARM
enum { NEON_CELLS = 4, NEON_VECTORS = 4 };

KERNEL_INLINE TARGET_DOTPROD void multiply_dotprod_rows(int rows, const weight_rows *w,
                                                        const uint32_t *patches, int32_t *sums) {
  int32x4_t sum[ROWS][NEON_VECTORS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) sum[r][v] = vld1q_s32(sums + r * TILE + NEON_CELLS * v);
  for (int64_t i = 0; i < word_count(w); i++, patches += TILE) {
    int8x16_t x[NEON_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++)
      x[v] = vreinterpretq_s8_u32(vld1q_u32(patches + NEON_CELLS * v));
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      const int8x16_t word = vreinterpretq_s8_u32(vdupq_n_u32(weight_word(w, r, i)));
#pragma GCC unroll 4
      for (int v = 0; v < NEON_VECTORS; v++) sum[r][v] = vdotq_s32(sum[r][v], x[v], word);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) vst1q_s32(sums + r * TILE + NEON_CELLS * v, sum[r][v]);
}

static TARGET_DOTPROD void multiply_dotprod(int rows, const weight_rows *w, const uint32_t *patches,
                                            int32_t *sums) {
  for (int c = 0; c < TILE; c += NEON_CELLS * NEON_VECTORS) {
    if (rows == 4) multiply_dotprod_rows(4, w, patches + c, sums + c);
    if (rows == 3) multiply_dotprod_rows(3, w, patches + c, sums + c);
    if (rows == 2) multiply_dotprod_rows(2, w, patches + c, sums + c);
    if (rows == 1) multiply_dotprod_rows(1, w, patches + c, sums + c);
  }
}

/* Words i and i + 1 of a pair of rows, or of one twice; zeros behind the last. */
KERNEL_INLINE int8x16_t weight_pair(int rows, const weight_rows *w, int r, int64_t i) {
  const int next = r + 1 < rows ? r + 1 : r;
  const bool is_last = i + 1 == word_count(w);
  const uint32_t words[4] = {weight_word(w, r, i), is_last ? 0 : weight_word(w, r, i + 1),
                             weight_word(w, next, i), is_last ? 0 : weight_word(w, next, i + 1)};
  return vreinterpretq_s8_u32(vld1q_u32(words));
}

/* Matrices of (2, 8) by (8, 2) bytes: pairs of rows by pairs of cells. */
KERNEL_INLINE TARGET_I8MM void multiply_i8mm_rows(int rows, const weight_rows *w,
                                                  const uint32_t *patches, int32_t *sums) {
  const int pairs = (rows + 1) / 2;
  int32x4_t acc[ROWS / 2][NEON_VECTORS][2];
#pragma GCC unroll 2
  for (int p = 0; p < pairs; p++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) acc[p][v][0] = acc[p][v][1] = vdupq_n_s32(0);
  for (int64_t i = 0; i < word_count(w); i += 2, patches += 2 * TILE) {
    const uint32_t *next = i + 1 < word_count(w) ? patches + TILE : patches; /* times 0 */
    int8x16_t y[ROWS / 2];
#pragma GCC unroll 2
    for (int p = 0; p < pairs; p++) y[p] = weight_pair(rows, w, 2 * p, i);
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) {
      const uint32x4_t a = vld1q_u32(patches + NEON_CELLS * v),
                       b = vld1q_u32(next + NEON_CELLS * v);
#pragma GCC unroll 2
      for (int p = 0; p < pairs; p++) {
        acc[p][v][0] = vmmlaq_s32(acc[p][v][0], vreinterpretq_s8_u32(vzip1q_u32(a, b)), y[p]);
        acc[p][v][1] = vmmlaq_s32(acc[p][v][1], vreinterpretq_s8_u32(vzip2q_u32(a, b)), y[p]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) {
      const int32x4_t *of = acc[r / 2][v];
      int32_t *to = sums + r * TILE + NEON_CELLS * v;
      const int32x4_t sum = r % 2 ? vuzp2q_s32(of[0], of[1]) : vuzp1q_s32(of[0], of[1]);
      vst1q_s32(to, vaddq_s32(vld1q_s32(to), sum));
    }
}

static TARGET_I8MM void multiply_i8mm(int rows, const weight_rows *w, const uint32_t *patches,
                                      int32_t *sums) {
  for (int c = 0; c < TILE; c += NEON_CELLS * NEON_VECTORS) {
    if (rows == 4) multiply_i8mm_rows(4, w, patches + c, sums + c);
    if (rows == 3) multiply_i8mm_rows(3, w, patches + c, sums + c);
    if (rows == 2) multiply_i8mm_rows(2, w, patches + c, sums + c);
    if (rows == 1) multiply_i8mm_rows(1, w, patches + c, sums + c);
  }
}
#endif

static multiplier choose_multiplier(void) {
#if KERNEL_X86
  if (cpu_has_avx512_vnni()) return (multiplier){multiply_vnni, false};
  if (cpu_has_avx2()) return (multiplier){multiply_avx2, false};
#endif
#if KERNEL_ARM
  if (cpu_has_i8mm()) return (multiplier){multiply_i8mm, true};
  if (cpu_has_dotprod()) return (multiplier){multiply_dotprod, true};
#endif
  return (multiplier){multiply_portable, false};
}

/* ---------------------------------------------------------------- patches */

typedef struct integer_conv {
  conv_part part;
  int padding_value;
  multiplier multiply;
  int64_t k, block;      /* elements of a patch; outputs of a task */
  int64_t tiles, blocks; /* tasks are (group, block of outputs, tile) */
  const int32_t *begin;  /* (groups * outputs): what sums begin with */
} integer_conv;

/* 1, -1: bytes of patches are 128 more, less than x's. */
static int shift_of(const integer_conv *a) {
  bool is_signed = a->part.p->type == DTYPE_I8;
  return is_signed == a->multiply.is_signed ? 0 : is_signed ? 1 : -1;
}

static int64_t patch_words(const integer_conv *a) { return (a->k + 3) / 4; }

/* What a tap of a channel sees, by cells. */
static void gather(const integer_conv *a, const segment *s, int count, int64_t channel,
                   const int64_t tap[], unsigned char *to) {
  const conv_part *c = &a->part;
  const conv_args *p = c->p;
  const unsigned char *x = p->x;
  int64_t shift = input_at(&c->d[2], 0, tap[2]), stride = c->d[2].stride, in = in_size(p);
  for (; count-- > 0; to += s->n, s++) {
    int64_t row = input_row(c, s->cell, tap), begin = s->cell[2], end = begin + s->n;
    int64_t first = end, stop = end;
    if (row >= 0) valid_columns(c, shift, begin, end, &first, &stop);
    if (stop - first < s->n) memset(to, a->padding_value, (size_t)s->n);
    if (stop <= first) continue;
    const unsigned char *from =
        x + (s->image * p->groups * p->channels + channel) * in + row * p->dims[2].in + shift;
    if (stride == 1)
      memcpy(to + first - begin, from + first, (size_t)(stop - first));
    else
      for (int64_t i = first; i < stop; i++) to[i - begin] = from[i * stride];
  }
}

static void store_words(unsigned char rows[4][TILE], uint32_t flip, uint32_t *to) {
  for (int c = 0; c < TILE; c++)
    to[c] = ((uint32_t)rows[0][c] | (uint32_t)rows[1][c] << 8 | (uint32_t)rows[2][c] << 16 |
             (uint32_t)rows[3][c] << 24) ^
            flip;
}

/* patches (words, TILE) of cells [at, at + n) of all images. */
static void gather_tile(const integer_conv *a, int64_t group, int64_t at, int64_t n,
                        uint32_t *patches) {
  segment segments[TILE];
  unsigned char rows[4][TILE] = {{0}};
  const window *d = a->part.d;
  int64_t channels = a->part.p->channels, tap[CONV_DIMS], k = 0;
  uint32_t flip = shift_of(a) ? 0x80808080u : 0;
  int count = find_segments(&a->part, at, n, segments);
  for (int64_t c = 0; c < channels; c++)
    for (tap[0] = 0; tap[0] < d[0].taps; tap[0]++)
      for (tap[1] = 0; tap[1] < d[1].taps; tap[1]++)
        for (tap[2] = 0; tap[2] < d[2].taps; tap[2]++) {
          gather(a, segments, count, group * channels + c, tap, rows[k % 4]);
          if (++k % 4) continue;
          store_words(rows, flip, patches);
          patches += TILE;
        }
  if (k % 4) store_words(rows, flip, patches);
}

/* ---------------------------------------------------------------- products */

static weight_rows rows_of(const integer_conv *a, int64_t output, int rows) {
  weight_rows w = {.first = (const unsigned char *)a->part.p->weight + output * a->k,
                   .stride = a->k,
                   .n = a->k / 4,
                   .has_rest = a->k % 4 != 0};
  for (int r = 0; r < rows && w.has_rest; r++)
    memcpy(&w.rest[r], w.first + r * a->k + 4 * w.n, (size_t)(a->k % 4));
  return w;
}

/* Of cells [at, at + n) of all images, of one channel of all groups. */
static void store_sums(const integer_conv *a, int64_t output, int64_t at, int64_t n,
                       const int32_t *sums) {
  const conv_args *p = a->part.p;
  int64_t cells = cell_count(&a->part);
  for (int64_t m; n > 0; sums += m, at += m, n -= m) {
    int64_t image = at / cells, left = cells - at % cells;
    m = left < n ? left : n;
    int64_t plane = image * p->groups * p->outputs + output;
    memcpy((int32_t *)p->out + plane * cells + at % cells, sums, (size_t)m * sizeof *sums);
  }
}

static void run_tile(const void *user, int64_t task, char *scratch) {
  const integer_conv *a = user;
  const conv_args *p = a->part.p;
  int64_t tile = task % a->tiles, block = task / a->tiles % a->blocks,
          group = task / a->tiles / a->blocks;
  int64_t all = p->images * cell_count(&a->part), at = tile * TILE,
          n = all - at < TILE ? all - at : TILE;
  int64_t first = block * a->block,
          last = first + a->block < p->outputs ? first + a->block : p->outputs;
  uint32_t *patches = (uint32_t *)scratch;
  gather_tile(a, group, at, n, patches);
  for (int64_t o = first; o < last; o += ROWS) {
    int32_t sums[ROWS * TILE];
    int rows = last - o < ROWS ? (int)(last - o) : ROWS;
    int64_t output = group * p->outputs + o;
    const weight_rows w = rows_of(a, output, rows);
    for (int i = 0; i < rows * TILE; i++) sums[i] = a->begin[output + i / TILE];
    a->multiply.run(rows, &w, patches, sums);
    for (int r = 0; r < rows; r++) store_sums(a, output + r, at, n, sums + r * TILE);
  }
}

/* ---------------------------------------------------------------- depthwise */

/* In floats, which hold such sums exactly. */
static bool is_depthwise(const integer_conv *a) {
  return a->part.p->groups > 1 && a->part.p->channels == 1 && has_few_taps(&a->part);
}

static int64_t plane_count(const integer_conv *a) {
  return a->part.p->images * a->part.p->groups * a->part.p->outputs;
}

/* A plane less the padding's value, so that what is outside adds nothing. */
static void load_plane(const integer_conv *a, int64_t plane, float *to) {
  const conv_args *p = a->part.p;
  int64_t n = in_size(p);
  const unsigned char *u = (const unsigned char *)p->x + plane * n;
  const signed char *s = (const signed char *)u;
  int pad = p->type == DTYPE_I8 ? (signed char)a->padding_value : a->padding_value;
  if (p->type == DTYPE_I8)
    for (int64_t i = 0; i < n; i++) to[i] = (float)(s[i] - pad);
  else
    for (int64_t i = 0; i < n; i++) to[i] = (float)(u[i] - pad);
}

/* One output plane. */
static void run_plane(const void *user, int64_t task, char *scratch) {
  const integer_conv *a = user;
  const conv_part *c = &a->part;
  const conv_args *p = c->p;
  int64_t outputs = p->groups * p->outputs, output = task % outputs, cell[CONV_DIMS];
  int32_t *out = (int32_t *)p->out + task * cell_count(c);
  float *plane = (float *)(void *)scratch, values[ROW_BLOCK];
  plane_taps taps;
  plane_taps_init(c, &taps);
  int32_t begin = p->bias ? ((const int32_t *)p->bias)[output] : 0;
  for (int64_t t = 0; t < a->k; t++) {
    int w = ((const signed char *)p->weight)[output * a->k + t];
    taps.weight[t] = (float)w;
    begin += w * (p->type == DTYPE_I8 ? (signed char)a->padding_value : a->padding_value);
  }
  load_plane(a, task / outputs * p->groups + output / p->outputs, plane);
  for (int64_t at = 0, n; at < cell_count(c); at += n) {
    split_cell(c, at, cell);
    n = c->d[2].count - cell[2] < ROW_BLOCK ? c->d[2].count - cell[2] : ROW_BLOCK;
    plane_taps_sum(c, &taps, plane, cell, n, values);
    for (int64_t i = 0; i < n; i++) out[at + i] = begin + (int32_t)values[i];
  }
}

/* ---------------------------------------------------------------- the kernel */

static integer_conv make_conv(const kernel_context *ctx, const conv_integer_args *args) {
  const conv_args *p = &args->conv;
  integer_conv a = {.part = {.p = p},
                    .padding_value = args->padding_value & 255,
                    .multiply = choose_multiplier()};
  for (int d = 0; d < CONV_DIMS; d++) a.part.d[d] = whole_window(&p->dims[d]);
  a.k = p->channels * tap_count(&a.part);
  a.tiles = (p->images * cell_count(&a.part) + TILE - 1) / TILE;
  int64_t tasks = p->groups * a.tiles, wanted = tasks ? 2 * (int64_t)ctx->n_threads / tasks : 0;
  a.block = wanted > 1 ? (p->outputs + wanted - 1) / wanted : p->outputs;
  a.block = (a.block + LEAST_BLOCK - 1) / LEAST_BLOCK * LEAST_BLOCK;
  a.blocks = a.block ? (p->outputs + a.block - 1) / a.block : 0;
  return a;
}

static int64_t task_count(const integer_conv *a) {
  return a->part.p->groups * a->blocks * a->tiles;
}

static size_t begin_bytes(const integer_conv *a) {
  const conv_args *p = a->part.p;
  return kernel_scratch_size((size_t)(p->groups * p->outputs) * sizeof(int32_t));
}

static size_t task_bytes(const integer_conv *a) {
  return (size_t)patch_words(a) * TILE * sizeof(uint32_t);
}

static int64_t work_of(const integer_conv *a) {
  const conv_args *p = a->part.p;
  return p->groups * p->outputs * a->tiles * TILE * a->k / MULTIPLIES_PER_TASK;
}

static int64_t plane_work(const integer_conv *a) {
  return plane_count(a) * cell_count(&a->part) * a->k / PLANE_MULTIPLIES_PER_TASK;
}
static size_t plane_bytes(const integer_conv *a) {
  return (size_t)(in_size(a->part.p) + 1) * sizeof(float);
}

static size_t conv_integer_scratch(const kernel_context *ctx, const void *args) {
  const integer_conv a = make_conv(ctx, args);
  if (is_depthwise(&a)) return slots_bytes(ctx, plane_count(&a), plane_work(&a), plane_bytes(&a));
  return kernel_scratch_size(begin_bytes(&a) +
                             slots_bytes(ctx, task_count(&a), work_of(&a), task_bytes(&a)));
}

/* The bias, and what makes up for bytes that are 128 more or less. */
static void find_begin(const integer_conv *a, int32_t *begin) {
  const conv_args *p = a->part.p;
  const signed char *weight = p->weight;
  int shift = shift_of(a);
  for (int64_t o = 0; o < p->groups * p->outputs; o++) {
    int32_t sum = 0;
    for (int64_t k = 0; k < a->k && shift; k++) sum += weight[o * a->k + k];
    begin[o] = (p->bias ? ((const int32_t *)p->bias)[o] : 0) - 128 * shift * sum;
  }
}

static bool conv_integer(const kernel_context *ctx, const void *args) {
  integer_conv a = make_conv(ctx, args);
  if (plane_count(&a) * cell_count(&a.part) == 0) return true;
  char *memory = ctx->scratch(ctx->pool, conv_integer_scratch(ctx, args));
  if (!memory) return false;
  if (is_depthwise(&a)) {
    run_slots_in(ctx, plane_count(&a), plane_work(&a), plane_bytes(&a), run_plane, &a, memory);
    return true;
  }
  find_begin(&a, (int32_t *)memory);
  a.begin = (const int32_t *)memory;
  run_slots_in(ctx, task_count(&a), work_of(&a), task_bytes(&a), run_tile, &a,
               memory + begin_bytes(&a));
  return true;
}

const kernel_desc kernel_conv_integer = {
    .name = "conv_integer",
    .run = conv_integer,
    .scratch = conv_integer_scratch,
    .args_size = sizeof(conv_integer_args),
    .operands = {OPERAND(conv_integer_args, conv.x), OPERAND(conv_integer_args, conv.weight),
                 OPERAND(conv_integer_args, conv.bias), OPERAND(conv_integer_args, conv.out)}};
