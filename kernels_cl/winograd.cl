/* Convolutions of images in float with a 3x3 kernel, stride 1, by winograd.h on CPUs, the tiles of
 * some rows at a time.
 *
 * winograd_factors makes factors [group][N * N][channel][tile] of x, LANES tiles of a row at once.
 * In winograd, a work-item multiplies those of a part of the tiles by a panel of winograd_pack.cl,
 * as gemm_tile.h does, a tile as a row and an output as a column: sums [N * N][tile][COLUMNS] stay
 * in local memory. They become outputs with COLUMNS or 16 of them in the lanes of a vector. */
#include "common.h"
#define B_PACKED 1
#define CHAIN 16 /* keeps rounding errors small, which make most of the method's own */
#define SUMS_SPACE __local
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
#include "padded_row.h"
#include "winograd.h"

#define load_lanes(p) PASTE(vload, LANES)(0, p)
#define store_lanes(v, p) PASTE(vstore, LANES)(v, 0, p)

/* ---------------------------------------------------------------- factors */

#define SPAN ((TILE + 1) * LANES) /* columns that LANES tiles see, and more */

/* Every TILE-th of TILE * LANES neighbours, from the first one on. */
static inline lanes load_tiles(const float *row) {
#if TILE == 2
  return (lanes)(load_lanes(row).even, load_lanes(row + LANES).even);
#elif LANES == 16
  return (lanes)(vload16(0, row).s048c, vload16(1, row).s048c, vload16(2, row).s048c,
                 vload16(3, row).s048c);
#else
  return (lanes)(vload16(0, row).s048c, vload16(1, row).s048c);
#endif
}

/* Factors of a row of what columns made, of LANES tiles, factor_step apart. */
static inline void store_factors(const float *row, __global float *to, index_t factor_step) {
  lanes d[N], f[N];
#pragma unroll
  for (int x = 0; x < N; x++) d[x] = load_tiles(row + x);
  factors_of(d, f);
#pragma unroll
  for (int x = 0; x < N; x++) store_lanes(f[x], to + x * factor_step);
}

/* What the first `width` columns of rows make, LANES or more. */
static inline void make_columns(const float in[N][SPAN + COPY], int width,
                                float to[N][SPAN + COPY]) {
  for (int v = 0; v < width; v += LANES) {
    lanes d[N], f[N];
#pragma unroll
    for (int y = 0; y < N; y++) d[y] = load_lanes(in[y] + v);
    factors_of(d, f);
#pragma unroll
    for (int y = 0; y < N; y++) store_lanes(f[y], to[y] + v);
  }
}

/* A work-item makes those of one channel of a group, of rows [first_row, first_row + rows); pitch:
 * LANES more than a channel has tiles. */
__kernel void winograd_factors(const __global float *x, const long x_offset,
                               __global float *factors, const long factors_offset,
                               const index_t items, const int rows, TILES_PARAMS) {
  const index_t item = (index_t)get_global_id(0), factor_step = channels * pitch,
                size = (index_t)in_rows * in_columns;
  if (item >= items) return;
  x += x_offset;
  factors += factors_offset + (item / channels * FACTORS * channels + item % channels) * pitch;
  for (int row = first_row; row < first_row + rows; row++) {
    const place p = place_of(row, 0, tile_rows);
    const __global float *plane = x + (p.image * items + item) * size;
    for (int column = 0; column < tile_columns; column += LANES) {
      float in[N][SPAN + COPY], columns[N][SPAN + COPY];
      const int first = column * TILE - left, from = max(first, 0),
                width = min(LANES, tile_columns - column) * TILE + SIDE - 1,
                before = clamp(-first, 0, width), n = clamp(in_columns - from, 0, width - before);
      for (int y = 0; y < N; y++) {
        const int at = p.row * TILE + y - top, inside = at >= 0 && at < in_rows && n > 0;
        const index_t cell = inside ? (index_t)at * in_columns + from : 0;
        copy_row(in[y], plane + cell, inside ? before : 0, inside ? n : 0, size - cell, width);
      }
      make_columns(in, width, columns);
      for (int y = 0; y < N; y++)
        store_factors(columns[y], factors + y * N * factor_step + column, factor_step);
    }
    factors += tile_columns;
  }
}

