/* The products of matmul_dots on GPUs that multiply blocks of bytes by an instruction
 * (mma_codes.h). Integer sums of a span are exact and are scaled and added in the same order, so
 * the results have the same bits.
 *
 * A group of WARPS_M x WARPS_N sub-groups ("warps") computes TILE rows and columns of out, a warp
 * BLOCKS_M x BLOCKS_N blocks. STAGE parts of k are staged in local memory at a time: rows and
 * columns of PITCH words, and the factors of their sums. The next parts are loaded to registers
 * meanwhile. A row of codes has its words in the order of the words of q (dots.h). */
#include "dots.h"
#include "mma_blocks.h"
#include "mma_codes.h"
/* In parts. On some GPUs the registers of a work-item do not hold its share of two large parts. */
#define STAGE (CODE_BITS * SPANS * (1 + HAS_LOWS) > 8 ? 1 : 2)
#define PITCH (STAGE * WORDS + 4) /* 8 neighbours begin in different banks */
#define ROW_FACTORS (1 + SPANS)   /* per row and part: the scale, and the sum of each span */
#define TEXELS (TILE_WORDS / 4)   /* texels of 4 words in a part of a tile of rows */
#define ROW_TEXELS (TEXELS * STAGE * TILE / M)
#define CODE_QUADS (2 * STAGE * TILE) /* halves of parts of columns, of 4 words each */
#define QUAD_VECTORS (VECTORS / 2)
#define SCALES (STAGE * SPANS * TILE)
#define PER_ITEM(n) (((n) + GROUP - 1) / GROUP)
/* Sums begin at the int whose bits are those of the float 1.5 * 2^23. As a float, such an int is
 * the sum of this float and the integer, so the conversion is a subtraction. */
#define SUM_BASE 0x4b400000
/* A sum begins with this number times the sum of its q. */
#define LESS ((HAS_LOWS ? 0 : LEAST) + (FLIP_CODES && CODE_BITS == 8 ? 128 : 0))

/* The parts of a stage that a work-item loads. */
typedef struct share {
  uint4 rows[PER_ITEM(ROW_TEXELS)];
  uint codes[PER_ITEM(CODE_QUADS)][QUAD_VECTORS];
  float scales[PER_ITEM(SCALES)], lows[PER_ITEM(SCALES)];
} share;

/* The operands, from a tile on. Tiles and panels after the last repeat it. */
typedef struct sources {
  __global const int *a;
  __global const uchar *b;
  index_t last_tile, last_panel, last_part;
  long panel_bytes;
} sources;

static inline void fetch_rows(const sources *from, index_t first, int item, share *next) {
  UNROLL_MMA
  for (int i = 0; i < PER_ITEM(ROW_TEXELS); i++) {
    const int w = min(item + i * GROUP, ROW_TEXELS - 1), tile = w / TEXELS / STAGE;
    const index_t part = min(first + w / TEXELS % STAGE, from->last_part);
    const long at = (long)min((index_t)tile, from->last_tile) * (from->last_part + 1) + part;
    next->rows[i] = ((__global const uint4 *)(from->a + at * TILE_WORDS))[w % TEXELS];
  }
}

static inline void store_rows(const share *next, int item, __local uint *as, __local int *factors) {
  UNROLL_MMA
  for (int i = 0; i < PER_ITEM(ROW_TEXELS); i++) {
    const int w = item + i * GROUP, texel = w % TEXELS, part = w / TEXELS % STAGE,
              row = w / TEXELS / STAGE * M, of_factors = texel - M * WORDS / 4;
    if (w >= ROW_TEXELS) continue;
    if (of_factors < 0)
      vstore4(next->rows[i], 0,
              as + (row + texel * 4 / WORDS) * PITCH + part * WORDS + texel * 4 % WORDS);
    else
      vstore4(
          as_int4(next->rows[i]), 0,
          factors + (part * ROW_FACTORS + of_factors * 4 / M) * TILE + row + of_factors * 4 % M);
  }
}

