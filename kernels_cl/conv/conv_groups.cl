/* out[n, o, z, y, x] = bias[o] + sum over c, h, i, j of weight[o, c, h, i, j] *
 *     x[n, c, z sz - pz + h dz, y sy - py + i dy, x sx - px + j dx], where x is 0 outside
 * Convolution in float for devices with many work-items, from x in its own layout. A group of
 * WORKERS computes BLOCK_OUTPUTS channels by a tile of LANES * POSITIONS cells of one slice. The
 * inputs that the tile reads, and the weights, are staged through local memory, some channels at a
 * time. A work-item computes OUTPUTS neighbouring channels by POSITIONS cells, LANES apart, so that
 * neighbours load and store neighbours: OUTPUTS + POSITIONS loads from local memory for OUTPUTS *
 * POSITIONS products. Each stage is summed separately, which keeps rounding errors small.
 * conv_groups_depthwise: one channel, whose inputs are staged once for all of its outputs. */
#include "quads.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef W_TYPE
#define W_TYPE X_TYPE
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef IN_SPLITS
#define IN_SPLITS 0
#endif
#ifndef OUTPUTS
#define OUTPUTS 8
#endif
#ifndef LANES
#define LANES 16
#endif
#ifndef POSITIONS
#define POSITIONS 4
#endif
#define WORKERS 64
#define BLOCK_OUTPUTS (WORKERS / LANES * OUTPUTS)
#define PITCH (BLOCK_OUTPUTS + 1) /* puts neighbouring taps into different banks */
#define QUADS (OUTPUTS / 4)
#define SHARERS 16 /* work-items that read neighbouring weights */
#define WORKER ((int)get_local_id(0))
#define EACH_POSITION _Pragma("unroll") for (int p = 0; p < POSITIONS; p++)
#define EACH_QUAD _Pragma("unroll") for (int q = 0; q < QUADS; q++)

/* Size, stride, padding and dilation of the kernel. */
#define KERNEL_PARAMS                                                                            \
  const int kernel_z, const int kernel_y, const int kernel_x, const int stride_z,                \
      const int stride_y, const int stride_x, const int pad_z, const int pad_y, const int pad_x, \
      const int dilation_z, const int dilation_y, const int dilation_x
/* Sizes of x, of out, of a tile of out, and of the rows and columns of x that a tile reads. */
#define VOLUMES_PARAMS                                                                         \
  const int groups, const int n_outputs, const int channels, const int in_depth,               \
      const int in_rows, const int in_columns, const int out_depth, const int out_rows,        \
      const int out_columns, const int tile_rows, const int tile_columns, const int seen_rows, \
      const int seen_columns

/* Position of a tile in out. */
typedef struct place {
  index_t image;
  int z, y, x;
} place;
static inline place find_place(index_t item, int out_depth, int out_rows, int out_columns,
                               int tile_rows, int tile_columns) {
  const int across = (out_columns + tile_columns - 1) / tile_columns,
            down = (out_rows + tile_rows - 1) / tile_rows;
  const index_t slice = item / (across * down);
  const int tile = (int)(item % (across * down));
  return (place){slice / out_depth, (int)(slice % out_depth), tile / across * tile_rows,
                 tile % across * tile_columns};
}

/* Stages `rows` rows of `columns` cells from (y, column) of `planes` planes on. The planes are
 * in_rows x in_columns and `step` apart; cells outside are 0. */
static inline void stage_cells(__local real *cells, const __global STORAGE(X_TYPE) * x,
                               index_t step, int planes, int rows, int columns, int y, int column,
                               int in_rows, int in_columns) {
  const int skip_rows = WORKERS / columns, skip = WORKERS % columns;
  int row = WORKER / columns, k = WORKER % columns;
  for (int e = WORKER; e < planes * rows * columns; e += WORKERS) {
    const int at_y = y + row % rows, at = column + k;
    const bool inside = at_y >= 0 && at_y < in_rows && at >= 0 && at < in_columns;
    cells[e] =
        inside ? LOAD(X_TYPE, x, row / rows * step + (index_t)at_y * in_columns + at) : (real)0;
    row += skip_rows;
    k += skip;
    if (k >= columns) {
      k -= columns;
      row++;
    }
  }
}

/* Stages the weights of `planes` channels, `volume` apart, and n outputs, `step` apart, to (planes
 * * taps, PITCH). Missing outputs are 0. */
static inline void stage_weights(__local real *factors, const __global STORAGE(W_TYPE) * weight,
                                 index_t step, int planes, int taps, int volume, int n) {
  for (int k = WORKER % SHARERS; k < planes * taps; k += SHARERS) {
    const __global STORAGE(W_TYPE) *from = weight + k / taps * volume + k % taps;
    for (int o = WORKER / SHARERS; o < BLOCK_OUTPUTS; o += WORKERS / SHARERS)
      factors[k * PITCH + o] = o < n ? LOAD(W_TYPE, from, o * step) : (real)0;
  }
}

