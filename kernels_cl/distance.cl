/* out[batch, i, j] = the p-norm of a[batch, i, :] - b[batch, j, :]. KIND 0, 1, 2 and 3: p is KIND;
 * 4: p is infinity; 5: any other p.
 *
 * distance_rows: a work-item computes ROWS neighbours of j, W terms at a time. Float sums are taken
 * over BLOCK terms of a lane, then over the blocks, then over the lanes.
 *
 * distance_panels, on CPUs, for KIND 1, 2 and 4 in floats: a work-item computes CHUNK of i by W of
 * j (the lanes), TILE of i at once. Private memory holds DEPTH terms of the rows of b, transposed.
 * Their sums are then added to the totals.
 *
 * distance_products, for KIND 2 in floats: the same for VECTORS panels by products, since |x - y|^2
 * = |x|^2 + |y|^2 - 2 xy. If this loses more than four bits or yields an infinity or NaN, a TILE is
 * recomputed by differences. */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef KIND
#define KIND 2
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef TILE
#define TILE 8 /* 8 of 32 registers of 16 floats */
#endif
#ifndef CHUNK
#define CHUNK 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#define DEPTH 128
#include "vector.h"
DEFINE_SOME(TYPE)
DEFINE_KEEP(TYPE)
#define INFINITE 4

#if KIND == 0
#define TERM(d) ((d) != (d) ? (d) : (d) != 0 ? (realw)1 : (realw)0)
#elif KIND == 2
#define TERM(d) ((d) * (d))
#elif KIND == 3
#define TERM(d) ((d) * (d)*fabs(d))
#elif KIND == 5
#define TERM(d) pow(fabs(d), (realw)p)
#else
#define TERM(d) fabs(d)
#endif
#if KIND == INFINITE
#define ADD(a, b) larger(a, b)
#else
#define ADD(a, b) ((a) + (b))
#endif

/* Returns the norm, computed from the totals of the lanes. */
static inline real norm_of(const realw v, const real p) {
#if KIND == INFINITE && W > 1
  real lanes[W];
  vstore16(v, 0, lanes);
  real total = lanes[0];
  for (int l = 1; l < W; l++) total = larger(total, lanes[l]);
#elif KIND == INFINITE
  const real total = v;
#else
  const real total = fold_add(v);
#endif
#if KIND == 2
  return sqrt(total);
#elif KIND == 3
  return cbrt(total);
#elif KIND == 5
  return pow(total, 1 / p);
#else
  return total;
#endif
}

__kernel void distance_rows(const __global STORAGE(TYPE) * a, const long a_offset,
                            const __global STORAGE(TYPE) * b, const long b_offset,
                            __global STORAGE(TYPE) * out, const long out_offset,
                            const index_t items, const index_t n_a, const index_t n_b,
                            const index_t m, const real p) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (n_b + ROWS - 1) / ROWS, row = item / per_row,
                first = item % per_row * ROWS;
  a += a_offset + row * m;
  b += b_offset + row / n_a * n_b * m;
  index_t at[ROWS]; /* offsets of the rows of b; rows beyond the last repeat it */
  realw total[ROWS];
  for (int r = 0; r < ROWS; r++) {
    at[r] = min(first + r, n_b - 1) * m;
    total[r] = (realw)0;
  }
  for (index_t from = 0; from < m; from += BLOCK * W) {
    const index_t end = from + BLOCK * W < m ? from + BLOCK * W : m;
    realw block[ROWS];
    for (int r = 0; r < ROWS; r++) block[r] = (realw)0;
    for (index_t i = from; i < end; i += W) {
      const int some = (int)(end - i);
      const realw x = LOAD_SOME(TYPE, a + i, some);
      for (int r = 0; r < ROWS; r++) {
        const realw d = x - LOAD_SOME(TYPE, b + at[r] + i, some), term = TERM(d);
        block[r] = ADD(block[r], term);
      }
    }
    for (int r = 0; r < ROWS; r++) total[r] = ADD(total[r], block[r]);
  }
  out += out_offset + row * n_b + first;
  for (int r = 0; r < ROWS && first + r < n_b; r++) STORE(TYPE, out, r, norm_of(total[r], p));
}