static inline __global const uchar *block_of(const sources *from, int panel, index_t part) {
  return BLOCK_OF(from->b + (long)min((index_t)panel, from->last_panel) * from->panel_bytes, part);
}

/* Finds quad w of the codes of a stage. Neighbours have neighbouring columns. */
static inline void find_codes(int w, int *column, int *quad, int *part) {
  *column = w / (2 * PANEL * STAGE) * PANEL + w % PANEL;
  *part = w / (2 * PANEL) % STAGE;
  *quad = w / PANEL % 2;
}

static inline void fetch_codes(const sources *from, index_t first, int item, share *next) {
  UNROLL_MMA
  for (int i = 0; i < PER_ITEM(CODE_QUADS); i++) {
    int column, quad, of_stage;
    find_codes(min(item + i * GROUP, CODE_QUADS - 1), &column, &quad, &of_stage);
    const index_t part = min(first + of_stage, from->last_part);
    __global const uint *words =
        (__global const uint *)(block_of(from, column / PANEL, part) + part % BLOCK * PART_BYTES);
    UNROLL_MMA
    for (int v = 0; v < QUAD_VECTORS; v++)
      next->codes[i][v] = words[(quad * QUAD_VECTORS + v) * PANEL + column % PANEL];
  }
  UNROLL_MMA
  for (int i = 0; i < PER_ITEM(SCALES); i++) {
    const int w = min(item + i * GROUP, SCALES - 1), column = w % TILE;
    const index_t part = min(first + w / TILE / SPANS, from->last_part);
    const int span = (int)(part % BLOCK) * SPANS + w / TILE % SPANS;
    __global const uchar *block = block_of(from, column / PANEL, part);
    next->scales[i] = column_factor(block, D_AT, S_AT, span, column % PANEL);
    next->lows[i] = HAS_LOWS ? column_factor(block, M_AT, L_AT, span, column % PANEL) : 0;
  }
}

static inline void store_codes(const share *next, int item, __local uint *bs, __local float *scales,
                               __local float *lows) {
  UNROLL_MMA
  for (int i = 0; i < PER_ITEM(CODE_QUADS); i++) {
    int column, quad, part;
    if (item + i * GROUP >= CODE_QUADS) continue;
    find_codes(item + i * GROUP, &column, &quad, &part);
    const uint *w = next->codes[i];
#if CODE_BITS == 8
    const uint4 words = (uint4)(w[0], w[1], w[2], w[3]) ^ (FLIP_CODES ? 0x80808080u : 0);
#else
    const uint4 words = (uint4)(w[0], w[0] >> 4, w[1], w[1] >> 4) & 0x0f0f0f0fu;
#endif
    vstore4(words, 0, bs + column * PITCH + part * WORDS + quad * 4);
  }
  UNROLL_MMA
  for (int i = 0; i < PER_ITEM(SCALES); i++) {
    const int w = item + i * GROUP;
    if (w >= SCALES) continue;
    scales[w] = next->scales[i];
    if (HAS_LOWS) lows[w] = next->lows[i];
  }
}

/* total += the scaled products of a span. as, bs: the rows and columns of the warp in the part.
 * sums, row_scales, scales, lows: their factors in the span. */
static inline void add_span(const __local uint *as, const __local uint *bs,
                            const __local int *row_scales, const __local int *sums,
                            const __local float *scales, const __local float *lows, int span,
                            int lane, float (*total)[BLOCKS_N][SUMS]) {
  a_fragment x;
  b_fragment y[BLOCKS_N];
  UNROLL_MMA
  for (int j = 0; j < BLOCKS_N; j++)
    y[j] = load_codes(bs + j * MMA_N * PITCH, PITCH, span, SPANS, lane);
  UNROLL_MMA
  for (int i = 0; i < BLOCKS; i++) {
    const int m = i / BLOCKS_N, n = i % BLOCKS_N;
    int c[SUMS];
    if (n == 0) {
      HOLD_PRODUCTS;
      x = load_a(as + m * MMA_M * PITCH, PITCH, lane);
    }
    UNROLL_MMA
    for (int k = 0; k < SUMS; k++) c[k] = SUM_BASE + LESS * sums[m * MMA_M + SUM_ROW(lane, k)];
    MULTIPLY_CODES(c, x, y[n], span, SPANS, lane);
    UNROLL_MMA
    for (int k = 0; k < SUMS; k++) {
      const int row = m * MMA_M + SUM_ROW(lane, k), column = n * MMA_N + SUM_COLUMN(lane, k);
      const float scale = as_float(row_scales[row]);
      total[m][n][k] =
          add_factors(total[m][n][k], as_float(c[k]) - as_float(SUM_BASE), scales[column],
                      HAS_LOWS ? lows[column] : 0, scale, HAS_LOWS ? scale * (float)sums[row] : 0);
    }
  }
}

