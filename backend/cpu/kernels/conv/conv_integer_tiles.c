/* sums (outputs, cells) = begin (outputs) + weight * words, for one or two strips of a packed
 * weight (conv_integer_tiles.h has its layout). Loop order: cells, block of channels, tap. */
#include "backend/cpu/kernels/conv/conv_integer_tiles.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/amx.h"

enum { SUMS = 64 /* cells */, BLOCK_WORDS = INTEGER_BLOCK / 4, PACK_GRAIN = 1 /* strips */ };

/* At most a fifth of the channels may be padding. */
bool conv_integer_suits_tiles(const conv_args *args) {
  return cpu_has_amx() && args->groups == 1 &&
         4 * integer_blocks(args) * INTEGER_BLOCK <= 5 * args->channels;
}

/* ---------------------------------------------------------------- products */

static int conv_integer_tiles_byte_of(uint32_t word, int i, bool is_signed) {
  const uint32_t byte = word >> 8 * i & 255;
  return is_signed ? (int)(signed char)byte : (int)byte;
}

/* Adds the products of a tile of the weight, and of the same tile of the second strip, with the
 * words of its channels and tap. */
static void conv_integer_tiles_add_tile(const integer_strip *strip, const signed char *tile,
                                        const uint32_t *words, int32_t *sums) {
  for (int o = 0; o < strip->outputs; o++) {
    const signed char *weight = tile + o / INTEGER_OUTPUTS * strip->strip_bytes;
    for (int k = 0; k < INTEGER_BLOCK; k++)
      for (int c = 0; c < strip->cells; c++) {
        const int x =
            conv_integer_tiles_byte_of(words[k / 4 * strip->plane + c], k % 4, strip->is_signed);
        const int product = x * weight[o % INTEGER_OUTPUTS * INTEGER_BLOCK + k];
        sums[o * SUMS + c] = (int32_t)((uint32_t)sums[o * SUMS + c] + (uint32_t)product);
      }
  }
}

static void conv_integer_tiles_multiply_portable(const integer_strip *strip, int32_t *sums) {
  const signed char *weight = (const signed char *)strip->weight;
  for (int i = 0; i < strip->outputs * SUMS; i++)
    sums[i] = strip->begin ? strip->begin[i / SUMS] : 0;
  for (int64_t block = 0; block < strip->blocks; block++)
    for (int64_t tap = 0; tap < strip->taps; tap++, weight += INTEGER_TILE_BYTES)
      conv_integer_tiles_add_tile(
          strip, weight, strip->words + block * BLOCK_WORDS * strip->plane + strip->tap_at[tap],
          sums);
}

#if KERNEL_X86
enum {
  CELLS = 16, /* per tile */
  VECTORS = SUMS / CELLS,
  VNNI_OUTPUTS = 4,
  ROW = SUMS * sizeof(int32_t),
  AHEAD = 8 /* prefetch distance in tiles of the weight */
};

