/* Convolutions of images in float with a 3x3 kernel, stride 1, by winograd.h on CPUs, some rows of
 * tiles at a time.
 *
 * winograd_factors transforms x to factors [group][N * N][block of LANES channels][tile][LANES].
 * The lanes of vectors are channels, so that images with few columns fill them, too. In winograd, a
 * work-item multiplies the factors of a range of the tiles by a panel of winograd_pack.cl, with a
 * tile as a row and an output as a column. The sums [N * N][tile][COLUMNS] stay in local memory.
 * They are then transformed to outputs, with LANES outputs in a vector. */
#include "common.h"
#define B_PACKED 1
#include "gemm_tile.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef LANES
#if WIDTH < 8
#define LANES 8
#else
#define LANES 16
#endif
#endif
#include "winograd.h"

#define load_lanes(p) PASTE(vload, LANES)(0, p)
#define store_lanes(v, p) PASTE(vstore, LANES)(v, 0, p)

/* Swaps lane j of r[i] with lane i of r[j], for all i and j. */
static inline void turn_lanes(lanes r[LANES]) {
#if LANES == 16
  transpose_16(r);
#else
  float some[LANES * LANES], turned[LANES * LANES];
  for (int i = 0; i < LANES; i++) store_lanes(r[i], some + i * LANES);
  for (int i = 0; i < LANES * LANES; i++) turned[i] = some[i % LANES * LANES + i / LANES];
  for (int i = 0; i < LANES; i++) r[i] = load_lanes(turned + i * LANES);
#endif
}

/* ---------------------------------------------------------------- factors */

#define RUN 16 /* tiles of a row that are transformed from one copy of their inputs */
#define SEEN (RUN * TILE + SIDE - 1)

/* Returns LANES floats from `from` on. Only the first n are in memory; the others are 0. */
static inline lanes load_there(const __global float *from, index_t n) {
  if (n >= LANES) return load_lanes(from);
  float some[LANES];
  for (int l = 0; l < LANES; l++) some[l] = l < n ? from[l] : 0;
  return load_lanes(some);
}

/* Transposes n neighbours of `here` channels, `plane` apart, to (n, LANES). Missing channels are 0.
 * there: floats from `from` to the end of the buffer. `to` has space for LANES more than n. */
static inline void turn_row(const __global float *from, index_t plane, int here, int n,
                            index_t there, float *to) {
  for (int k = 0; k < n; k += LANES) {
    const int at = max(min(k, n - LANES), 0);
    lanes r[LANES];
#pragma unroll
    for (int c = 0; c < LANES; c++)
      r[c] = c < here ? load_there(from + c * plane + at, there - c * plane - at) : (lanes)0;
    turn_lanes(r);
#pragma unroll
    for (int i = 0; i < LANES; i++) store_lanes(r[i], to + (at + i) * LANES);
  }
}

static inline void clear_cells(float *to, int n) {
  for (int i = 0; i < n; i++) store_lanes((lanes)0, to + i * LANES);
}

/* Computes a tile's factors, factor_stride apart. from: rows of `width` cells of LANES channels. */
static inline void make_factors(const float *from, int width, __global float *to,
                                index_t factor_stride) {
  lanes half_made[N][N], d[N], f[N];
#pragma unroll
  for (int x = 0; x < N; x++) {
#pragma unroll
    for (int y = 0; y < N; y++) d[y] = load_lanes(from + (y * width + x) * LANES);
    factors_of(d, f);
#pragma unroll
    for (int y = 0; y < N; y++) half_made[y][x] = f[y];
  }
#pragma unroll
  for (int y = 0; y < N; y++) {
    factors_of(half_made[y], f);
#pragma unroll
    for (int x = 0; x < N; x++) store_lanes(f[x], to + (y * N + x) * factor_stride);
  }
}

/* Returns the number of floats from one factor to the next. A factor has blocks of channels that
 * are pitch * LANES apart. One more vector makes factors begin in different cache sets. */
static inline index_t step_of_factors(int channels, index_t pitch) {
  return ((channels + LANES - 1) / LANES * pitch + 1) * LANES;
}

/* Global id 0 selects a row of tiles of [first_row, first_row + rows), global id 1 a block of
 * channels of a group. pitch: number of tiles of the rows, plus one. */
