/* The sums of a convolution of integers (conv.cl, INTEGER) as dot products of bytes, four
 * neighbouring elements k of a patch (channel, then tap) at once.
 *
 * conv_dots_planes lays x out padded and by phase, as conv_pad_planes does, as unsigned bytes: of
 * SIGNED x 128 more, which `less` of the weight's form makes up for. Cell (z, y, x) of an image is
 * position (z rows + y) columns + x of its planes, where what a tap sees of neighbouring positions
 * are neighbours. Positions behind the end of a row of outputs are dropped.
 *
 * The weight's form: (n_outputs, words) words of four bytes, zeros behind the last, then `less`
 * (n_outputs): what SIGNED x has too much.
 *
 * conv_dots, on CPUs: a work-item makes `outputs` outputs of TILE positions. It packs their patches
 * as words, DEPTH of them at a time, and multiplies ROWS outputs at once. conv_dots_lanes, on GPUs:
 * LANE_OUTPUTS outputs of one position. */
#include "add_dots.h"
#include "common.h"
#include "phase_row.h"
#define A_SIGNED 1
#define B_SIGNED 0
#define B_SPACE __private
#define ASKED a
#include "amx_bytes.h"
#ifndef SIGNED
#define SIGNED 0
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef OUT_TYPE
#define OUT_TYPE I32
#endif
#define LINE 64 /* positions that are packed at once */
#if AMX_BYTES
#define VECTORS 8
#define DEPTH 96 /* their words are 48 KB, and those of the weight 12 */
#else
#define VECTORS 4
#define DEPTH 160 /* their words are 40 KB, which stay in the second-level cache */
#endif
#define TILE (16 * VECTORS)
#define LANE_OUTPUTS 4
#define MOST_OUTPUTS 64 /* a multiple of ROWS */
#define MOST_TAPS 128
#define MOST_TILES_OUTPUTS 512 /* of a work-item of conv_dots_tiles: 256 KB of sums */
#define FLIP (SIGNED ? 128 : 0)
#ifndef FROM_X
#define FROM_X 0
#endif
#define PACK_FLIP (FROM_X ? FLIP * 0x01010101u : 0u)

/* A work-item writes the words of an output. */
__kernel void conv_dots_weight(const __global char *weight, const long weight_offset,
                               __global int *form, const long form_offset, const index_t items,
                               const int k_size, const int words) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const __global char *from = weight + weight_offset + item * k_size;
  __global int *to = form + form_offset + item * words;
  int sum = 0;
  for (int i = 0; i < words; i++) {
    uint word = 0;
    for (int j = 0; j < 4 && 4 * i + j < k_size; j++) {
      word |= (uint)(uchar)from[4 * i + j] << 8 * j;
      sum += from[4 * i + j];
    }
    to[i] = as_int(word);
  }
  form[form_offset + items * words + item] = FLIP * sum;
}

/* The same as tiles of amx_bytes.h: of each block of BLOCK outputs of a group (zeros behind the
 * last) two tiles for each STEP_BYTES, of which an output's words are a row, or, `turned`, a
 * column. A work-item writes those of an output; items = groups * blocks * BLOCK. */
__kernel void conv_dots_tiles_weight(const __global char *weight, const long weight_offset,
                                     __global int *form, const long form_offset,
                                     const index_t items, const int n_outputs, const int k_size,
                                     const int depth, const int turned) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int blocks = (n_outputs + BLOCK - 1) / BLOCK,
            steps = (k_size + STEP_BYTES - 1) / STEP_BYTES;
  const index_t group = item / (blocks * BLOCK);
  const int output = (int)(item % (blocks * BLOCK)), row = output % SIDE;
  const bool is_there = output < n_outputs;
  const index_t number = group * n_outputs + output;
  const __global char *from = weight + weight_offset + (is_there ? number : 0) * k_size;
  __global int *to = form + form_offset + group * blocks * steps * (2 * TILE_BYTES / 4) +
                     output % BLOCK / SIDE * (TILE_BYTES / 4);
  int sum = 0;
  for (int i = 0; i < steps * SIDE; i++) {
    uint word = 0;
    for (int j = 0; j < 4 && 4 * i + j < k_size && is_there; j++) {
      word |= (uint)(uchar)from[4 * i + j] << 8 * j;
      sum += from[4 * i + j];
    }
    const int step = i / SIDE, before = step / depth * depth, some = min(depth, steps - before),
              tile = before * blocks + output / BLOCK * some + step - before;
    to[tile * (2 * TILE_BYTES / 4) + (turned ? i % SIDE * SIDE + row : row * SIDE + i % SIDE)] =
        as_int(word);
  }
  if (is_there) form[form_offset + items * steps * SIDE + number] = FLIP * sum;
}

