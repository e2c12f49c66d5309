/* Strips of a packed weight by planes of words. */
#include "backend/cpu/kernels/conv/conv_integer_tiles.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/amx.h"

enum { SUMS = 64 /* cells */, BLOCK_WORDS = INTEGER_BLOCK / 4, PACK_GRAIN = 1 /* strips */ };

/* Of a fifth of zeros at most. */
bool conv_integer_likes_tiles(const conv_args *p) {
  return cpu_has_amx() && p->groups == 1 &&
         4 * integer_blocks(p) * INTEGER_BLOCK <= 5 * p->channels;
}

/* ---------------------------------------------------------------- products */

static int byte_of(uint32_t word, int i, bool is_signed) {
  const uint32_t byte = word >> 8 * i & 255;
  return is_signed ? (int)(signed char)byte : (int)byte;
}

/* A tile of the weight, and that of the second strip, by the words that they meet. */
static void add_tile(const integer_strip *s, const signed char *tile, const uint32_t *words,
                     int32_t *sums) {
  for (int o = 0; o < s->outputs; o++) {
    const signed char *weight = tile + o / INTEGER_OUTPUTS * s->strip_bytes;
    for (int k = 0; k < INTEGER_BLOCK; k++)
      for (int c = 0; c < s->cells; c++) {
        const int x = byte_of(words[k / 4 * s->plane + c], k % 4, s->is_signed);
        const int product = x * weight[o % INTEGER_OUTPUTS * INTEGER_BLOCK + k];
        sums[o * SUMS + c] = (int32_t)((uint32_t)sums[o * SUMS + c] + (uint32_t)product);
      }
  }
}

static void multiply_portable(const integer_strip *s, int32_t *sums) {
  const signed char *weight = (const signed char *)s->weight;
  for (int i = 0; i < s->outputs * SUMS; i++) sums[i] = s->begin ? s->begin[i / SUMS] : 0;
  for (int64_t block = 0; block < s->blocks; block++)
    for (int64_t tap = 0; tap < s->taps; tap++, weight += INTEGER_TILE_BYTES)
      add_tile(s, weight, s->words + block * BLOCK_WORDS * s->plane + s->tap_at[tap], sums);
}

#if KERNEL_X86
enum {
  CELLS = 16, /* of a tile */
  VECTORS = SUMS / CELLS,
  VNNI_OUTPUTS = 4,
  ROW = SUMS * sizeof(int32_t),
  AHEAD = 8 /* tiles of the weight that are asked for */
};

KERNEL_INLINE void ask_for_tile(const unsigned char *weight) {
  enum { LINE = 64 };
#pragma GCC unroll 16
  for (int i = 0; i < INTEGER_TILE_BYTES; i += LINE)
    ask_for(weight, AHEAD * INTEGER_TILE_BYTES + i);
}

KERNEL_INLINE TARGET_AMX void add_tile_amx(const int sum, const bool is_signed) {
  if (sum == 0 && is_signed) _tile_dpbssd(0, 4, 6);
  if (sum == 0 && !is_signed) _tile_dpbsud(0, 4, 6);
  if (sum == 1 && is_signed) _tile_dpbssd(1, 4, 7);
  if (sum == 1 && !is_signed) _tile_dpbsud(1, 4, 7);
  if (sum == 2 && is_signed) _tile_dpbssd(2, 5, 6);
  if (sum == 2 && !is_signed) _tile_dpbsud(2, 5, 6);
  if (sum == 3 && is_signed) _tile_dpbssd(3, 5, 7);
  if (sum == 3 && !is_signed) _tile_dpbsud(3, 5, 7);
}

/* One or two strips by one or two times 16 cells: words mostly cross lines, which takes twice as
 * long as to load tiles of the weight. */
