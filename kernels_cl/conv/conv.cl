/* out[n, o, z, y, x] = bias[o] + sum over c, h, i, j of weight[o, c, h, i, j] *
 *     padded[n, c, z sz + h dz, y sy + i dy, x sx + j dx]
 * One and two dimensions have a depth (and a height) of 1. TRANSPOSED: input i and tap k meet at
 * output i * stride - pad + k * dilation. The outputs of one phase (their position modulo the
 * stride) form an ordinary convolution of stride 1 with every tap_step-th tap, in reverse order:
 * each output gathers its inputs.
 *
 * conv_pad_planes lays the input out padded and by phase: padded row y of a channel's slice goes to
 * phase y % sy, row y / sy, and columns likewise: (n, c, slices, sy, sx, plane_rows,
 * plane_columns), as `real`, for the phases that taps read. In this layout, the inputs of one tap
 * (i, j) for neighbouring outputs are neighbours too, for any stride and dilation. Depth is neither
 * padded nor split.
 *
 * conv_direct computes OUTPUTS channels of VECTORS vectors of W neighbouring positions p = y *
 * plane_columns + x per work-item: for each tap and channel VECTORS loads and OUTPUTS * VECTORS
 * multiply-adds. BY_ROW: a vector begins at a multiple of W of an output row; else vectors follow
 * each other over the padded width. Positions beyond the output's width are dropped. Sums are taken
 * over at most BLOCK taps at a time. Weights are of W_TYPE, each converted to `real` once for all
 * positions of a work-item.
 *
 * INTEGER: x and weight have 8 bits, bias and out 32. Floats hold the sum of a block exactly: 512
 * products are at most 512 * 255 * 128 < 2^24. Blocks are added as ints. x is padded by
 * `padding`. */
#include "common.h"
#include "phase_row.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef W_TYPE
#define W_TYPE X_TYPE
#endif
#ifndef INTEGER
#define INTEGER 0
#endif
#ifndef OUTPUTS
#define OUTPUTS 8
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef W
#if IS_FLOAT(COMPUTE)
#define W 16
#else
#define W 1
#endif
#endif
#ifndef BLOCK
#define BLOCK 512
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef FROM_X
#define FROM_X 0 /* conv_direct reads x itself: no padding, stride 1 */
#endif

#ifndef BY_ROW
#define BY_ROW 0
#endif
#ifndef STRIDED
#define STRIDED 1 /* a stride is not 1: there are phases */
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif
#ifndef OUTPUTS_FIRST
#define OUTPUTS_FIRST 0 /* neighbouring work-items share inputs, else weights */
#endif

#if IS_FLOAT(COMPUTE)
#define MULTIPLY_ADD(a, b, c) FMA(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#if W == 1
typedef real realw;
#define STORE_WIDE(T, p, v) STORE(T, p, 0, v)
#define LOAD_REAL(p) (*(p))
#define STORE_LANES(p, v) *(p) = (v)
#define TO_INT(v) (int)(v)
typedef int intw;
#elif W == 8
typedef PASTE(PASTE(real_, COMPUTE), 8) realw;
#define wide_F32(p, v) vstore8(v, 0, p)
#define wide_F16(p, v) vstore_half8_rte(v, 0, p)
#define wide_BF16(p, v) store_each(p, v)
#define wide_F64(p, v) vstore8(v, 0, p)
#define wide_I32(p, v) vstore8(v, 0, p)
#define STORE_WIDE(T, p, v) PASTE(wide_, T)(p, v)
#define LOAD_REAL(p) vload8(0, p)
#define STORE_LANES(p, v) vstore8(v, 0, p)
#define TO_INT(v) convert_int8(v)
typedef int8 intw;
#if IS_BF16(X_TYPE)
static inline void store_each(__global ushort *p, const realw v) {
  real lanes[W];
  vstore8(v, 0, lanes);
  for (int l = 0; l < W; l++) p[l] = float_to_bf16(lanes[l]);
}
#endif
#else
typedef PASTE(PASTE(real_, COMPUTE), 16) realw;
#define wide_F32(p, v) vstore16(v, 0, p)
#define wide_F16(p, v) vstore_half16_rte(v, 0, p)
#define wide_BF16(p, v) vstore16(float_to_bf16_16(v), 0, p)
#define wide_F64(p, v) vstore16(v, 0, p)
#define wide_I32(p, v) vstore16(v, 0, p)
#define STORE_WIDE(T, p, v) PASTE(wide_, T)(p, v)
#define LOAD_REAL(p) vload16(0, p)
#define STORE_LANES(p, v) vstore16(v, 0, p)
#define TO_INT(v) convert_int16(v)
typedef int16 intw;
#endif