#if W == 16
#define LANES16 realw
#include "transpose.h"
#if KIND == 2
#define ADD_TERM(sum, d) FMA(d, d, sum)
#define ROOT(v) sqrt(v)
#else
#define ADD_TERM(sum, d) ADD(sum, TERM(d))
#define ROOT(v) (v)
#endif

/* Transposes a panel of b: lane j of columns[k] is term k of row j. Missing rows repeat one. */
static inline void take_panel(const __global STORAGE(TYPE) * b, index_t m, int rows, int depth,
                              realw *columns) {
  for (int k = 0; k < depth; k += W) {
    for (int j = 0; j < W; j++) {
      const __global STORAGE(TYPE) *row = b + min(j, rows - 1) * m + k;
      columns[k + j] = LOAD_SOME(TYPE, row, depth - k);
    }
    transpose_16(columns + k);
  }
}

/* Adds `depth` terms to the sums of TILE rows of a. Rows beyond the last of `rows` repeat it. */
static inline void add_terms(const __global STORAGE(TYPE) * a, index_t m, int rows, int depth,
                             const realw *columns, realw *sums) {
  const __global STORAGE(TYPE) * row[TILE]; /* PoCL would make offsets vectors */
  realw partial[TILE];
  for (int r = 0; r < TILE; r++) {
    row[r] = a + min(r, rows - 1) * m;
    partial[r] = (realw)0;
  }
  for (int k = 0; k < depth; k++) {
    const realw y = columns[k];
#pragma unroll
    for (int r = 0; r < TILE; r++) {
      const realw d = (realw)LOAD(TYPE, row[r], k) - y;
      partial[r] = ADD_TERM(partial[r], d);
    }
  }
  for (int r = 0; r < TILE; r++) sums[r] = ADD(sums[r], partial[r]);
}

__kernel void distance_panels(const __global STORAGE(TYPE) * a, const long a_offset,
                              const __global STORAGE(TYPE) * b, const long b_offset,
                              __global STORAGE(TYPE) * out, const long out_offset,
                              const index_t items, const index_t n_a, const index_t n_b,
                              const index_t m) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t panels = (n_b + W - 1) / W, chunks = (n_a + CHUNK - 1) / CHUNK,
                j = item % panels * W, i = item / panels % chunks * CHUNK,
                batch = item / panels / chunks;
  const int rows = (int)min(n_a - i, (index_t)CHUNK), columns = (int)min(n_b - j, (index_t)W);
  realw panel[DEPTH], sums[CHUNK];
  a += a_offset + (batch * n_a + i) * m;
  b += b_offset + (batch * n_b + j) * m;
  out += out_offset + (batch * n_a + i) * n_b + j;
  for (int r = 0; r < CHUNK; r++) sums[r] = (realw)0;
  for (index_t from = 0; from < m; from += DEPTH) {
    const int depth = (int)min(m - from, (index_t)DEPTH);
    take_panel(b + from, m, columns, depth, panel);
    for (int r = 0; r < rows; r += TILE)
      add_terms(a + r * m + from, m, rows - r, depth, panel, sums + r);
  }
  for (int r = 0; r < rows; r++) {
    const realw v = ROOT(sums[r]);
    STORE_SOME(TYPE, out + r * n_b, columns, v);
  }
}

#if KIND == 2
#define MIN_EXPONENT (1 << 23) /* added to the bits of infinity or NaN, it sets the sign bit */

/* Adds `depth` terms to the dot products of TILE rows of a with VECTORS panels. */
static inline void add_products(const __global STORAGE(TYPE) * a, index_t m, int rows, int depth,
                                realw panels[VECTORS][DEPTH], realw sums[][VECTORS]) {
  const __global STORAGE(TYPE) * row[TILE];
  realw partial[TILE][VECTORS];
  for (int r = 0; r < TILE; r++) {
    row[r] = a + min(r, rows - 1) * m;
    for (int v = 0; v < VECTORS; v++) partial[r][v] = (realw)0;
  }
  for (int k = 0; k < depth; k++) {
    realw y[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) y[v] = panels[v][k];
#pragma unroll
    for (int r = 0; r < TILE; r++) {
      const realw x = (realw)LOAD(TYPE, row[r], k);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) partial[r][v] = FMA(x, y[v], partial[r][v]);
    }
  }
  for (int r = 0; r < TILE; r++)
    for (int v = 0; v < VECTORS; v++) sums[r][v] += partial[r][v];
}