__kernel void matmul_dots_mma(DOTS_PARAMS, CODES_PARAMS) {
  const index_t z = (index_t)get_global_id(2), tile_m = (index_t)get_group_id(1) * TILE,
                tile_n = (index_t)get_group_id(0) * TILE, tiles = (m_size + M - 1) / M,
                panels = (n_size + PANEL - 1) / PANEL;
  const dots_product product = DOTS_PRODUCT_AT(z);
  const sources from = {a + a_offset + ((long)z * tiles + tile_m / M) * parts * TILE_WORDS,
                        b + b_offset + product.b + (long)(tile_n / PANEL) * panel_bytes,
                        tiles - 1 - tile_m / M,
                        panels - 1 - tile_n / PANEL,
                        parts - 1,
                        panel_bytes};
  const int item = (int)get_local_id(0), lane = item % MMA_LANES, warp = item / MMA_LANES;
  const int warp_m = warp / WARPS_N * BLOCKS_M * MMA_M, warp_n = warp % WARPS_N * BLOCKS_N * MMA_N;
  __local __attribute__((aligned(16))) uint as[TILE * PITCH], bs[TILE * PITCH];
  __local __attribute__((aligned(16))) int row_factors[STAGE * ROW_FACTORS * TILE];
  __local float scales[SCALES], lows[HAS_LOWS ? SCALES : 1];
  share next;
  float total[BLOCKS_M][BLOCKS_N][SUMS] = {{{0}}};
  fetch_rows(&from, 0, item, &next);
  fetch_codes(&from, 0, item, &next);
  for (index_t first = 0; first < parts; first += STAGE) {
    store_rows(&next, item, as, row_factors);
    store_codes(&next, item, bs, scales, lows);
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch_rows(&from, first + STAGE, item, &next);
    fetch_codes(&from, first + STAGE, item, &next);
    const int spans = (int)min(parts - first, (index_t)STAGE) * SPANS;
#pragma unroll 1
    for (int i = 0; i < spans; i++) {
      const int at = i / SPANS * WORDS, span = i % SPANS, column = i * TILE + warp_n;
      const __local int *factors = row_factors + i / SPANS * ROW_FACTORS * TILE + warp_m;
      add_span(as + warp_m * PITCH + at, bs + warp_n * PITCH + at, factors,
               factors + (1 + span) * TILE, scales + column, lows + HAS_LOWS * column, span, lane,
               total);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + product.out;
  const index_t m0 = tile_m + warp_m, n0 = tile_n + warp_n;
  UNROLL_MMA
  for (int i = 0; i < BLOCKS * SUMS; i++) {
    const index_t m = m0 + ROW_AT(lane, i), n = n0 + COLUMN_AT(lane, i);
    if (m < product.rows && n < n_size) STORE_TOTAL(SUM_OF(total, i), m, n)
  }
  for (int i = 0; i < BLOCKS * SUMS; i += SUM_RUN) {
    const index_t m = m0 + ROW_AT(lane, i), n = n0 + COLUMN_AT(lane, i);
    if (m < product.rows && n < n_size) FINISH_TOTALS(m, n, (int)min((index_t)SUM_RUN, n_size - n));
  }
}