/* n neighbours. */
static inline void copy_bytes(const __global uchar *from, int n, __global uchar *to) {
  if (n >= 16) {
    for (int k = 0; k < n; k += 16) {
      const int at = min(k, n - 16);
      vstore16(vload16(0, from + at) ^ (uchar16)FLIP, 0, to + at);
    }
  } else if (n >= 8) {
    const uchar8 last = vload8(0, from + n - 8);
    vstore8(vload8(0, from) ^ (uchar8)FLIP, 0, to);
    vstore8(last ^ (uchar8)FLIP, 0, to + n - 8);
  } else {
    for (int k = 0; k < n; k++) to[k] = from[k] ^ (uchar)FLIP;
  }
}

/* n elements that are `stride` apart. */
static inline void copy_steps(const __global uchar *from, int stride, int n, __global uchar *to) {
  int k = 0;
  for (; stride == 2 && k + 16 < n; k += 16) {
    const uchar16 low = vload16(0, from + 2 * k), high = vload16(1, from + 2 * k);
    vstore16((uchar16)(low.even, high.even) ^ (uchar16)FLIP, 0, to + k);
  }
  for (; k < n; k++) to[k] = from[k * stride] ^ (uchar)FLIP;
}

/* A slice of the planes: item counts images and channels, phases z, y, x, slices. */
__kernel void conv_dots_planes(const __global uchar *x, const long x_offset, __global uchar *planes,
                               const long planes_offset, const index_t items, const int depth,
                               const int rows, const int columns, const int stride_z,
                               const int stride_y, const int stride_x, const int pad_z,
                               const int pad_y, const int pad_x, const int phases_z,
                               const int phases_y, const int phases_x, const int plane_slices,
                               const int plane_rows, const int plane_columns, const int padding) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  index_t i = item / plane_slices;
  int z = (int)(item % plane_slices) * stride_z - pad_z;
  const int first = (int)(i % phases_x) - pad_x;
  i /= phases_x;
  int y = (int)(i % phases_y) - pad_y;
  i /= phases_y;
  z += (int)(i % phases_z);
  i /= phases_z;
  __global uchar *to = planes + planes_offset + item * plane_rows * plane_columns;
  const bool inside = z >= 0 && z < depth;
  const uchar around = (uchar)(padding ^ FLIP);
  const phase_row r = phase_row_of(first, stride_x, columns, plane_columns);
  const __global uchar *slice =
      x + x_offset + (i * depth + (inside ? z : 0)) * (index_t)rows * columns + first;
  for (int k = 0; k < plane_rows; k++, y += stride_y, to += plane_columns) {
    const bool is_there = inside && y >= 0 && y < rows;
    const int begin = is_there ? r.begin : plane_columns, n = r.end - r.begin;
    for (int c = 0; c < begin; c++) to[c] = around;
    if (!is_there) continue;
    if (stride_x == 1)
      copy_bytes(slice + (index_t)y * columns + begin, n, to + begin);
    else
      copy_steps(slice + (index_t)y * columns + begin * stride_x, stride_x, n, to + begin);
    for (int c = r.end; c < plane_columns; c++) to[c] = around;
  }
}

/* What both kernels are told of the planes, the outputs and the taps. */
#define GEOMETRY_PARAMS                                                                            \
  const int groups, const int n_outputs, const int channels, const int words, const int positions, \
      const int plane_bytes, const int phase_bytes, const int plane_rows, const int plane_columns, \
      const int out_depth, const int out_rows, const int out_columns, const int kernel_z,          \
      const int kernel_y, const int kernel_x, const int stride_z, const int stride_y,              \
      const int stride_x, const int dilation_z, const int dilation_y, const int dilation_x,        \
      const int phases_y, const int phases_x

