/* out[m][n] = bias[n] + sum over k of a[m][k] b[n][k], of bytes.
 *
 * matmul_integer_words turns rows of a, TILE of them at a time, to words of four neighbouring k:
 * (tiles, words, TILE), unsigned, of SIGNED a 128 more; zeros behind the last. The weight's form is
 * that of conv_dots_weight (conv_dots.cl): (n_size, words) words, then what SIGNED a has too much.
 * matmul_integer_dots, on CPUs: a work-item makes `outputs` columns of a tile. matmul_integer: one
 * work-item COLUMNS columns of a row, of b as it is. */
#include "add_dots.h"
#include "common.h"
#ifndef SIGNED
#define SIGNED 0
#endif
#define A_SIGNED SIGNED
#define B_SIGNED 1
#define B_SPACE __global
#define ASKED b
#include "amx_bytes.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef OUT_TYPE
#define OUT_TYPE I32
#endif
#define VECTORS 4
#define TILE (16 * VECTORS)
#define ROWS 4
#define STRIP 16 /* columns that are stored together */
#define COLUMNS 4
#define ASK_AHEAD (8 * TILE_BYTES)
#define TILE_STRIP 64 /* columns of matmul_integer_tiles: a multiple of BLOCK */
#define FLIP (SIGNED ? 0x80808080u : 0u)
#if SIGNED
#define BYTE char
#else
#define BYTE uchar
#endif

/* A work-item writes the words of a row. */
__kernel void matmul_integer_words(const __global uchar *a, const long a_offset, __global uint *to,
                                   const long to_offset, const index_t items, const int k_size,
                                   const int words) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  a += a_offset + item * k_size;
  to += to_offset + item / TILE * TILE * words + item % TILE;
  const int whole = k_size / 4;
  for (int i = 0; i < whole; i++) to[i * TILE] = as_uint(vload4(i, a)) ^ FLIP;
  if (whole == words) return;
  uint word = 0;
  for (int j = 0; 4 * whole + j < k_size; j++) word |= (uint)a[4 * whole + j] << 8 * j;
  to[whole * TILE] = word ^ FLIP;
}

#define WORDS_SPACE __global
#include "dots_rows.h"

/* items = blocks of `outputs` columns * tiles, tiles innermost. */
__kernel void matmul_integer_dots(const __global uint *a, const long a_offset,
                                  const __global int *form, const long form_offset,
                                  const __global int *bias, const long bias_offset,
                                  __global STORAGE(OUT_TYPE) * out, const long out_offset,
                                  const index_t items, const int outputs, const int tiles,
                                  const index_t m_size, const int n_size, const int words) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int tile = (int)(item % tiles), first = (int)(item / tiles) * outputs,
            last = min(first + outputs, n_size);
  const index_t row = (index_t)tile * TILE;
  const int kept = (int)(m_size - row < TILE ? m_size - row : TILE);
  a += a_offset + row * words;
  form += form_offset;
  const __global int *less = form + (index_t)n_size * words;
  int sums[STRIP * TILE], turned[TILE * STRIP];
  for (int n = first; n < last; n += STRIP) {
    const int some = min(STRIP, last - n);
    for (int o = 0; o < some; o += ROWS) {
      const __global int *rows[ROWS];
      int begin[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const int column = min(n + o + r, n_size - 1);
        rows[r] = form + (index_t)column * words;
        begin[r] = (HAS_BIAS ? bias[bias_offset + column] : 0) - less[column];
      }
      multiply_words(words, rows, a, begin, sums + o * TILE, VECTORS);
    }
    for (int o = 0; o < some; o++)
      for (int r = 0; r < TILE; r++) turned[r * STRIP + o] = sums[o * TILE + r];
    for (int r = 0; r < kept; r++) {
      const index_t at = (row + r) * n_size + n;
      STORE_RESULT(out + out_offset + at, turned + r * STRIP, at, some);
    }
  }
}