__kernel void winograd_factors(const __global float *x, const long x_offset,
                               __global float *factors, const long factors_offset, const int images,
                               const int groups, TILES_PARAMS) {
  const int row = (int)get_global_id(0), blocks = (channels + LANES - 1) / LANES,
            id = (int)get_global_id(1), group = id / blocks, block = id % blocks,
            here = min(channels - block * LANES, LANES);
  const index_t factor_stride = step_of_factors(channels, pitch),
                size = (index_t)in_rows * in_columns;
  const place p = place_of(first_row + row, 0, tile_rows);
  const index_t first = ((index_t)(p.image * groups + group) * channels + block * LANES) * size,
                end = (index_t)images * groups * channels * size;
  factors += factors_offset + group * FACTORS * factor_stride +
             (block * pitch + (index_t)row * tile_columns) * LANES;
  for (int column = 0; column < tile_columns; column += RUN) {
    float seen[(N * SEEN + LANES) * LANES];
    const int tiles = min(RUN, tile_columns - column), width = tiles * TILE + SIDE - 1,
              x0 = column * TILE - left, before = clamp(-x0, 0, width),
              n = clamp(in_columns - x0, before, width) - before;
    for (int y = 0; y < N; y++) {
      float *to = seen + y * width * LANES;
      const int at = p.row * TILE + y - top, inside = at >= 0 && at < in_rows && n > 0;
      if (!inside) {
        clear_cells(to, width);
        continue;
      }
      const index_t cell = first + (index_t)at * in_columns + x0 + before;
      clear_cells(to, before);
      turn_row(x + x_offset + cell, size, here, n, end - cell, to + before * LANES);
      clear_cells(to + (before + n) * LANES, width - before - n);
    }
    for (int i = 0; i < tiles; i++, factors += LANES)
      make_factors(seen + i * TILE * LANES, width, factors, factor_stride);
  }
}

/* ---------------------------------------------------------------- products */

#if WIDTH == 16
#define MAX_ROWS 12 /* uses 24 of 32 registers */
#else
#define MAX_ROWS ROWS
#endif
#define DEEP 64 /* channels whose weights of a panel fit the first-level cache */

/* sums (rows, COLUMNS) = a factor of `rows` tiles at a by n channels of the weight at b; adds: +=
 * instead of =. Blocks of channels, a_stride apart, are summed separately, which keeps rounding
 * errors small. Each channel prefetches next_stride floats from `next` on, which advances by as
 * many. */