/* Type of the sum over blocks, type of one lane of it, and dtype of the bias and of out. */
#if INTEGER
typedef intw totalw;
typedef int total1;
#define TO_TOTAL(v) TO_INT(v)
#define OUT_TYPE I32
#define LOAD_BIAS(p, i) (p)[i]
#else
typedef realw totalw;
typedef real total1;
#define TO_TOTAL(v) (v)
#define OUT_TYPE X_TYPE
#define LOAD_BIAS(p, i) LOAD(X_TYPE, p, i)
#endif

/* A work-item writes one row of plane_columns. items are (channel, slice z, phase_y, phase_x, row),
 * the row innermost. Slice z of the planes is slice first_slice + z of the `depth` slices of x. */
__kernel void conv_pad_planes(const __global STORAGE(X_TYPE) * x, const long x_offset,
                              __global real *planes, const long planes_offset, const index_t items,
                              const int depth, const int first_slice, const int slices,
                              const int rows, const int columns, const int stride_y,
                              const int stride_x, const int phases_y, const int phases_x,
                              const int pad_y, const int pad_x, const int plane_rows,
                              const int plane_columns, const int padding) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int row = (int)(item % plane_rows);
  const index_t plane = item / plane_rows;
  const int phase_x = (int)(plane % phases_x), phase_y = (int)(plane / phases_x % phases_y);
  const index_t slice = plane / phases_x / phases_y, channel = slice / slices;
  const index_t in_slice = channel * depth + first_slice + slice % slices;
  const int y = row * stride_y + phase_y - pad_y, first = phase_x - pad_x;
  __global real *to = planes + planes_offset + item * plane_columns;
  const bool inside = y >= 0 && y < rows;
  const phase_row r = phase_row_of(first, stride_x, inside ? columns : 0, plane_columns);
  const __global STORAGE(X_TYPE) *from =
      x + x_offset + (in_slice * rows + (inside ? y : 0)) * (index_t)columns;
  for (int k = 0; k < r.begin; k++) to[k] = padding;
  if (stride_x == 1)
    for (int k = r.begin; k < r.end; k++) to[k] = LOAD(X_TYPE, from, first + k);
  else
    for (int k = r.begin; k < r.end; k++) to[k] = LOAD(X_TYPE, from, first + k * stride_x);
  for (int k = r.end; k < plane_columns; k++) to[k] = padding;
}

/* Converts weights to `real`, for devices where converting single elements is slow. */
__kernel void conv_widen(const __global STORAGE(W_TYPE) * weight, const long weight_offset,
                         __global real *out, const long out_offset, const index_t items) {
  const index_t from = (index_t)get_global_id(0) * 64, end = from + 64 < items ? from + 64 : items;
  for (index_t i = from; i < end; i++)
    out[out_offset + i] = LOAD(W_TYPE, weight, weight_offset + i);
}

/* Strides of the taps of one slice, in the planes and in the weight. */
typedef struct taps {
  int count_y, count_x;
  int skip_y, skip_x;          /* plane rows and columns from tap to tap: dilation / stride */
  int phase_y, phase_x;        /* phases from tap to tap: dilation % stride */
  int stride_y, stride_x;      /* number of phases */
  index_t columns, plane;      /* plane_columns, plane_rows * plane_columns */
  index_t w_row, w_column;     /* weights from tap to tap; w_column is used if TRANSPOSED */
  index_t w_output, w_channel; /* weights from channel to channel */
} taps;

/* Returns the W inputs from p on. Only `left` of them are in the buffer; the others are 0. */
static inline realw load_positions(const __global real *p, index_t left) {
#if FROM_X && W > 1
  if (left < W) {
    real lanes[W];
    for (int l = 0; l < W; l++) lanes[l] = l < left ? p[l] : (real)0;
    return LOAD_REAL(lanes);
  }
#endif
  return LOAD_REAL(p);
}

