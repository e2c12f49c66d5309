/* Convolution of integers (conv.cl, INTEGER) by dot products of four bytes, which are neighbouring
 * elements k of a patch (channel, then tap).
 *
 * conv_dots_planes lays x out padded and by phase, as conv_pad_planes does, as unsigned bytes.
 * SIGNED bytes are biased by 128, for which `less` compensates. Cell (z, y, x) of an image is
 * position (z rows + y) columns + x of its planes. A tap reads neighbouring bytes for neighbouring
 * positions. Positions after the end of a row of outputs are dropped.
 * packed is the weight: (n_outputs, words) words of four bytes, padded with zeros, then `less`
 * (n_outputs): the excess of the sums of a SIGNED x.
 *
 * conv_dots_lanes: a work-item computes LANE_OUTPUTS outputs of one position. */
#include "add_dots.h"
#include "common.h"
#include "phase_row.h"
#ifndef SIGNED
#define SIGNED 0
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef OUT_TYPE
#define OUT_TYPE I32
#endif
#define LANE_OUTPUTS 4
#define FLIP (SIGNED ? 128 : 0)

/* A work-item packs the words of an output. */
__kernel void conv_dots_weight(const __global char *weight, const long weight_offset,
                               __global int *packed, const long packed_offset, const index_t items,
                               const int k_size, const int words) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const __global char *from = weight + weight_offset + item * k_size;
  __global int *to = packed + packed_offset + item * words;
  int sum = 0;
  for (int i = 0; i < words; i++) {
    uint word = 0;
    for (int j = 0; j < 4 && 4 * i + j < k_size; j++) {
      word |= (uint)(uchar)from[4 * i + j] << 8 * j;
      sum += from[4 * i + j];
    }
    to[i] = as_int(word);
  }
  packed[packed_offset + items * words + item] = FLIP * sum;
}

/* Copies n neighbouring bytes. */
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

/* Copies n bytes that are `stride` apart. */
static inline void copy_steps(const __global uchar *from, int stride, int n, __global uchar *to) {
  int k = 0;
  for (; stride == 2 && k + 16 < n; k += 16) {
    const uchar16 low = vload16(0, from + 2 * k), high = vload16(1, from + 2 * k);
    vstore16((uchar16)(low.even, high.even) ^ (uchar16)FLIP, 0, to + k);
  }
  for (; k < n; k++) to[k] = from[k * stride] ^ (uchar)FLIP;
}

/* A work-item writes a slice of the planes. item: images and channels, phases z, y, x, slices. */
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

/* Sizes and strides of the planes, the outputs and the taps. */
#define GEOMETRY_PARAMS                                                                            \
  const int groups, const int n_outputs, const int channels, const int words, const int positions, \
      const int plane_bytes, const int phase_bytes, const int plane_rows, const int plane_columns, \
      const int out_depth, const int out_rows, const int out_columns, const int kernel_z,          \
      const int kernel_y, const int kernel_x, const int stride_z, const int stride_y,              \
      const int stride_x, const int dilation_z, const int dilation_y, const int dilation_x,        \
      const int phases_y, const int phases_x

/* Returns the distance from a position to the byte that a tap reads for it. */
static inline int tap_at(int z, int y, int x, int phase_bytes, int plane_rows, int plane_columns,
                         int stride_z, int stride_y, int stride_x, int phases_y, int phases_x) {
  const int phase = (z % stride_z * phases_y + y % stride_y) * phases_x + x % stride_x;
  return phase * phase_bytes + (z / stride_z * plane_rows + y / stride_y) * plane_columns +
         x / stride_x;
}

/* A position's row of outputs: number of its first output within the channel, column in it, and
 * whether the position is an output. */
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

/* items = images * groups * blocks of LANE_OUTPUTS outputs * positions, positions innermost. */
__kernel void conv_dots_lanes(const __global uchar *planes, const long planes_offset,
                              const __global int *packed, const long packed_offset,
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
  packed += packed_offset;
  int sum[LANE_OUTPUTS];
#pragma unroll
  for (int o = 0; o < LANE_OUTPUTS; o++) {
    const int row = first + min(o, n - 1);
    sum[o] = (HAS_BIAS ? bias[bias_offset + row] : 0) - packed[groups * n_outputs * words + row];
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
            sum[o] = add_dot(sum[o], word, packed[(first + min(o, n - 1)) * words + (k - 1) / 4]);
          word = 0;
        }
  const index_t number =
      (plane / groups * groups * n_outputs + first) * (index_t)cells + c.first + c.column;
  out += out_offset + number;
  for (int o = 0; o < n; o++)
    STORE_RESULT(out + o * (index_t)cells, sum + o, number + o * (index_t)cells, 1);
}