/* How far what a tap sees is from its position. */
static inline int tap_at(int z, int y, int x, int phase_bytes, int plane_rows, int plane_columns,
                         int stride_z, int stride_y, int stride_x, int phases_y, int phases_x) {
  const int phase = (z % stride_z * phases_y + y % stride_y) * phases_x + x % stride_x;
  return phase * phase_bytes + (z / stride_z * plane_rows + y / stride_y) * plane_columns +
         x / stride_x;
}
#define EACH_TAP(taps)                                                                            \
  for (int z_ = 0, t_ = 0; z_ < kernel_z; z_++)                                                   \
    for (int y_ = 0; y_ < kernel_y; y_++)                                                         \
      for (int x_ = 0; x_ < kernel_x; x_++)                                                       \
  taps[t_++] = tap_at(z_ * dilation_z, y_ * dilation_y, x_ * dilation_x, phase_bytes, plane_rows, \
                      plane_columns, stride_z, stride_y, stride_x, phases_y, phases_x)

/* The row of outputs that a position is in: its first output's number of a channel, and where. */
typedef struct cell {
  int first, column;
  bool inside;
} cell;
static inline cell cell_of(int position, int plane_rows, int plane_columns, int out_rows,
                           int out_columns) {
  const int row = position / plane_columns, y = row % plane_rows, z = row / plane_rows;
  const cell c = {(z * out_rows + y) * out_columns, position % plane_columns, y < out_rows};
  return c;
}

/* ------------------------------------------------------------------ on CPUs */

/* What the next elements of a patch are read from. */
typedef struct walk {
  const __global uchar *plane; /* of the channel, at the tile's first position */
  const __global uchar *end;   /* of all planes */
  int tap, left;               /* elements that there are */
} walk;

static inline const __global uchar *next_row(walk *w, const int *taps, int n_taps,
                                             int plane_bytes) {
  const __global uchar *row = w->plane + taps[w->tap];
  if (w->left > 1) w->tap++; /* behind the last, times 0: the same again */
  w->left--;
  if (w->tap == n_taps) {
    w->tap = 0;
    w->plane += plane_bytes;
  }
  return row;
}

/* LINE words of four rows, from position `at` on. */
#define JOIN_ROWS(r, at, to)                                                                    \
  _Pragma("unroll") for (int v = 0; v < LINE / 16; v++) vstore16(                               \
      (convert_uint16(vload16(v, r[0] + (at))) | convert_uint16(vload16(v, r[1] + (at))) << 8 | \
       convert_uint16(vload16(v, r[2] + (at))) << 16 |                                          \
       convert_uint16(vload16(v, r[3] + (at))) << 24) ^                                         \
          PACK_FLIP,                                                                            \
      v, to)

#if DOTS == DOTS_AVX512_VNNI
/* Dwords 4 q + v of the lines are bytes 4 (4 v + q) and on of the rows, so that pairs of bytes and
 * of words, which are joined in each quarter, lie in order. */