static inline void multiply_rows(__global const float *a, index_t a_stride, __global const float *b,
                                 int n, __global const float *next, int next_stride,
                                 __local float *sums, int adds, const int rows) {
  for (int k0 = 0; k0 < n; k0 += LANES, a += a_stride) {
    const int deep = min(LANES, n - k0);
    floatw low[MAX_ROWS], high[MAX_ROWS];
#pragma unroll
    for (int r = 0; r < MAX_ROWS; r++) low[r] = high[r] = 0;
    for (int k = 0; k < deep; k++, b += COLUMNS, next += next_stride) {
      const floatw x = vloadw(0, b), y = vloadw(1, b);
      PREFETCH(next);
      if (next_stride > 16) PREFETCH(next + 16); /* the next cache line */
#pragma unroll
      for (int r = 0; r < MAX_ROWS; r++) {
        if (r >= rows) continue;
        const floatw v = (floatw)a[r * LANES + k];
        low[r] = FMA(v, x, low[r]);
        high[r] = FMA(v, y, high[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < MAX_ROWS; r++) {
      if (r >= rows) continue;
      if (adds || k0 > 0) {
        low[r] += vloadw(2 * r, sums);
        high[r] += vloadw(2 * r + 1, sums);
      }
      vstorew(low[r], 2 * r, sums);
      vstorew(high[r], 2 * r + 1, sums);
    }
  }
}

/* Multiplies `count` tiles in strips of about the same even height; an odd count is rounded up.
 * Each strip prefetches its share of the weights of the next DEEP channels. */
static inline void multiply_tiles(__global const float *a, index_t a_stride,
                                  __global const float *b, int channels, int count,
                                  __local float *sums) {
  const int strips = (count + MAX_ROWS - 1) / MAX_ROWS, even = (count + 1) / 2,
            height = (even + strips - 1) / strips * 2, share = (COLUMNS + strips - 1) / strips;
  for (int k = 0; k < channels; k += DEEP, a += DEEP / LANES * a_stride, b += DEEP * COLUMNS)
    for (int i = 0; i < count; i += height) {
      __global const float *from = a + i * LANES;
      __local float *to = sums + i * COLUMNS;
      const int n = min(DEEP, channels - k), adds = k > 0;
      __global const float *next = b + n * COLUMNS + i / height * n * share;
      switch (min(height, 2 * even - i)) {
        case 2:
          multiply_rows(from, a_stride, b, n, next, share, to, adds, 2);
          break;
        case 4:
          multiply_rows(from, a_stride, b, n, next, share, to, adds, 4);
          break;
        case 6:
          multiply_rows(from, a_stride, b, n, next, share, to, adds, 6);
          break;
#if MAX_ROWS >= 8
        case 8:
          multiply_rows(from, a_stride, b, n, next, share, to, adds, 8);
          break;
#endif
#if MAX_ROWS >= 12
        case 10:
          multiply_rows(from, a_stride, b, n, next, share, to, adds, 10);
          break;
        case 12:
          multiply_rows(from, a_stride, b, n, next, share, to, adds, 12);
          break;
#endif
      }
    }
}

/* ---------------------------------------------------------------- outputs */

#define CELLS 16                        /* outputs of a channel that are stored at once */
#define AT_ONCE (CELLS / (TILE * TILE)) /* tiles of these outputs */
#define vloadt PASTE(vload, TILE)
#define vstoret PASTE(vstore, TILE)

/* Tiles [first, first + count) of all images, row by row. */
typedef struct tile_range {
  int first, count;
  int rows, columns; /* tiles of an image */
} tile_range;

static inline place tile_of(const tile_range *p, int tile) {
  tile += p->first;
  return place_of(tile / p->columns, tile % p->columns, p->rows);
}

/* Transposes outputs (LANES) of CELLS cells to [lane][cell]. */
static inline void turn_cells(lanes cells[CELLS], float turned[LANES * CELLS]) {
  for (int h = 0; h < CELLS; h += LANES) {
    turn_lanes(cells + h);
    for (int i = 0; i < LANES; i++) store_lanes(cells[h + i], turned + i * CELLS + h);
  }
}

/* Stores the outputs (TILE, TILE) of a tile, except outputs beyond the image. */
static inline void store_tile(__global float *plane, const image *s, const place *p,
                              const float *cells) {
  const int y0 = p->row * TILE, x0 = p->column * TILE, rows = min(TILE, s->out_rows - y0),
            columns = min(TILE, s->out_columns - x0);
  plane += (index_t)y0 * s->out_columns + x0;
  for (int y = 0; y < rows; y++, plane += s->out_columns, cells += TILE) {
    if (columns == TILE)
      vstoret(vloadt(0, cells), 0, plane);
    else
      for (int x = 0; x < columns; x++) plane[x] = cells[x];
  }
}

/* Computes the outputs of a tile, whose sums are `stride` apart. */
static inline void make_cells(const __local float *sums, int stride, lanes bias,
                              lanes cells[TILE * TILE], lanes *check) {
  lanes half_made[TILE][N], s[N], y[TILE];
#pragma unroll
  for (int x = 0; x < N; x++) {
#pragma unroll
    for (int i = 0; i < N; i++) s[i] = load_lanes(sums + (i * N + x) * stride);
    outputs_of(s, y);
#pragma unroll
    for (int i = 0; i < TILE; i++) half_made[i][x] = y[i];
  }
#pragma unroll
  for (int i = 0; i < TILE; i++) {
    outputs_of(half_made[i], y);
#pragma unroll
    for (int x = 0; x < TILE; x++) *check += cells[i * TILE + x] = y[x] + bias;
  }
}

/* Stores the tiles of a range for LANES outputs, `here` of which exist. out: plane of the first one
 * in the first image. check: a sum per output that is not finite if one of its cells is not. */
static inline void store_outputs(const tile_range *t, const image *s, const __local float *sums,
                                 int stride, __global float *out, index_t image_stride, int here,
                                 lanes bias, float check[LANES]) {
  const index_t plane = (index_t)s->out_rows * s->out_columns;
  lanes seen = 0;
  for (int first = 0; first < t->count; first += AT_ONCE) {
    lanes cells[CELLS];
    float turned[LANES * CELLS];
    const int some = min(AT_ONCE, t->count - first);
    for (int k = 0; k < AT_ONCE; k++)
      make_cells(sums + min(first + k, t->count - 1) * COLUMNS, stride, bias,
                 cells + k * TILE * TILE, &seen);
    turn_cells(cells, turned);
    for (int k = 0; k < some; k++) {
      const place p = tile_of(t, first + k);
      __global float *to = out + p.image * image_stride;
      for (int l = 0; l < here; l++)
        store_tile(to + l * plane, s, &p, turned + l * CELLS + k * TILE * TILE);
    }
  }
  store_lanes(seen, check);
}

/* Recomputes the tiles of an output that are not finite; called if its check is not finite. x,
 * weight, out: in the first image. */
static inline void recompute_outputs(const tile_range *t, const image *s, const __global float *x,
                                     index_t x_stride, const __global float *weight, float bias,
                                     __global float *out, index_t image_stride) {
  for (int tile = 0; tile < t->count; tile++) {
    const place p = tile_of(t, tile);
    if (!tile_is_finite(out + p.image * image_stride, s, &p))
      make_directly(x + p.image * x_stride, weight, bias, out + p.image * image_stride, s, &p);
  }
}

/* Tiles of a range from `tile` on whose outputs are `rows` rows of `cells` neighbours; at: their
 * offset in the images of an output. Whole rows of tiles form one row. */
typedef struct run {
  int tiles, rows, cells;
  index_t at;
} run;

static inline run run_of(const tile_range *t, const image *s, int tile, index_t image_stride) {
  const place p = tile_of(t, tile);
  const int y = p.row * TILE, x = p.column * TILE, left = t->count - tile;
  run r = {.at = p.image * image_stride + (index_t)y * s->out_columns + x};
  if (p.column == 0 && left >= t->columns) {
    const int rows = min(left / t->columns, t->rows - p.row);
    r.tiles = rows * t->columns;
    r.rows = 1;
    r.cells = min(rows * TILE, s->out_rows - y) * s->out_columns;
  } else {
    r.tiles = min(left, t->columns - p.column);
    r.rows = min(TILE, s->out_rows - y);
    r.cells = min(r.tiles * TILE, s->out_columns - x);
  }
  return r;
}

/* Applies the epilogue to the cells of a range, of one output. out: the output's plane in the first
 * image. cell: number of the plane's first element in out. */
#define EPILOGUE_TILES(t, s, out, cell, image_stride)            \
  for (int i_ = 0; i_ < (t).count;) {                            \
    const run r_ = run_of(&(t), &(s), i_, image_stride);         \
    for (int y_ = 0; y_ < r_.rows; y_++) {                       \
      const index_t at_ = r_.at + (index_t)y_ * (s).out_columns; \
      EPILOGUE((out) + at_, (cell) + at_, r_.cells);             \
    }                                                            \
    i_ += r_.tiles;                                              \
  }

/* Global id 0 selects tiles_at_once tiles of the rows [first_row, first_row + rows), global id 1 a
 * panel of a group. sums: FACTORS * (tiles_at_once * COLUMNS + LANES), tiles_at_once even. */
__kernel void winograd(IMAGES_PARAMS, const __global float *factors, const long factors_offset,
                       const __global float *packed, const long packed_offset, const int rows,
                       const int tiles_at_once, TILES_PARAMS, __local float *sums) {
  const image s = {channels, n_outputs, in_rows, in_columns, out_rows, out_columns, top, left};
  const int panels = (n_outputs + COLUMNS - 1) / COLUMNS, panel = (int)get_global_id(1),
            group = panel / panels, stride = tiles_at_once * COLUMNS + LANES,
            tile = (int)get_global_id(0) * tiles_at_once;
  const tile_range t = {first_row * tile_columns + tile,
                        min(tiles_at_once, rows * tile_columns - tile), tile_rows, tile_columns};
  const index_t factor_stride = step_of_factors(channels, pitch);
  factors += factors_offset + group * FACTORS * factor_stride + (index_t)tile * LANES;
  packed += packed_offset + (long)panel * FACTORS * channels * COLUMNS;
  for (int f = 0; f < FACTORS; f++)
    multiply_tiles(factors + f * factor_stride, pitch * LANES,
                   packed + (long)f * channels * COLUMNS, channels, t.count, sums + f * stride);
  const index_t plane = (index_t)out_rows * out_columns, image_stride = groups * n_outputs * plane,
                x_plane = (index_t)in_rows * in_columns;
  const int last = min((panel % panels + 1) * COLUMNS, n_outputs);
  x += x_offset + (index_t)group * channels * x_plane;
  for (int o = panel % panels * COLUMNS; o < last; o += LANES) {
    const int here = min(LANES, last - o), output = group * n_outputs + o;
    float shift[LANES], check[LANES];
    for (int l = 0; l < LANES; l++)
      shift[l] = HAS_BIAS && l < here ? bias[bias_offset + output + l] : 0;
    __global float *to = out + out_offset + output * plane;
    store_outputs(&t, &s, sums + o % COLUMNS, stride, to, image_stride, here, load_lanes(shift),
                  check);
    for (int l = 0; l < here; l++) {
      if (!is_finite(check[l]))
        recompute_outputs(&t, &s, x, groups * channels * x_plane,
                          weight + weight_offset + (long)(output + l) * channels * SIDE * SIDE,
                          shift[l], to + l * plane, image_stride);
      EPILOGUE_TILES(t, s, to + l * plane, (output + l) * plane, image_stride);
    }
  }
}