/* Returns the sum of squares of a row of m elements. */
static inline real squares_of(const __global STORAGE(TYPE) * a, index_t m) {
  realw sum = (realw)0;
  for (index_t k = 0; k < m; k += W) {
    const realw x = LOAD_SOME(TYPE, a + k, (int)min(m - k, (index_t)W));
    sum = FMA(x, x, sum);
  }
  return fold_add(sum);
}

/* Computes the distances of TILE rows of a to a panel of b by differences. */
static inline void distances_again(const __global STORAGE(TYPE) * a,
                                   const __global STORAGE(TYPE) * b, index_t m, int rows,
                                   int columns, realw *panel, realw *out) {
  for (int r = 0; r < TILE; r++) out[r] = (realw)0;
  for (index_t from = 0; from < m; from += DEPTH) {
    const int depth = (int)min(m - from, (index_t)DEPTH);
    if (m > DEPTH) take_panel(b + from, m, columns, depth, panel);
    add_terms(a + from, m, rows, depth, panel, out);
  }
  for (int r = 0; r < TILE; r++) out[r] = sqrt(out[r]);
}

__kernel void distance_products(const __global STORAGE(TYPE) * a, const long a_offset,
                                const __global STORAGE(TYPE) * b, const long b_offset,
                                __global STORAGE(TYPE) * out, const long out_offset,
                                const index_t items, const index_t n_a, const index_t n_b,
                                const index_t m) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t width = VECTORS * W, strips = (n_b + width - 1) / width,
                chunks = (n_a + CHUNK - 1) / CHUNK, j = item % strips * width,
                i = item / strips % chunks * CHUNK, batch = item / strips / chunks;
  const int rows = (int)min(n_a - i, (index_t)CHUNK), columns = (int)min(n_b - j, width),
            panels = (columns + W - 1) / W;
  realw panel[VECTORS][DEPTH], sums[CHUNK][VECTORS], squares[VECTORS];
  a += a_offset + (batch * n_a + i) * m;
  b += b_offset + (batch * n_b + j) * m;
  out += out_offset + (batch * n_a + i) * n_b + j;
  for (int v = 0; v < VECTORS; v++) squares[v] = (realw)0;
  for (int r = 0; r < CHUNK; r++)
    for (int v = 0; v < VECTORS; v++) sums[r][v] = (realw)0;
  for (index_t from = 0; from < m; from += DEPTH) {
    const int depth = (int)min(m - from, (index_t)DEPTH);
    for (int v = 0; v < panels; v++) {
      take_panel(b + v * W * m + from, m, columns - v * W, depth, panel[v]);
      for (int k = 0; k < depth; k++) squares[v] = FMA(panel[v][k], panel[v][k], squares[v]);
    }
    for (int v = panels; v < VECTORS; v++)
      for (int k = 0; k < depth; k++) panel[v][k] = (realw)0;
    for (int r = 0; r < rows; r += TILE)
      add_products(a + r * m + from, m, rows - r, depth, panel, sums + r);
  }
  for (int r = 0; r < rows; r += TILE) {
    const int some = min(rows - r, TILE);
    real squares_a[TILE];
    for (int l = 0; l < some; l++) squares_a[l] = squares_of(a + (r + l) * m, m);
    for (int v = 0; v < panels; v++) {
      __global STORAGE(TYPE) *to = out + r * n_b + v * W;
      realw again[TILE];
      int16 near = (int16)0;
      for (int l = 0; l < some; l++) {
        const realw all = squares_a[l] + squares[v], root = sqrt(all - 2 * sums[r + l][v]);
        const int16 margin = as_int16(root * root - all * (real)(1 / 16.0));
        near |= margin | (margin + MIN_EXPONENT);
        STORE_SOME(TYPE, to + l * n_b, columns - v * W, root);
      }
      if (!any(near)) continue;
      distances_again(a + r * m, b + v * W * m, m, some, columns - v * W, panel[v], again);
      for (int l = 0; l < some; l++) STORE_SOME(TYPE, to + l * n_b, columns - v * W, again[l]);
    }
  }
}
#endif
#endif