KERNEL_INLINE TARGET_AMX void multiply_tiles(const int strips, const int columns,
                                             const bool is_signed, const integer_strip *s,
                                             const uint32_t *first, int32_t *sums) {
  const size_t row = (size_t)s->plane * sizeof *s->words;
  const unsigned char *weight = s->weight, *below = weight + s->strip_bytes;
  const bool asks = s->asks && first == s->words;
  amx_sees_memory();
  amx_clear_sums();
  for (int64_t block = 0; block < s->blocks; block++, first += BLOCK_WORDS * s->plane)
    for (int64_t tap = 0; tap < s->taps; tap++) {
      const uint32_t *words = first + s->tap_at[tap];
      if (asks) ask_for_tile(weight);
      if (asks && strips > 1) ask_for_tile(below);
      _tile_loadd(4, weight, INTEGER_BLOCK);
      _tile_loadd(6, words, row);
      add_tile_amx(0, is_signed);
      if (columns > 1) _tile_loadd(7, words + CELLS, row);
      if (columns > 1) add_tile_amx(1, is_signed);
      if (strips > 1) _tile_loadd(5, below, INTEGER_BLOCK);
      if (strips > 1) add_tile_amx(2, is_signed);
      if (strips > 1 && columns > 1) add_tile_amx(3, is_signed);
      weight += INTEGER_TILE_BYTES;
      below += INTEGER_TILE_BYTES;
    }
  amx_store_sums(strips, columns, sums, ROW);
  amx_sees_memory();
}

KERNEL_INLINE TARGET_AMX void multiply_columns(const bool is_signed, const integer_strip *s,
                                               int cell, int32_t *sums) {
  const uint32_t *words = s->words + cell;
  const bool is_pair = s->outputs > INTEGER_OUTPUTS, is_wide = s->cells - cell > CELLS;
  if (is_pair && is_wide) multiply_tiles(2, 2, is_signed, s, words, sums + cell);
  if (is_pair && !is_wide) multiply_tiles(2, 1, is_signed, s, words, sums + cell);
  if (!is_pair && is_wide) multiply_tiles(1, 2, is_signed, s, words, sums + cell);
  if (!is_pair && !is_wide) multiply_tiles(1, 1, is_signed, s, words, sums + cell);
}

static TARGET_AMX void add_begin(const integer_strip *s, int32_t *sums) {
  for (int o = 0; o < s->outputs; o++)
    for (int c = 0; c < s->cells; c += CELLS) {
      int32_t *at = sums + o * SUMS + c;
      const __m512i begin = _mm512_set1_epi32(s->begin[o]);
      _mm512_storeu_si512(at, _mm512_add_epi32(_mm512_loadu_si512(at), begin));
    }
}

static TARGET_AMX void multiply_amx(const integer_strip *s, int32_t *sums) {
  for (int cell = 0; cell < s->cells; cell += 2 * CELLS) {
    if (s->is_signed)
      multiply_columns(true, s, cell, sums);
    else
      multiply_columns(false, s, cell, sums);
  }
  if (s->begin) add_begin(s, sums);
}

/* VNNI_OUTPUTS from number `output` on; of signed bytes 128 more, less what that adds. */
KERNEL_INLINE TARGET_AVX512_VNNI void multiply_outputs(const bool is_signed, const integer_strip *s,
                                                       int output, int32_t *sums) {
  const __m512i flip = _mm512_set1_epi32((int)0x80808080U);
  __m512i sum[VNNI_OUTPUTS][VECTORS], more[VNNI_OUTPUTS];
  for (int o = 0; o < VNNI_OUTPUTS; o++) {
    more[o] = _mm512_setzero_si512();
    const bool begins = s->begin && output + o < s->outputs;
    for (int v = 0; v < VECTORS; v++)
      sum[o][v] = _mm512_set1_epi32(begins ? s->begin[output + o] : 0);
  }
  const unsigned char *weight = s->weight + output / INTEGER_OUTPUTS * s->strip_bytes +
                                output % INTEGER_OUTPUTS * INTEGER_BLOCK;
  const uint64_t some = s->cells < SUMS ? ~(~0ULL << s->cells) : ~0ULL;
  for (int64_t i = 0; i < s->blocks * s->taps; i++, weight += INTEGER_TILE_BYTES) {
    const uint32_t *words =
        s->words + i / s->taps * BLOCK_WORDS * s->plane + s->tap_at[i % s->taps];
    for (int k = 0; k < BLOCK_WORDS; k++, words += s->plane) {
      __m512i x[VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) {
        x[v] = _mm512_maskz_loadu_epi32((__mmask16)(some >> v * CELLS), words + v * CELLS);
        if (is_signed) x[v] = _mm512_xor_si512(x[v], flip);
      }
#pragma GCC unroll 4
      for (int o = 0; o < VNNI_OUTPUTS; o++) {
        int32_t word;
        memcpy(&word, weight + o * INTEGER_BLOCK + 4 * k, sizeof word);
        const __m512i w = _mm512_set1_epi32(word);
        if (is_signed) more[o] = _mm512_dpbusd_epi32(more[o], flip, w);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) sum[o][v] = _mm512_dpbusd_epi32(sum[o][v], x[v], w);
      }
    }
  }
  for (int o = 0; o < VNNI_OUTPUTS; o++)
    for (int v = 0; v < VECTORS; v++)
      _mm512_storeu_si512(sums + (output + o) * SUMS + v * CELLS,
                          _mm512_sub_epi32(sum[o][v], more[o]));
}