#define EACH_OUTPUT _Pragma("unroll") for (int o = 0; o < OUTPUTS; o++)
#define EACH_VECTOR _Pragma("unroll") for (int v = 0; v < VECTORS; v++)

/* Adds the products of `channels` channels to sums. x: plane of the first channel. base[v]: offset
 * of vector v in a plane. whole: all positions may be read, else only `positions` of them. */
static inline void add_channels(realw sums[OUTPUTS][VECTORS], const __global real *x,
                                const __global STORAGE(W_TYPE) * weight, int channels,
                                index_t channel_stride, const taps *t, const index_t base[VECTORS],
                                index_t positions, const int whole) {
  for (int c = 0; c < channels; c++, x += channel_stride, weight += t->w_channel) {
    index_t row = 0;
    int phase_y = 0;
    for (int i = 0; i < t->count_y; i++) {
      const __global STORAGE(W_TYPE) *w = weight + i * t->w_row;
      index_t at = row;
      int phase_x = 0;
      if (STRIDED) at += phase_y * t->stride_x * t->plane;
      for (int j = 0; j < t->count_x; j++) {
        realw in[VECTORS];
        EACH_VECTOR in[v] = whole ? LOAD_REAL(x + at + base[v])
                                  : load_positions(x + at + base[v], positions - base[v]);
        EACH_OUTPUT {
          const realw factor = (realw)(real)LOAD(W_TYPE, w, o * t->w_output);
          EACH_VECTOR sums[o][v] = MULTIPLY_ADD(factor, in[v], sums[o][v]);
        }
        w += TRANSPOSED ? t->w_column : 1;
        at += t->skip_x;
        if (STRIDED) {
          phase_x += t->phase_x;
          at += t->phase_x * t->plane;
          if (phase_x >= t->stride_x) {
            phase_x -= t->stride_x;
            at += 1 - t->stride_x * t->plane;
          }
        }
      }
      row += t->skip_y * t->columns;
      if (STRIDED) {
        phase_y += t->phase_y;
        if (phase_y >= t->stride_y) {
          phase_y -= t->stride_y;
          row += t->columns;
        }
      }
    }
  }
}

/* Layout of the outputs of one slice and phase: output (y, x) is at y * row + x * column. */
typedef struct target {
  __global STORAGE(OUT_TYPE) * out;
  int rows, columns, row, column;
} target;

/* Stores W positions from p on, without those beyond the width. BY_ROW: positions of the next row
 * belong to another vector. */
static inline void store_positions(const target *t, const totalw v, index_t p, int plane_columns) {
  int y = (int)(p / plane_columns), x = (int)(p % plane_columns);
#if W > 1
  if (t->column == 1 && y < t->rows && x + W <= t->columns) {
    STORE_WIDE(OUT_TYPE, t->out + (index_t)y * t->row + x, v);
    return;
  }
  total1 lanes[W];
  STORE_LANES(lanes, v);
  for (int l = 0; l < (BY_ROW ? 1 : W) && y < t->rows; y++, l += plane_columns - x, x = 0)
    for (int k = x; k < t->columns && l + k - x < W; k++)
      STORE(OUT_TYPE, t->out, (index_t)y * t->row + k * t->column, lanes[l + k - x]);
#else
  if (y < t->rows && x < t->columns)
    STORE(OUT_TYPE, t->out, (index_t)y * t->row + x * t->column, v);
#endif
}

/* The taps of one dimension of a transposed convolution that contribute to the outputs of one
 * phase. */
typedef struct gather {
  int first, taps; /* first and number of the taps that contribute; they are `step` apart */
  int origin;      /* the input that output 0 reads at the first tap */
} gather;
static inline gather gather_of(int phase, int kernel_size, int stride, int pad, int dilation,
                               int step) {
  gather g = {0, 0, 0};
  while (g.first < kernel_size && (phase + pad - g.first * dilation) % stride != 0) g.first++;
  if (g.first == kernel_size) return g;
  g.taps = (kernel_size - 1 - g.first) / step + 1;
  g.origin = (phase + pad - g.first * dilation) / stride;
  return g;
}

/* The outputs of a work-item: channels of a group from `first` on. The last block of channels
 * begins earlier if it would not be full. Channels before first_kept are then computed by two
 * work-items, and only the other one stores them. */