KERNEL_INLINE void conv_integer_tiles_prefetch_tile(const unsigned char *weight) {
  enum { LINE = 64 };
#pragma GCC unroll 16
  for (int i = 0; i < INTEGER_TILE_BYTES; i += LINE)
    prefetch_line(weight, AHEAD * INTEGER_TILE_BYTES + i);
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

/* Multiplies one or two strips with one or two times 16 cells. Loads of words mostly cross cache
 * lines, so they take twice as long as loads of weight tiles. */
KERNEL_INLINE TARGET_AMX void conv_integer_tiles_multiply(const int strips, const int columns,
                                                          const bool is_signed,
                                                          const integer_strip *strip,
                                                          const uint32_t *first, int32_t *sums) {
  const size_t row = (size_t)strip->plane * sizeof *strip->words;
  const unsigned char *weight = strip->weight, *below = weight + strip->strip_bytes;
  const bool prefetches = strip->prefetches && first == strip->words;
  amx_compiler_barrier();
  amx_clear_sums();
  for (int64_t block = 0; block < strip->blocks; block++, first += BLOCK_WORDS * strip->plane)
    for (int64_t tap = 0; tap < strip->taps; tap++) {
      const uint32_t *words = first + strip->tap_at[tap];
      if (prefetches) conv_integer_tiles_prefetch_tile(weight);
      if (prefetches && strips > 1) conv_integer_tiles_prefetch_tile(below);
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
  amx_compiler_barrier();
}

KERNEL_INLINE TARGET_AMX void conv_integer_tiles_multiply_columns(const bool is_signed,
                                                                  const integer_strip *strip,
                                                                  int cell, int32_t *sums) {
  const uint32_t *words = strip->words + cell;
  const bool is_pair = strip->outputs > INTEGER_OUTPUTS, is_wide = strip->cells - cell > CELLS;
  if (is_pair && is_wide) conv_integer_tiles_multiply(2, 2, is_signed, strip, words, sums + cell);
  if (is_pair && !is_wide) conv_integer_tiles_multiply(2, 1, is_signed, strip, words, sums + cell);
  if (!is_pair && is_wide) conv_integer_tiles_multiply(1, 2, is_signed, strip, words, sums + cell);
  if (!is_pair && !is_wide) conv_integer_tiles_multiply(1, 1, is_signed, strip, words, sums + cell);
}

static TARGET_AMX void add_begin(const integer_strip *strip, int32_t *sums) {
  for (int o = 0; o < strip->outputs; o++)
    for (int c = 0; c < strip->cells; c += CELLS) {
      int32_t *at = sums + o * SUMS + c;
      const __m512i begin = _mm512_set1_epi32(strip->begin[o]);
      _mm512_storeu_si512(at, _mm512_add_epi32(_mm512_loadu_si512(at), begin));
    }
}

static TARGET_AMX void conv_integer_tiles_multiply_amx(const integer_strip *strip, int32_t *sums) {
  for (int cell = 0; cell < strip->cells; cell += 2 * CELLS) {
    if (strip->is_signed)
      conv_integer_tiles_multiply_columns(true, strip, cell, sums);
    else
      conv_integer_tiles_multiply_columns(false, strip, cell, sums);
  }
  if (strip->begin) add_begin(strip, sums);
}

/* Computes VNNI_OUTPUTS outputs from `output` on. Signed inputs are biased by 128; the bias is
 * subtracted from the sums. */
KERNEL_INLINE TARGET_AVX512_VNNI void multiply_outputs(const bool is_signed,
                                                       const integer_strip *strip, int output,
                                                       int32_t *sums) {
  const __m512i flip = _mm512_set1_epi32((int)0x80808080U);
  __m512i sum[VNNI_OUTPUTS][VECTORS], more[VNNI_OUTPUTS];
  for (int o = 0; o < VNNI_OUTPUTS; o++) {
    more[o] = _mm512_setzero_si512();
    const bool begins = strip->begin && output + o < strip->outputs;
    for (int v = 0; v < VECTORS; v++)
      sum[o][v] = _mm512_set1_epi32(begins ? strip->begin[output + o] : 0);
  }
  const unsigned char *weight = strip->weight + output / INTEGER_OUTPUTS * strip->strip_bytes +
                                output % INTEGER_OUTPUTS * INTEGER_BLOCK;
  const uint64_t some = strip->cells < SUMS ? ~(~0ULL << strip->cells) : ~0ULL;
  for (int64_t i = 0; i < strip->blocks * strip->taps; i++, weight += INTEGER_TILE_BYTES) {
    const uint32_t *words = strip->words + i / strip->taps * BLOCK_WORDS * strip->plane +
                            strip->tap_at[i % strip->taps];
    for (int k = 0; k < BLOCK_WORDS; k++, words += strip->plane) {
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

/* Used by a program that was compiled on a machine with AMX and runs on one without. */
static TARGET_AVX512_VNNI void conv_integer_tiles_multiply_vnni(const integer_strip *strip,
                                                                int32_t *sums) {
  for (int o = 0; o < strip->outputs; o += VNNI_OUTPUTS) {
    if (strip->is_signed)
      multiply_outputs(true, strip, o, sums);
    else
      multiply_outputs(false, strip, o, sums);
  }
}
#endif

void integer_strip_multiply(const integer_strip *strip, int32_t *sums) {
#if KERNEL_X86
  if (cpu_has_amx()) {
    conv_integer_tiles_multiply_amx(strip, sums);
    return;
  }
  if (cpu_has_avx512_vnni()) {
    conv_integer_tiles_multiply_vnni(strip, sums);
    return;
  }
#endif
  conv_integer_tiles_multiply_portable(strip, sums);
}

/* ---------------------------------------------------------------- packing */

static int64_t conv_integer_tiles_strip_count(const conv_args *args) {
  return ceil_div(args->outputs, INTEGER_OUTPUTS);
}

static size_t conv_integer_tiles_pack_scratch(const kernel_context *ctx, const void *args) {
  const conv_args *own = args;
  (void)ctx;
  return kernel_scratch_size(
      (size_t)(conv_integer_tiles_strip_count(own) * integer_strip_bytes(own)));
}

typedef struct packing {
  const conv_args *args;
  unsigned char *to;
} packing;

/* Packs an output's row of each tile. */
static void conv_integer_tiles_pack_output(const conv_args *args, int64_t output,
                                           unsigned char *to) {
  const int64_t taps = kernel_size(args);
  const unsigned char *from = (const unsigned char *)args->weight + output * args->channels * taps;
  for (int64_t c = 0; c < args->channels; c++)
    for (int64_t tap = 0; tap < taps; tap++)
      to[(c / INTEGER_BLOCK * taps + tap) * INTEGER_TILE_BYTES + c % INTEGER_BLOCK] = *from++;
}

static void conv_integer_tiles_pack_strips(void *ctx, int64_t begin, int64_t end) {
  const packing *packing = ctx;
  const conv_args *args = packing->args;
  const int64_t bytes = integer_strip_bytes(args);
  memset(packing->to + begin * bytes, 0, (size_t)((end - begin) * bytes));
  for (int64_t o = begin * INTEGER_OUTPUTS; o < min_i64(end * INTEGER_OUTPUTS, args->outputs); o++)
    conv_integer_tiles_pack_output(
        args, o, packing->to + o / INTEGER_OUTPUTS * bytes + o % INTEGER_OUTPUTS * INTEGER_BLOCK);
}

static bool conv_integer_tiles_pack(const kernel_context *ctx, const void *args) {
  packing packing = {.args = args};
  packing.to = ctx->scratch(ctx->pool, conv_integer_tiles_pack_scratch(ctx, args));
  if (packing.to)
    ctx->parallel_for(ctx->pool, conv_integer_tiles_strip_count(packing.args), PACK_GRAIN,
                      conv_integer_tiles_pack_strips, &packing);
  return packing.to;
}

const kernel_desc kernel_conv_integer_pack = {.name = "conv_integer_pack",
                                              .run = conv_integer_tiles_pack,
                                              .scratch = conv_integer_tiles_pack_scratch,
                                              .args_size = sizeof(conv_args),
                                              .operands = {OPERAND(conv_args, weight)}};