/* What a program that was compiled where there is AMX does elsewhere. */
static TARGET_AVX512_VNNI void multiply_vnni(const integer_strip *s, int32_t *sums) {
  for (int o = 0; o < s->outputs; o += VNNI_OUTPUTS) {
    if (s->is_signed)
      multiply_outputs(true, s, o, sums);
    else
      multiply_outputs(false, s, o, sums);
  }
}
#endif

void integer_strip_multiply(const integer_strip *s, int32_t *sums) {
#if KERNEL_X86
  if (cpu_has_amx()) {
    multiply_amx(s, sums);
    return;
  }
  if (cpu_has_avx512_vnni()) {
    multiply_vnni(s, sums);
    return;
  }
#endif
  multiply_portable(s, sums);
}

/* ---------------------------------------------------------------- packing */

static int64_t strip_count(const conv_args *p) { return ceil_div(p->outputs, INTEGER_OUTPUTS); }

static size_t pack_scratch(const kernel_context *ctx, const void *args) {
  const conv_args *p = args;
  (void)ctx;
  return kernel_scratch_size((size_t)(strip_count(p) * integer_strip_bytes(p)));
}

typedef struct packing {
  const conv_args *p;
  unsigned char *to;
} packing;

/* An output's row of tiles. */
static void pack_output(const conv_args *p, int64_t output, unsigned char *to) {
  const int64_t taps = kernel_size(p);
  const unsigned char *from = (const unsigned char *)p->weight + output * p->channels * taps;
  for (int64_t c = 0; c < p->channels; c++)
    for (int64_t tap = 0; tap < taps; tap++)
      to[(c / INTEGER_BLOCK * taps + tap) * INTEGER_TILE_BYTES + c % INTEGER_BLOCK] = *from++;
}

static void pack_strips(void *ctx, int64_t begin, int64_t end) {
  const packing *w = ctx;
  const conv_args *p = w->p;
  const int64_t bytes = integer_strip_bytes(p);
  memset(w->to + begin * bytes, 0, (size_t)((end - begin) * bytes));
  for (int64_t o = begin * INTEGER_OUTPUTS; o < least(end * INTEGER_OUTPUTS, p->outputs); o++)
    pack_output(p, o, w->to + o / INTEGER_OUTPUTS * bytes + o % INTEGER_OUTPUTS * INTEGER_BLOCK);
}

static bool pack(const kernel_context *ctx, const void *args) {
  packing w = {.p = args};
  w.to = ctx->scratch(ctx->pool, pack_scratch(ctx, args));
  if (w.to) ctx->parallel_for(ctx->pool, strip_count(w.p), PACK_GRAIN, pack_strips, &w);
  return w.to;
}

const kernel_desc kernel_conv_integer_pack = {.name = "conv_integer_pack",
                                              .run = pack,
                                              .scratch = pack_scratch,
                                              .args_size = sizeof(conv_args),
                                              .operands = {OPERAND(conv_args, weight)}};