/* Rows of a, with zeros behind each and behind the last: items, of row_bytes. */
__kernel void matmul_integer_rows(const __global uchar *a, const long a_offset, __global uchar *to,
                                  const long to_offset, const index_t items, const index_t m_size,
                                  const int k_size, const int row_bytes) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int some = item < m_size ? k_size : 0;
  a += a_offset + item * k_size;
  to += to_offset + item * row_bytes;
  for (int k = 0; k < row_bytes; k++) to[k] = k < some ? a[k] : 0;
}

/* By amx_bytes.h: rows of a, row_bytes apart, of which there are whole blocks of steps of zeros
 * behind what is there, by the tiles of conv_dots_tiles_weight. A work-item makes a strip of
 * TILE_STRIP columns of `each` rows. items = strips * chunks of rows, chunks innermost. */
__kernel void matmul_integer_tiles(const __global uchar *a, const long a_offset,
                                   const __global uchar *form, const long form_offset,
                                   const __global int *bias, const long bias_offset,
                                   __global STORAGE(OUT_TYPE) * out, const long out_offset,
                                   const index_t items, const index_t each, const int chunks,
                                   const index_t m_size, const int n_size, const int row_bytes) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t begin = item % chunks * each, end = min(begin + each, m_size);
  const int first = (int)(item / chunks) * TILE_STRIP, some = min(TILE_STRIP, n_size - first),
            steps = row_bytes / STEP_BYTES;
  const tile_strides of_a = {row_bytes, SIDE * (long)row_bytes, STEP_BYTES},
                     of_b = {STEP_BYTES, TILE_BYTES, 2 * TILE_BYTES};
  int starts[TILE_STRIP], sums[BLOCK * TILE_STRIP];
  a += a_offset;
  form += form_offset + first / BLOCK * (long)(steps * 2 * TILE_BYTES);
  for (int i = 0; i < TILE_STRIP; i++)
    starts[i] = HAS_BIAS && i < some ? bias[bias_offset + first + i] : 0;
  amx_bytes_begin();
  for (index_t row = begin; row < end; row += BLOCK) {
    for (int i = 0; i < some; i += BLOCK) {
      const sums_source from = {starts + i, 0, SIDE};
      add_blocks(steps, a + row * (long)row_bytes, of_a,
                 form + i / BLOCK * (long)(steps * 2 * TILE_BYTES), of_b, from, sums + i,
                 TILE_STRIP, row == begin ? ASK_AHEAD : 0);
    }
    for (int r = 0; r < BLOCK && row + r < end; r++) {
      const index_t at = (row + r) * n_size + first;
      STORE_RESULT(out + out_offset + at, sums + r * TILE_STRIP, at, some);
    }
  }
  amx_bytes_end();
}

/* items = rows * blocks of COLUMNS columns, blocks innermost. */
__kernel void matmul_integer(const __global BYTE *a, const long a_offset, const __global char *b,
                             const long b_offset, const __global int *bias, const long bias_offset,
                             __global STORAGE(OUT_TYPE) * out, const long out_offset,
                             const index_t items, const int blocks, const int n_size,
                             const int k_size) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / blocks;
  const int first = (int)(item % blocks) * COLUMNS, n = min(COLUMNS, n_size - first);
  a += a_offset + row * k_size;
  b += b_offset + (index_t)first * k_size;
  int sum[COLUMNS];
#pragma unroll
  for (int o = 0; o < COLUMNS; o++)
    sum[o] = HAS_BIAS ? bias[bias_offset + first + min(o, n - 1)] : 0;
  for (int k = 0; k < k_size; k++) {
    const int x = a[k];
#pragma unroll
    for (int o = 0; o < COLUMNS; o++) sum[o] += x * b[min(o, n - 1) * (index_t)k_size + k];
  }
  const index_t at = row * n_size + first;
  STORE_RESULT(out + out_offset + at, sum, at, n);
}