typedef struct tile {
  index_t first_vector, n_vectors; /* vectors of a phase's outputs */
  int first, first_kept;
  int z, y, x; /* output slice; row and column of the first output */
  index_t group, image;
  int part_y, part_x, columns; /* a phase's strides and outputs per row */
  index_t positions;
} tile;
static inline tile tile_of(index_t item, int groups, int n_outputs, int first_out, int out_slices,
                           int out_rows, int out_columns, int plane_columns, int stride_y,
                           int stride_x) {
  tile t;
  t.part_y = TRANSPOSED ? min(stride_y, out_rows) : 1;
  t.part_x = TRANSPOSED ? min(stride_x, out_columns) : 1;
  const int rows = (out_rows + t.part_y - 1) / t.part_y;
  t.columns = (out_columns + t.part_x - 1) / t.part_x;
  t.positions = (index_t)(rows - 1) * plane_columns + t.columns;
  t.n_vectors = BY_ROW ? (index_t)rows * ((t.columns + W - 1) / W) : (t.positions + W - 1) / W;
  const int position_blocks = (int)((t.n_vectors + VECTORS - 1) / VECTORS),
            output_blocks = (n_outputs + OUTPUTS - 1) / OUTPUTS;
  const index_t block = item % ((index_t)position_blocks * output_blocks);
  t.first_vector = (OUTPUTS_FIRST ? block / output_blocks : block % position_blocks) * VECTORS;
  t.first_kept = (int)(OUTPUTS_FIRST ? block % output_blocks : block / position_blocks) * OUTPUTS;
  t.first = min(t.first_kept, n_outputs - OUTPUTS);
  item /= (index_t)position_blocks * output_blocks;
  t.x = (int)(item % t.part_x);
  t.y = (int)(item / t.part_x % t.part_y);
  item /= t.part_x * t.part_y;
  t.z = first_out + (int)(item % out_slices);
  item /= out_slices;
  t.group = item % groups;
  t.image = item / groups;
  return t;
}

/* Sets the offsets of the vectors in a plane. Vectors beyond the last repeat it. */
static inline void find_bases(index_t base[VECTORS], const tile *t, int plane_columns) {
  EACH_VECTOR {
    const index_t k = min(t->first_vector + v, t->n_vectors - 1),
                  per_row = (t->columns + W - 1) / W;
    base[v] = BY_ROW ? k / per_row * plane_columns + k % per_row * W : k * W;
  }
}

/* out: the plane of the work-item's first channel. */
static inline target target_of(__global STORAGE(OUT_TYPE) * out, const tile *t, int out_rows,
                               int out_columns) {
  return (target){.out = out + (index_t)t->y * out_columns + t->x,
                  .rows = (out_rows - 1 - t->y) / t->part_y + 1,
                  .columns = (out_columns - 1 - t->x) / t->part_x + 1,
                  .row = out_columns * t->part_y,
                  .column = t->part_x};
}

#ifdef EPILOGUE_RANK
/* Applies the epilogue to the outputs at positions [p, end) of a plane whose output at position 0
 * is number `cell` in out. BY_ROW: the positions are in one row. */
#define EPILOGUE_POSITIONS(t, cell, p, end, plane_columns)                         \
  for (index_t p_ = p, n_; p_ < (end); p_ += n_) {                                 \
    const int y_ = (int)(p_ / (plane_columns)), x_ = (int)(p_ % (plane_columns));  \
    const index_t at_ = (index_t)y_ * (t).row + x_ * (t).column, left_ = (end)-p_; \
    const bool joined_ = !BY_ROW && (t).column == 1 && (t).row == (plane_columns); \
    n_ = joined_ ? left_ : min(left_, (plane_columns) - (index_t)x_);              \
    index_t kept_ = joined_ ? n_ : min(n_, (t).columns - (index_t)x_);             \
    if (BY_ROW) n_ = left_;                                                        \
    if ((t).column > 1) n_ = min(n_, (index_t)1), kept_ = min(kept_, (index_t)1);  \
    if (y_ < (t).rows && kept_ > 0) EPILOGUE((t).out + at_, (cell) + at_, kept_);  \
  }