/* ---------------------------------------------------------------- outputs */

#define CELLS 16                        /* outputs of a channel that are stored at once */
#define AT_ONCE (CELLS / (TILE * TILE)) /* their tiles */
#define vloadt PASTE(vload, TILE)
#define vstoret PASTE(vstore, TILE)

/* A part of the tiles: neighbours in a row, or whole rows. */
typedef struct part {
  int row, column; /* of the first tile */
  int columns;     /* tiles of a row, all that there are or are of the part */
  int count;       /* tiles */
  int tile_rows;   /* of an image */
} part;

static inline place tile_of(const part *p, int tile) {
  return place_of(p->row + tile / p->columns, p->column + tile % p->columns, p->tile_rows);
}

/* Outputs (LANES) of CELLS cells to [lane][cell]. */
static inline void turn_cells(lanes cells[CELLS], float turned[LANES * CELLS]) {
#if LANES == 16
  transpose_16(cells);
  for (int i = 0; i < LANES; i++) vstore16(cells[i], i, turned);
#else
  float some[CELLS * LANES];
  for (int i = 0; i < CELLS; i++) store_lanes(cells[i], some + i * LANES);
  for (int i = 0; i < LANES * CELLS; i++) turned[i] = some[i % CELLS * LANES + i / CELLS];
#endif
}

/* The outputs (TILE, TILE) of a tile, but for those beyond the image. */
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