/* Sets the offsets of a work-item's positions in the staged cells. */
static inline void find_bases(int base[POSITIONS], int lane, int tile_columns, int row_step,
                              int stride_x) {
  EACH_POSITION {
    const int at = lane + p * LANES;
    base[p] = at / tile_columns * row_step + at % tile_columns * stride_x;
  }
}

/* Adds the staged channels to sums. factors: from the work-item's first output on. Channels and
 * rows of the kernel are one loop, because Intel's compiler keeps sums in memory in a deeper nest.
 */
static inline void add_channels(real4 sums[POSITIONS][QUADS], const __local real *cells,
                                const __local real *factors, const int base[POSITIONS], int planes,
                                int plane, int columns, int kernel_y, int kernel_x, int dilation_y,
                                int dilation_x) {
  for (int row = 0, c = 0, i = 0; row < planes * kernel_y; row++) {
    const __local real *in = cells + c * plane + i * dilation_y * columns;
    for (int j = 0; j < kernel_x; j++, in += dilation_x, factors += PITCH) {
      real4 four[QUADS];
      EACH_QUAD four[q] = vload4(q, factors);
      EACH_POSITION {
        const real4 value = (real4)in[base[p]];
        EACH_QUAD sums[p][q] = FMA(four[q], value, sums[p][q]);
      }
    }
    if (++i < kernel_y) continue;
    i = 0;
    c++;
  }
}

/* A work-item's cells of out: channels from `channel` on, of which `n` belong to the group. */
typedef struct target {
  place at;
  int lane, n;
  index_t channel;
} target;

/* Returns the number in out of output o of a work-item at its position p; -1 if it is missing. */
static inline index_t cell_of(const target *t, int p, int o, index_t all_channels, int out_depth,
                              int out_rows, int out_columns, int tile_columns) {
  const int at = t->lane + p * LANES, y = t->at.y + at / tile_columns,
            x = t->at.x + at % tile_columns;
  if (o >= t->n || y >= out_rows || x >= out_columns) return -1;
  return ((t->at.image * all_channels + t->channel + o) * out_depth + t->at.z) * (index_t)out_rows *
             out_columns +
         (index_t)y * out_columns + x;
}

/* The grid of work-groups is (tiles, blocks of outputs, groups of channels times n_splits). The
 * channels of a group are split into n_splits of split_channels. IN_SPLITS, if n_splits is not 1: a
 * split has the layout of out and split_size elements. x: (images, groups * channels, in...),
 * weight: (groups * n_outputs, channels, kernel...). cells: (some, seen_rows, seen_columns),
 * factors: (some * kernel_y * kernel_x, PITCH). */