/* Applies the epilogue to what store_outputs stored. `cell`: start of the first channel's plane. */
#define EPILOGUE_OUTPUTS(to, plane_stride, cell, t, base, plane_columns)                         \
  for (int o_ = 0; o_ < OUTPUTS; o_++, (to).out += (plane_stride)) {                             \
    const index_t cell_ = (cell) + o_ * (plane_stride);                                          \
    if ((t).first + o_ < (t).first_kept) continue;                                               \
    for (int v_ = 0; v_ < (BY_ROW ? VECTORS : 1) && (t).first_vector + v_ < (t).n_vectors; v_++) \
      EPILOGUE_POSITIONS(                                                                        \
          to, cell_, BY_ROW ? base[v_] : (t).first_vector *W,                                    \
          BY_ROW ? base[v_] + W : min(((t).first_vector + VECTORS) * W, (t).positions),          \
          plane_columns)                                                                         \
  }
#else
#define EPILOGUE_OUTPUTS(to, plane_stride, cell, t, base, plane_columns)
#endif

/* plane_stride: elements from a channel of out to the next. */
static inline void store_outputs(target to, index_t plane_stride,
                                 const __global STORAGE(OUT_TYPE) * bias,
                                 totalw total[OUTPUTS][VECTORS], const tile *t,
                                 const index_t base[VECTORS], int plane_columns) {
  UNROLL_ON_GPU
  for (int o = 0; o < OUTPUTS; o++) {
    const total1 shift = HAS_BIAS ? LOAD_BIAS(bias, o) : (total1)0;
    UNROLL_ON_GPU
    for (int v = 0; v < VECTORS; v++)
      if (t->first + o >= t->first_kept && t->first_vector + v < t->n_vectors)
        store_positions(&to, total[o][v] + shift, base[v], plane_columns);
    to.out += plane_stride;
  }
}

/* Depth dimension: the taps of output slice `out` read slices [first, first + count) of the input,
 * `step` apart. */
typedef struct slices_of_x {
  int out, kernel_size, stride, pad, dilation, first, count;
  index_t step;
} slices_of_x;

/* Adds the taps that read a slice of padding, before the first or after the last input slice. */
static inline void add_padding(totalw total[OUTPUTS][VECTORS], int padding,
                               const __global STORAGE(W_TYPE) * weight, int channels, const taps *t,
                               index_t n_taps) {
  EACH_OUTPUT {
    total1 sum = 0;
    for (int c = 0; c < channels; c++)
      for (index_t i = 0; i < n_taps; i++)
        sum += (total1)LOAD(W_TYPE, weight, o * t->w_output + c * t->w_channel + i);
    EACH_VECTOR total[o][v] += sum * padding;
  }
}

/* total = the sum over all channels and slices, at most BLOCK taps (or one channel of a slice) at a
 * time. */
static inline void add_slices(totalw total[OUTPUTS][VECTORS], const __global real *x,
                              const __global STORAGE(W_TYPE) * weight, int channels,
                              const slices_of_x *d, const taps *t, index_t n_taps,
                              const index_t base[VECTORS], index_t positions, int padding) {
  const int whole = !FROM_X || base[VECTORS - 1] + W <= positions,
            block = max((int)(BLOCK / n_taps), 1);
  const index_t channel_stride = d->count * d->step;
  EACH_OUTPUT EACH_VECTOR total[o][v] = (totalw)0;
  for (int h = 0; h < d->kernel_size; h++) {
    int z = TRANSPOSED ? d->out + d->pad - h * d->dilation
                       : d->out * d->stride - d->pad + h * d->dilation;
    if (TRANSPOSED && z % d->stride != 0) continue;
    z = (TRANSPOSED ? z / d->stride : z) - d->first;
    if (z < 0 || z >= d->count) {
      if (INTEGER) add_padding(total, padding, weight + h * n_taps, channels, t, n_taps);
      continue;
    }
    for (int c = 0; c < channels; c += block) {
      const int some = min(block, channels - c);
      const __global real *from = x + c * channel_stride + z * d->step;
      const __global STORAGE(W_TYPE) *w = weight + c * t->w_channel + h * n_taps;
      realw sums[OUTPUTS][VECTORS];
      EACH_OUTPUT EACH_VECTOR sums[o][v] = (realw)0;
      if (whole)
        add_channels(sums, from, w, some, channel_stride, t, base, positions, 1);
      else
        add_channels(sums, from, w, some, channel_stride, t, base, positions, 0);
      EACH_OUTPUT EACH_VECTOR total[o][v] += TO_TOTAL(sums[o][v]);
    }
  }
}