/* The outputs of a tile, whose sums are `step` apart. */
static inline void make_cells(const __local float *sums, int step, lanes bias,
                              lanes cells[TILE * TILE], lanes *check) {
  lanes half_made[TILE][N], s[N], y[TILE];
#pragma unroll
  for (int x = 0; x < N; x++) {
#pragma unroll
    for (int i = 0; i < N; i++) s[i] = load_lanes(sums + (i * N + x) * step);
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

/* Of LANES outputs, `here` of which there are, all tiles of a part. out: the first one's plane in
 * the first image. check: becomes infinite or no number where an output is. */
static inline void store_outputs(const part *t, const image *s, const __local float *sums, int step,
                                 __global float *out, index_t image_step, int here, lanes bias,
                                 float check[LANES]) {
  const index_t plane = (index_t)s->out_rows * s->out_columns;
  lanes seen = 0;
  for (int first = 0; first < t->count; first += AT_ONCE) {
    lanes cells[CELLS];
    float turned[LANES * CELLS];
    const int some = min(AT_ONCE, t->count - first);
    for (int k = 0; k < AT_ONCE; k++)
      make_cells(sums + min(first + k, t->count - 1) * COLUMNS, step, bias, cells + k * TILE * TILE,
                 &seen);
    turn_cells(cells, turned);
    for (int k = 0; k < some; k++) {
      const place p = tile_of(t, first + k);
      __global float *to = out + p.image * image_step;
      for (int l = 0; l < here; l++)
        store_tile(to + l * plane, s, &p, turned + l * CELLS + k * TILE * TILE);
    }
  }
  store_lanes(seen, check);
}

/* An output of a part whose check is not finite. x, weight, out: in the first image. */
static inline void mend(const part *t, const image *s, const __global float *x, index_t x_step,
                        const __global float *weight, float bias, __global float *out,
                        index_t image_step) {
  for (int tile = 0; tile < t->count; tile++) {
    const place p = tile_of(t, tile);
    if (!tile_is_finite(out + p.image * image_step, s, &p))
      make_directly(x + p.image * x_step, weight, bias, out + p.image * image_step, s, &p);
  }
}

/* The epilogue of what a part has of one output; cell: the number in out of its plane in the first
 * image, which lies at `out`. */
#ifdef EPILOGUE_RANK
#define EPILOGUE_PART(t, s, out, cell, image_step)                                              \
  for (int i_ = 0, n_; i_ < (t).count; i_ += n_) {                                              \
    const place p_ = tile_of(&(t), i_);                                                         \
    const int first_ = p_.row * TILE * (s).out_columns + p_.column * TILE,                      \
              whole_ = p_.column == 0 && (t).columns * TILE >= (s).out_columns,                 \
              rows_ = whole_ ? min(((t).count - i_) / (t).columns, (t).tile_rows - p_.row) : 1, \
              cells_y_ = min(rows_ * TILE, (s).out_rows - p_.row * TILE),                       \
              cells_x_ = min((t).columns * TILE, (s).out_columns - p_.column * TILE);           \
    const index_t at_ = p_.image * (image_step) + first_;                                       \
    n_ = rows_ * (t).columns;                                                                   \
    for (int y_ = 0; y_ < (whole_ ? 1 : cells_y_); y_++)                                        \
      EPILOGUE((out) + at_ + y_ * (s).out_columns, (cell) + at_ + y_ * (s).out_columns,         \
               whole_ ? cells_y_ * (s).out_columns : cells_x_);                                 \
  }
#else
#define EPILOGUE_PART(t, s, out, cell, image_step)
#endif

/* Global ids: a part, (part_rows, part_columns) tiles of rows [first_row, first_row + rows), and a
 * panel. part_tiles: tiles whose sums there is room for, a multiple of ROWS. */
__kernel void winograd(IMAGES_PARAMS, const __global float *factors, const long factors_offset,
                       const __global float *packed, const long packed_offset, const int rows,
                       const int part_rows, const int part_columns, const int part_tiles,
                       TILES_PARAMS, __local float *sums) {
  const image s = {channels, n_outputs, in_rows, in_columns, out_rows, out_columns, top, left};
  const int across = (tile_columns + part_columns - 1) / part_columns,
            panels = (n_outputs + COLUMNS - 1) / COLUMNS, id = (int)get_global_id(0),
            panel = (int)get_global_id(1), group = panel / panels,
            step = part_tiles * COLUMNS + LANES;
  const int row = id / across * part_rows, column = id % across * part_columns,
            columns = min(part_columns, tile_columns - column);
  const part t = {first_row + row, column, columns, min(part_rows, rows - row) * columns,
                  tile_rows};
  factors +=
      factors_offset + (long)group * FACTORS * channels * pitch + row * tile_columns + column;
  packed += packed_offset + (long)panel * FACTORS * channels * COLUMNS;
  for (int f = 0; f < FACTORS; f++)
    for (int i = 0; i < t.count; i += ROWS)
      multiply_panels(factors + (long)f * channels * pitch + i, pitch,
                      packed + (long)f * channels * COLUMNS, channels, true,
                      sums + f * step + i * COLUMNS, COLUMNS);
  const index_t plane = (index_t)out_rows * out_columns, image_step = groups * n_outputs * plane,
                x_plane = (index_t)in_rows * in_columns;
  const int last = min((panel % panels + 1) * COLUMNS, n_outputs);
  x += x_offset + (index_t)group * channels * x_plane;
  for (int o = panel % panels * COLUMNS; o < last; o += LANES) {
    const int here = min(LANES, last - o), output = group * n_outputs + o;
    float shift[LANES], check[LANES];
    for (int l = 0; l < LANES; l++)
      shift[l] = HAS_BIAS && l < here ? bias[bias_offset + output + l] : 0;
    __global float *to = out + out_offset + output * plane;
    store_outputs(&t, &s, sums + o % COLUMNS, step, to, image_step, here, load_lanes(shift), check);
    for (int l = 0; l < here; l++) {
      if (!is_finite(check[l]))
        mend(&t, &s, x, groups * channels * x_plane,
             weight + weight_offset + (long)(output + l) * channels * SIDE * SIDE, shift[l],
             to + l * plane, image_step);
      EPILOGUE_PART(t, s, to + l * plane, (output + l) * plane, image_step);
    }
  }
}