__kernel void conv_groups(const __global STORAGE(X_TYPE) * x, const long x_offset,
                          const __global STORAGE(W_TYPE) * weight, const long weight_offset,
                          const __global STORAGE(X_TYPE) * bias, const long bias_offset,
                          __global STORAGE(X_TYPE) * out, const long out_offset,
                          __global real *splits, const long splits_offset, const int n_splits,
                          const int split_channels, const index_t split_size, const int some,
                          VOLUMES_PARAMS, KERNEL_PARAMS, __local real *cells,
                          __local real *factors) {
  const place at = find_place((index_t)get_group_id(0), out_depth, out_rows, out_columns, tile_rows,
                              tile_columns);
  const int first = (int)get_group_id(1) * BLOCK_OUTPUTS, mine = WORKER / LANES * OUTPUTS,
            taps = kernel_y * kernel_x, volume = kernel_z * taps, plane = seen_rows * seen_columns;
  const int split = (int)(get_group_id(2) % n_splits), begin = split * split_channels,
            end = min(begin + split_channels, channels);
  const index_t group = (index_t)get_group_id(2) / n_splits,
                in_plane = (index_t)in_rows * in_columns, step = in_depth * in_plane;
  const target t = {at, WORKER % LANES, n_outputs - first - mine, group * n_outputs + first + mine};
  x += x_offset + (at.image * groups + group) * channels * step;
  weight += weight_offset + (group * n_outputs + first) * channels * volume;
  int base[POSITIONS];
  find_bases(base, t.lane, tile_columns, stride_y * seen_columns, stride_x);
  real4 total[POSITIONS][QUADS];
  EACH_POSITION EACH_QUAD total[p][q] = (real4)0;
  for (int h = 0; h < kernel_z; h++) {
    const int z = at.z * stride_z - pad_z + h * dilation_z;
    for (int c = begin; c < end && z >= 0 && z < in_depth; c += some) {
      const int planes = min(some, end - c);
      stage_cells(cells, x + c * step + z * in_plane, step, planes, seen_rows, seen_columns,
                  at.y * stride_y - pad_y, at.x * stride_x - pad_x, in_rows, in_columns);
      stage_weights(factors, weight + (index_t)c * volume + h * taps, (index_t)channels * volume,
                    planes, taps, volume, n_outputs - first);
      barrier(CLK_LOCAL_MEM_FENCE);
      real4 sums[POSITIONS][QUADS];
      EACH_POSITION EACH_QUAD sums[p][q] = (real4)0;
      add_channels(sums, cells, factors + mine, base, planes, plane, seen_columns, kernel_y,
                   kernel_x, dilation_y, dilation_x);
      EACH_POSITION EACH_QUAD total[p][q] += sums[p][q];
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
  EACH_POSITION EACH_QUAD {
    real lanes[4];
    vstore4(total[p][q], 0, lanes);
#pragma unroll
    for (int l = 0; l < 4; l++) {
      const index_t cell = cell_of(&t, p, 4 * q + l, (index_t)groups * n_outputs, out_depth,
                                   out_rows, out_columns, tile_columns);
      if (cell < 0) continue;
#if IN_SPLITS
      splits[splits_offset + split * split_size + cell] = lanes[l];
#else
      const real shift =
          HAS_BIAS ? LOAD(X_TYPE, bias, bias_offset + t.channel + 4 * q + l) : (real)0;
      STORE(X_TYPE, out + out_offset, cell, lanes[l] + shift);
      EPILOGUE(out + out_offset + cell, cell, 1);
#endif
    }
  }
}

/* Returns one output of the work-item: the sum over all taps of the staged slices, which are 0
 * outside of x. */
static inline real sum_taps(const __local real *cells, const __global STORAGE(W_TYPE) * weight,
                            int slices, int plane, int columns, int kernel_y, int kernel_x,
                            int dilation_y, int dilation_x) {
  real sum = 0;
  for (int h = 0; h < slices; h++)
    for (int i = 0; i < kernel_y; i++) {
      const __local real *in = cells + h * plane + i * dilation_y * columns;
      for (int j = 0; j < kernel_x; j++, in += dilation_x, weight++)
        sum = FMA(LOAD(W_TYPE, weight, 0), *in, sum);
    }
  return sum;
}

/* The grid of work-groups is (tiles, 1, channels). cells: (kernel_z, seen_rows, seen_columns).
 * LANES is WORKERS. */
__kernel void conv_groups_depthwise(const __global STORAGE(X_TYPE) * x, const long x_offset,
                                    const __global STORAGE(W_TYPE) * weight,
                                    const long weight_offset, const __global STORAGE(X_TYPE) * bias,
                                    const long bias_offset, __global STORAGE(X_TYPE) * out,
                                    const long out_offset, VOLUMES_PARAMS, KERNEL_PARAMS,
                                    __local real *cells) {
  const place at = find_place((index_t)get_group_id(0), out_depth, out_rows, out_columns, tile_rows,
                              tile_columns);
  const int volume = kernel_z * kernel_y * kernel_x, plane = seen_rows * seen_columns;
  const index_t channel = (index_t)get_group_id(2), in_plane = (index_t)in_rows * in_columns;
  const target t = {at, WORKER, n_outputs, channel * n_outputs};
  x += x_offset + (at.image * groups + channel) * in_depth * in_plane;
  for (int h = 0; h < kernel_z; h++) {
    const int z = at.z * stride_z - pad_z + h * dilation_z;
    const bool inside = z >= 0 && z < in_depth;
    stage_cells(cells + h * plane, inside ? x + z * in_plane : x, 0, 1, seen_rows, seen_columns,
                at.y * stride_y - pad_y, at.x * stride_x - pad_x, inside ? in_rows : 0, in_columns);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  int base[POSITIONS];
  find_bases(base, WORKER, tile_columns, stride_y * seen_columns, stride_x);
  for (int o = 0; o < n_outputs; o++) {
    const index_t output = t.channel + o;
    const real shift = HAS_BIAS ? LOAD(X_TYPE, bias, bias_offset + output) : (real)0;
    EACH_POSITION {
      const index_t cell = cell_of(&t, p, o, (index_t)groups * n_outputs, out_depth, out_rows,
                                   out_columns, tile_columns);
      if (cell >= 0) {
        const real sum =
            sum_taps(cells + base[p], weight + weight_offset + output * volume, kernel_z, plane,
                     seen_columns, kernel_y, kernel_x, dilation_y, dilation_x);
        STORE(X_TYPE, out + out_offset, cell, sum + shift);
        EPILOGUE(out + out_offset + cell, cell, 1);
      }
    }
  }
}