#define TAPS_PARAMS                                                                                \
  const int kernel_z, const int kernel_y, const int kernel_x, const int stride_z, const int pad_z, \
      const int dilation_z, const int skip_y, const int skip_x, const int phase_y,                 \
      const int phase_x, const int stride_y, const int stride_x, const int pad_y, const int pad_x, \
      const int dilation_y, const int dilation_x, const int step_y, const int step_x,              \
      const int lead_y, const int lead_x, const int padding

/* x: planes of n_channels input channels per image. weight: (n_outputs, channels, kernel...),
 * TRANSPOSED: (channels, n_outputs, kernel...), with n_outputs >= OUTPUTS and channels of one
 * group. out: slices [first_out, first_out + out_slices) of out_depth. items = images * groups *
 * out_slices * phases * output_blocks * position_blocks. step and lead apply to TRANSPOSED: every
 * step_y-th tap is of one phase, and the planes begin with lead_y rows of padding. */
__kernel void conv_direct(const __global real *x, const long x_offset,
                          const __global STORAGE(W_TYPE) * weight, const long weight_offset,
                          const __global STORAGE(OUT_TYPE) * bias, const long bias_offset,
                          __global STORAGE(OUT_TYPE) * out, const long out_offset,
                          const index_t items, const int groups, const int n_outputs,
                          const int channels, const int out_depth, const int first_out,
                          const int out_slices, const int out_rows, const int out_columns,
                          const int first_slice, const int slices, const int plane_rows,
                          const int plane_columns, TAPS_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const tile at = tile_of(item, groups, n_outputs, first_out, out_slices, out_rows, out_columns,
                          plane_columns, stride_y, stride_x);
  const index_t n_taps = kernel_y * kernel_x, volume = n_taps * kernel_z;
  taps t = {.count_y = kernel_y,
            .count_x = kernel_x,
            .skip_y = skip_y,
            .skip_x = skip_x,
            .phase_y = phase_y,
            .phase_x = phase_x,
            .stride_y = stride_y,
            .stride_x = stride_x,
            .columns = plane_columns,
            .plane = (index_t)plane_rows * plane_columns,
            .w_row = kernel_x,
            .w_output = channels * volume,
            .w_channel = volume};
  const slices_of_x from = {.out = at.z,
                            .kernel_size = kernel_z,
                            .stride = stride_z,
                            .pad = pad_z,
                            .dilation = dilation_z,
                            .first = first_slice,
                            .count = slices,
                            .step = t.plane * (STRIDED ? stride_y * stride_x : 1)};
  x += x_offset + (at.image * groups + at.group) * channels * slices * from.step;
  weight += weight_offset + at.group * n_outputs * channels * volume;
#if TRANSPOSED
  const gather gy = gather_of(at.y, kernel_y, stride_y, pad_y, dilation_y, step_y);
  const gather gx = gather_of(at.x, kernel_x, stride_x, pad_x, dilation_x, step_x);
  t.count_y = gy.taps, t.count_x = gx.taps;
  t.w_row = step_y * kernel_x, t.w_column = step_x;
  t.w_output = volume, t.w_channel = n_outputs * volume;
  x += (gy.origin + lead_y) * (index_t)plane_columns + gx.origin + lead_x;
  weight += gy.first * kernel_x + gx.first;
#endif
  index_t base[VECTORS];
  find_bases(base, &at, plane_columns);
  totalw total[OUTPUTS][VECTORS];
  add_slices(total, x, weight + at.first * t.w_output, channels, &from, &t, n_taps, base,
             at.positions, padding);
  const index_t channel = at.group * n_outputs + at.first, plane = (index_t)out_rows * out_columns,
                cell = ((at.image * groups * n_outputs + channel) * out_depth + at.z) * plane;
  out += out_offset + cell;
  target to = target_of(out, &at, out_rows, out_columns);
  store_outputs(to, out_depth * plane, bias + bias_offset + channel, total, &at, base,
                plane_columns);
  EPILOGUE_OUTPUTS(to, out_depth * plane, cell + (index_t)at.y * out_columns + at.x, at, base,
                   plane_columns);
}