static inline uint16 load_line(const __global uchar *row) {
  const uint16 order = (uint16)(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  uint16 line;
  __asm__("vpermd (%1), %2, %0" : "=v"(line) : "r"(row), "v"(order));
  return line;
}
#define JOIN(how, a, b, to) __asm__("vpunpck" how " %2, %1, %0" : "=v"(to) : "v"(a), "v"(b))
static inline void join_rows(const __global uchar *const r[4], int at, uint *to) {
  uint16 line[4], pair[4], words[4];
#pragma unroll
  for (int j = 0; j < 4; j++) line[j] = load_line(r[j] + at);
  JOIN("lbw", line[0], line[1], pair[0]);
  JOIN("lbw", line[2], line[3], pair[1]);
  JOIN("hbw", line[0], line[1], pair[2]);
  JOIN("hbw", line[2], line[3], pair[3]);
  JOIN("lwd", pair[0], pair[1], words[0]);
  JOIN("hwd", pair[0], pair[1], words[1]);
  JOIN("lwd", pair[2], pair[3], words[2]);
  JOIN("hwd", pair[2], pair[3], words[3]);
#pragma unroll
  for (int v = 0; v < 4; v++) vstore16(words[v] ^ PACK_FLIP, v, to);
}
#else
static inline void join_rows(const __global uchar *const r[4], int at, uint *to) {
  JOIN_ROWS(r, at, to);
}
#endif

/* Rows that end behind all planes: what there is of them. */
static inline void join_last(const __global uchar *const r[4], const __global uchar *end, int at,
                             uint *to) {
  uchar copies[4][LINE];
  const uchar *rows[4];
  for (int j = 0; j < 4; j++) {
    const int n = min((int)(end - r[j]) - at, LINE);
    for (int i = 0; i < LINE; i++) copies[j][i] = i < n ? r[j][at + i] : 0;
    rows[j] = copies[j];
  }
  JOIN_ROWS(rows, 0, to);
}

/* to (n, TILE) = the next n words of the patches of `positions` positions, or more. */
static inline void pack_words(walk *w, int n, const int *taps, int n_taps, int plane_bytes,
                              int positions, uint *to) {
  const int need = (positions + LINE - 1) / LINE * LINE;
  for (int i = 0; i < n; i++, to += TILE) {
    const __global uchar *r[4];
    for (int j = 0; j < 4; j++) r[j] = next_row(w, taps, n_taps, plane_bytes);
    const bool is_last = w->end - r[3] < need || w->end - r[2] < need || w->end - r[1] < need ||
                         w->end - r[0] < need;
    for (int at = 0; at < need; at += LINE) {
      if (is_last)
        join_last(r, w->end, at, to + at);
      else
        join_rows(r, at, to + at);
    }
  }
}

#define WORDS_SPACE __private
#include "dots_rows.h"

/* Runs of a tile's positions that are outputs, which follow each other in out. */
typedef struct runs {
  int n, outputs, first; /* outputs of all; the first one's number of a channel */
  uchar from[TILE], size[TILE];
} runs;

static inline void find_runs(runs *u, int begin, int end, int plane_rows, int plane_columns,
                             int out_rows, int out_columns) {
  u->n = u->outputs = u->first = 0;
  for (int p = begin, m; p < end; p += m) {
    const cell c = cell_of(p, plane_rows, plane_columns, out_rows, out_columns);
    m = min(plane_columns - c.column, end - p);
    const int kept = c.inside ? min(m, out_columns - c.column) : 0;
    if (kept <= 0) continue;
    if (u->n == 0) u->first = c.first + c.column;
    u->from[u->n] = (uchar)(p - begin);
    u->size[u->n++] = (uchar)kept;
    u->outputs += kept;
  }
}

/* to: the sums of the runs, without what lies between them, and room for a vector. */
static inline void join_runs(const runs *u, const int *sums, int *to) {
  for (int i = 0; i < u->n; i++) {
    for (int k = 0; k < u->size[i]; k += 16) vstore16(vload16(0, sums + u->from[i] + k), 0, to + k);
    to += u->size[i];
  }
}

/* The runs' sums (some, TILE) of outputs, the first of which is number `number` of out and lies at
 * y. */
#define STORE_OUTPUTS(runs, sums, some, number, y)                                 \
  for (int o_ = 0; o_ < (some) && (runs)->n > 0; o_++) {                           \
    int joined_[TILE + 16];                                                        \
    const int *made_ = (sums) + o_ * TILE + (runs)->from[0];                       \
    if ((runs)->n > 1) {                                                           \
      join_runs(runs, (sums) + o_ * TILE, joined_);                                \
      made_ = joined_;                                                             \
    }                                                                              \
    STORE_RESULT((y) + o_ * (index_t)cells, made_, (number) + o_ * (index_t)cells, \
                 (runs)->outputs);                                                 \
  }

/* planes: FROM_X, x itself; else behind the last are TILE bytes more. items = images * groups *
 * blocks of outputs * tiles, the tiles of a block side by side. */
__kernel void conv_dots(const __global uchar *planes, const long planes_offset,
                        const __global int *form, const long form_offset, const __global int *bias,
                        const long bias_offset, __global STORAGE(OUT_TYPE) * out,
                        const long out_offset, const index_t items, const int outputs,
                        GEOMETRY_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int tiles = (positions + TILE - 1) / TILE, blocks = (n_outputs + outputs - 1) / outputs;
  const int tile = (int)(item % tiles), block = (int)(item / tiles % blocks);
  const index_t plane = item / tiles / blocks; /* of all groups of all images */
  const int first = (int)(plane % groups) * n_outputs + block * outputs,
            n = min(outputs, n_outputs - block * outputs), n_taps = kernel_z * kernel_y * kernel_x,
            cells = out_depth * out_rows * out_columns, begin = tile * TILE,
            end = min(begin + TILE, positions);
  int taps[MOST_TAPS], sums[MOST_OUTPUTS * TILE + 16];
  uint patches[DEPTH * TILE];
  EACH_TAP(taps);
  form += form_offset;
  planes += planes_offset;
  const __global int *less = form + (index_t)groups * n_outputs * words;
  walk w = {planes + plane * channels * plane_bytes + begin,
            planes + items / tiles / blocks * channels * plane_bytes + (FROM_X ? 0 : TILE), 0,
            channels * n_taps};
  for (int at = 0; at == 0 || at < words; at += DEPTH) { /* without words: what sums begin with */
    const int depth = min(DEPTH, words - at);
    pack_words(&w, depth, taps, n_taps, plane_bytes, end - begin, patches);
    for (int o = 0; o < n; o += ROWS) {
      const __global int *rows[ROWS];
      int starts[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const int row = first + min(o + r, n - 1);
        rows[r] = form + (index_t)row * words + at;
        starts[r] = (HAS_BIAS ? bias[bias_offset + row] : 0) - less[row];
      }
      if (end - begin <= 16)
        multiply_words(depth, rows, patches, at == 0 ? starts : 0, sums + o * TILE, 1);
      else
        multiply_words(depth, rows, patches, at == 0 ? starts : 0, sums + o * TILE, VECTORS);
    }
  }
  runs u;
  find_runs(&u, begin, end, plane_rows, plane_columns, out_rows, out_columns);
  const index_t number = (plane / groups * groups * n_outputs + first) * (index_t)cells + u.first;
  STORE_OUTPUTS(&u, sums, n, number, out + out_offset + number);
}

/* As conv_dots, by amx_bytes.h: blocks of the weight's tiles (conv_dots_tiles_weight) by the words
 * of patches. Sums of more than DEPTH words are kept, of at most MOST_TILES_OUTPUTS outputs. */
__kernel void conv_dots_tiles(const __global uchar *planes, const long planes_offset,
                              const __global int *form, const long form_offset,
                              const __global int *bias, const long bias_offset,
                              __global STORAGE(OUT_TYPE) * out, const long out_offset,
                              const index_t items, const int outputs, GEOMETRY_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int tiles = (positions + TILE - 1) / TILE, blocks = (n_outputs + outputs - 1) / outputs;
  const int tile = (int)(item % tiles), block = (int)(item / tiles % blocks);
  const index_t plane = item / tiles / blocks; /* of all groups of all images */
  const int first = (int)(plane % groups) * n_outputs + block * outputs,
            n = min(outputs, n_outputs - block * outputs), n_taps = kernel_z * kernel_y * kernel_x,
            cells = out_depth * out_rows * out_columns, begin = tile * TILE,
            end = min(begin + TILE, positions), steps = (words + SIDE - 1) / SIDE,
            of_group = (n_outputs + BLOCK - 1) / BLOCK;
  const long step_words = 2 * TILE_BYTES / 4, group_words = of_group * steps * step_words;
  int taps[MOST_TAPS], starts[BLOCK * SIDE], sums[MOST_TILES_OUTPUTS * TILE + 16];
  uint patches[DEPTH * TILE];
  EACH_TAP(taps);
  form += form_offset;
  planes += planes_offset;
  const __global int *less = form + groups * group_words;
  form += plane % groups * group_words;
  walk w = {planes + plane * channels * plane_bytes + begin,
            planes + items / tiles / blocks * channels * plane_bytes + (FROM_X ? 0 : TILE), 0,
            channels * n_taps};
  runs u;
  find_runs(&u, begin, end, plane_rows, plane_columns, out_rows, out_columns);
  const tile_strides of_weight = {STEP_BYTES, TILE_BYTES, 2 * TILE_BYTES},
                     of_patches = {4 * TILE, 4 * SIDE, SIDE * 4 * TILE};
  amx_bytes_begin();
  for (int at = 0; at < words; at += DEPTH, form += of_group * (DEPTH / SIDE) * step_words) {
    const int depth = min(DEPTH, words - at), n_steps = (depth + SIDE - 1) / SIDE,
              ask = n_steps * 2 * TILE_BYTES;
    pack_words(&w, depth, taps, n_taps, plane_bytes, end - begin, patches);
    for (int i = depth * VECTORS; i < n_steps * SIDE * VECTORS; i++)
      vstore16((uint16)0, i, patches);
    for (int o = 0; o < n; o += BLOCK) {
      const int some = min(BLOCK, n - o);
      int *made = sums + (words > DEPTH ? o * TILE : 0);
      for (int r = 0; r < BLOCK && at == 0; r++) {
        const int row = first + o + min(r, some - 1);
        vstore16((int16)((HAS_BIAS ? bias[bias_offset + row] : 0) - less[row]), r, starts);
      }
      for (int p = 0; p < end - begin; p += BLOCK) {
        const sums_source from = {at == 0 ? starts : made + p, at == 0 ? SIDE : TILE,
                                  at == 0 ? 0 : SIDE};
        const __global int *a = form + (block * outputs + o) / BLOCK * n_steps * step_words;
        add_blocks(n_steps, (const __global uchar *)a, of_weight, (const uchar *)(patches + p),
                   of_patches, from, made + p, TILE, p == 0 ? ask : 0);
      }
      if (at + depth < words) continue;
      const index_t number =
          (plane / groups * groups * n_outputs + first + o) * (index_t)cells + u.first;
      STORE_OUTPUTS(&u, made, some, number, out + out_offset + number);
    }
  }
  amx_bytes_end();
}

/* ------------------------------------------------------------------ on GPUs */

/* items = images * groups * blocks of LANE_OUTPUTS outputs * positions, positions innermost. */
__kernel void conv_dots_lanes(const __global uchar *planes, const long planes_offset,
                              const __global int *form, const long form_offset,
                              const __global int *bias, const long bias_offset,
                              __global STORAGE(OUT_TYPE) * out, const long out_offset,
                              const index_t items, GEOMETRY_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int position = (int)(item % positions),
            blocks = (n_outputs + LANE_OUTPUTS - 1) / LANE_OUTPUTS;
  const int block = (int)(item / positions % blocks);
  const index_t plane = item / positions / blocks;
  const cell c = cell_of(position, plane_rows, plane_columns, out_rows, out_columns);
  if (!c.inside || c.column >= out_columns) return;
  const int n_taps = kernel_z * kernel_y * kernel_x, k_size = channels * n_taps,
            first = (int)(plane % groups) * n_outputs + block * LANE_OUTPUTS,
            n = min(LANE_OUTPUTS, n_outputs - block * LANE_OUTPUTS),
            cells = out_depth * out_rows * out_columns;
  planes += planes_offset + plane * channels * plane_bytes + position;
  form += form_offset;
  int sum[LANE_OUTPUTS];
#pragma unroll
  for (int o = 0; o < LANE_OUTPUTS; o++) {
    const int row = first + min(o, n - 1);
    sum[o] = (HAS_BIAS ? bias[bias_offset + row] : 0) - form[groups * n_outputs * words + row];
  }
  uint word = 0;
  int k = 0;
  for (int channel = 0; channel < channels; channel++, planes += plane_bytes)
    for (int z = 0; z < kernel_z; z++)
      for (int y = 0; y < kernel_y; y++)
        for (int x = 0; x < kernel_x; x++) {
          const int at =
              tap_at(z * dilation_z, y * dilation_y, x * dilation_x, phase_bytes, plane_rows,
                     plane_columns, stride_z, stride_y, stride_x, phases_y, phases_x);
          word |= (uint)planes[at] << k % 4 * 8;
          k++;
          if (k % 4 != 0 && k < k_size) continue;
#pragma unroll
          for (int o = 0; o < LANE_OUTPUTS; o++)
            sum[o] = add_dot(sum[o], word, form[(first + min(o, n - 1)) * words + (k - 1) / 4]);
          word = 0;
        }
  const index_t number =
      (plane / groups * groups * n_outputs + first) * (index_t)cells + c.first + c.column;
  out += out_offset + number;
  for (int o = 0; o < n; o++)
    STORE_RESULT(out + o * (index_t)cells, sum + o, number + o * (index_t)cells, 1);
}
