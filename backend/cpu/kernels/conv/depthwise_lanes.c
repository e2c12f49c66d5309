/* Depthwise convolution of 16 planes at a time. Inputs and weights are transposed to (elements,
 * lanes) with zeros for the padding, summed row by row, and transposed back when stored. Loop
 * order: bands of rows, output rows, columns, taps. */
#include "backend/cpu/kernels/conv/depthwise_lanes.h"

#include <string.h>

#include "backend/cpu/kernels/conv/depthwise_kernels.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "base/counts.h"

#if KERNEL_X86

#define TILE_ROWS 8 /* maximum number of neighbouring outputs that are summed at once */
enum {
  LANES = DEPTHWISE_LANES,
  MAX_SIDE = 5,
  AHEAD = 512,           /* bytes of a plane that are prefetched */
  MAX_BYTES = 96 * 1024, /* transposed planes, which stay in the second-level cache */
  NARROW = 10,  /* columns per tap of a row and stride, at most; wider rows are faster in place */
  SHORT = 20,   /* maximum columns with three taps per row, for any stride */
  SHORTEST = 10 /* maximum with several threads, because data that other threads wrote arrives
                   faster plane by plane */
};

/* ---------------------------------------------------------------- transposing */

/* Loads floats [at, at + n), n <= LANES, of each lane, transposed. */
TARGET_AVX512 KERNEL_INLINE void load_transposed(const float *const from[LANES], int64_t at,
                                                 int64_t n, __m512 *lanes) {
  const __mmask16 valid = (__mmask16)bits_between(0, n);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    lanes[i] = _mm512_maskz_loadu_ps(valid, from[i] + at);
    prefetch_line(from[i] + at, AHEAD);
  }
  transpose_avx512(lanes);
}

/* Like load_transposed, for BF16. */
TARGET_AVX512 KERNEL_INLINE void load_transposed_bf16(const void *const from[LANES], int64_t at,
                                                      int64_t n, __m512 *lanes) {
  const __mmask16 valid = (__mmask16)bits_between(0, n);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    const uint16_t *x = (const uint16_t *)from[i] + at;
    lanes[i] = n == LANES ? load_avx512(DTYPE_BF16, x, 0) : load_bf16_avx512(valid, x);
    prefetch_line(x, AHEAD);
  }
  transpose_avx512(lanes);
}

/* Transposes (lanes, n) to (n, lanes). */
TARGET_AVX512 static void transpose_weights(const float *const from[LANES], int64_t n, float *to) {
  __m512 v[LANES];
  for (int64_t at = 0; at < n; at += LANES) {
    const int64_t some = min_i64(LANES, n - at);
    load_transposed(from, at, some, v);
    for (int64_t i = 0; i < some; i++) _mm512_storeu_ps(to + (at + i) * LANES, v[i]);
  }
}

/* Transposes rows [row, stop) of planes to padded rows of `pitch` vectors. */
TARGET_AVX512 static void depthwise_lanes_transpose_rows(const conv_phase *phase,
                                                         const void *const from[LANES], int64_t row,
                                                         int64_t stop, int64_t pitch, float *to) {
  const int64_t columns = phase->args->dims[2].in, left = -phase->d[2].origin,
                beside = pitch - columns, end = stop * columns;
  __m512 v[LANES];
  int64_t column = 0;
  if (row == stop) return;
  memset(to, 0, (size_t)(left * LANES) * sizeof *to);
  to += left * LANES;
  for (int64_t at = row * columns; at < end; at += LANES) {
    const int64_t some = min_i64(LANES, end - at);
    if (is_bf16(phase->args->x_type))
      load_transposed_bf16(from, at, some, v);
    else
      load_transposed((const float *const *)from, at, some, v);
    for (int64_t i = 0; i < some; i++, to += LANES) {
      _mm512_storeu_ps(to, v[i]);
      if (++column < columns) continue;
      column = 0;
      const int64_t zeros = at + i + 1 < end ? beside : beside - left;
      memset(to + LANES, 0, (size_t)(zeros * LANES) * sizeof *to);
      to += beside * LANES;
    }
  }
}

/* Loads sums [i, i + LANES) of (n, lanes), transposed to one vector per lane. */
TARGET_AVX512 KERNEL_INLINE void load_sums(const float *sums, int64_t i, __m512 *lanes) {
#pragma GCC unroll 16
  for (int k = 0; k < LANES; k++) lanes[k] = _mm512_loadu_ps(sums + (i + k) * LANES);
  transpose_avx512(lanes);
}

/* Stores sums (n, lanes) as n outputs, from `cell` on, of `count` planes. */
TARGET_AVX512 static void store_planes(const conv_phase *phase, int64_t plane, int64_t count,
                                       int64_t cell, int64_t n, const float *sums) {
  const conv_epilogue epilogue = phase->args->epilogue; /* a copy that no store can change */
  const int64_t size = out_size(phase->args), first = plane * size + cell;
  float *out = (float *)phase->args->out + first;
  const float *added = epilogue.added ? (const float *)epilogue.added + first : NULL;
  float slope[LANES];
  for (int64_t k = 0; epilogue.slope && k < count; k++)
    slope[k] = epilogue.slope[(plane + k) % (phase->args->groups * phase->args->outputs)];
  __m512 v[LANES];
  for (int64_t i = 0; i < n; i += LANES) {
    const __mmask16 valid = (__mmask16)bits_between(0, min_i64(LANES, n - i));
    load_sums(sums, i, v);
#pragma GCC unroll 16
    for (int k = 0; k < LANES; k++)
      if (k < count)
        store_limited_avx512(v[k], added ? added + k * size + i : NULL,
                             epilogue.slope ? slope + k : NULL, epilogue.low, epilogue.high, valid,
                             out + k * size + i);
  }
}

/* Like store_planes, for BF16 without epilogue.added. The last vector overlaps the one before,
 * because masked stores are slow. */
TARGET_AVX512_BF16 static void depthwise_lanes_store_bf16(const conv_phase *phase, int64_t plane,
                                                          int64_t count, int64_t cell, int64_t n,
                                                          const float *sums) {
  const conv_epilogue epilogue = phase->args->epilogue;
  const int64_t size = out_size(phase->args);
  uint16_t *out = (uint16_t *)phase->args->out + plane * size + cell;
  const __m512 low = _mm512_set1_ps(epilogue.low), high = _mm512_set1_ps(epilogue.high);
  const __mmask16 valid = (__mmask16)bits_between(0, min_i64(LANES, n));
  __m512 v[LANES];
  for (int64_t next = 0; next < n; next += LANES) {
    const int64_t i = n < LANES ? 0 : min_i64(next, n - LANES);
    load_sums(sums, i, v);
#pragma GCC unroll 16
    for (int k = 0; k < LANES; k++) {
      const __m256i y = (__m256i)_mm512_cvtneps_pbh(_mm512_min_ps(high, _mm512_max_ps(low, v[k])));
      if (k >= count) continue;
      if (n < LANES)
        _mm256_mask_storeu_epi16(out + k * size + i, valid, y);
      else
        _mm256_storeu_si256((void *)(out + k * size + i), y);
    }
  }
}

/* ---------------------------------------------------------------- sums */

/* Neighbouring outputs of a row. */
typedef struct lane_cells {
  const float *x, *weight; /* x: input of the first output; weight: its first row of taps */
  int64_t taps, pitch;     /* rows of taps; floats per transposed row */
  const float *bias;       /* (lanes) */
  float *sums;             /* (cells, lanes) */
} lane_cells;

/* Sums the taps of n neighbouring outputs. */
TARGET_AVX512 KERNEL_INLINE void sum_some(const lane_cells *cells, const int n, const int side,
                                          const int stride) {
  const float *x = cells->x, *weight = cells->weight;
  __m512 sums[TILE_ROWS];
#pragma GCC unroll 8
  for (int c = 0; c < n; c++) sums[c] = _mm512_setzero_ps();
  for (int64_t i = 0; i < cells->taps; i++, x += cells->pitch, weight += side * LANES) {
    __m512 w[MAX_SIDE];
#pragma GCC unroll 5
    for (int j = 0; j < side; j++) w[j] = _mm512_loadu_ps(weight + j * LANES);
#pragma GCC unroll 20
    for (int k = 0; k < (n - 1) * stride + side; k++) {
      const __m512 in = _mm512_loadu_ps(x + k * LANES);
#pragma GCC unroll 8
      for (int c = 0; c < n; c++) {
        const int j = k - c * stride;
        if (j >= 0 && j < side) sums[c] = _mm512_fmadd_ps(w[j], in, sums[c]);
      }
    }
  }
  const __m512 bias = _mm512_loadu_ps(cells->bias);
#pragma GCC unroll 8
  for (int c = 0; c < n; c++) _mm512_storeu_ps(cells->sums + c * LANES, sums[c] + bias);
}

TARGET_AVX512 KERNEL_INLINE void depthwise_lanes_sum_rows(const lane_cells *cells, int rows,
                                                          const int side, const int stride){
#define TILE_CASE(n) sum_some(cells, n, side, stride)
#include "backend/cpu/kernels/support/tile_rows.h"
}

TARGET_AVX512 static void sum_3_1(const lane_cells *cells, int rows) {
  depthwise_lanes_sum_rows(cells, rows, 3, 1);
}
TARGET_AVX512 static void sum_3_2(const lane_cells *cells, int rows) {
  depthwise_lanes_sum_rows(cells, rows, 3, 2);
}
TARGET_AVX512 static void sum_5_1(const lane_cells *cells, int rows) {
  depthwise_lanes_sum_rows(cells, rows, 5, 1);
}
TARGET_AVX512 static void sum_5_2(const lane_cells *cells, int rows) {
  depthwise_lanes_sum_rows(cells, rows, 5, 2);
}

typedef void (*cells_kernel)(const lane_cells *cells, int rows);
/* Indexed by side == 5 and stride == 2. */
static const cells_kernel kernels[2][2] = {{sum_3_1, sum_3_2}, {sum_5_1, sum_5_2}};

/* ---------------------------------------------------------------- planes */

static int64_t vectors_of_row(const conv_phase *phase) {
  const window *window = &phase->d[2];
  const int64_t reach = depthwise_reach(window->taps, window->stride, window->count),
                in = phase->args->dims[2].in - window->origin;
  return reach > in ? reach : in;
}

typedef struct memory {
  /* (taps, LANES), (LANES), inputs (rows, vectors_of_row, LANES), outputs (cells, LANES) */
  float *weight, *bias, *x, *sums;
  size_t bytes;
} memory;

/* Lays out the memory that `rows` rows of outputs need. */
static memory memory_of(const conv_phase *phase, int64_t rows, float *from) {
  memory memory = {.weight = from};
  const int64_t weight = tap_count(phase) * LANES,
                x = depthwise_reach(phase->d[1].taps, phase->d[1].stride, rows) *
                    vectors_of_row(phase) * LANES,
                sums = round_up(rows * phase->d[2].count, LANES) * LANES;
  memory.bytes = (size_t)(weight + LANES + x + sums) * sizeof(float);
  if (!from) return memory;
  memory.bias = memory.weight + weight;
  memory.x = memory.bias + LANES;
  memory.sums = memory.x + x;
  return memory;
}

/* Returns how many rows of outputs fit in MAX_BYTES, at least one. */
static int64_t rows_that_fit(const conv_phase *phase) {
  const size_t one = memory_of(phase, 1, NULL).bytes, more = memory_of(phase, 2, NULL).bytes - one;
  return one < MAX_BYTES ? 1 + (int64_t)((MAX_BYTES - one) / more) : 1;
}

/* The state of a computation of planes. Rows [first, stop) of the inputs are transposed in m.x. */
typedef struct band {
  const conv_phase *a;
  const void *x[LANES];
  memory m;
  int64_t plane, count, first, stop;
} band;

/* Transposes the inputs of output rows [row, row + rows), keeping the rows that are transposed
 * already. */
static void transpose_band(band *band, int64_t row, int64_t rows) {
  const window *window = &band->a->d[1];
  const int64_t pitch = vectors_of_row(band->a) * LANES, in = band->a->args->dims[1].in,
                top = input_at(window, row, 0), first = top < 0 ? 0 : min_i64(top, in),
                last = min_i64(in, top + depthwise_reach(window->taps, window->stride, rows)),
                stop = last > first ? last : first;
  const int64_t kept = band->stop > first ? band->stop - first : 0;
  if (kept > 0)
    memmove(band->m.x, band->m.x + (first - band->first) * pitch,
            (size_t)(kept * pitch) * sizeof *band->m.x);
  depthwise_lanes_transpose_rows(band->a, band->x, first + kept, stop, vectors_of_row(band->a),
                                 band->m.x + kept * pitch);
  band->first = first;
  band->stop = stop;
}

/* Sums output rows [row, row + rows) from transposed inputs. */
static void sum_band(const band *band, int64_t row, int64_t rows) {
  const window *down = &band->a->d[1], *columns = &band->a->d[2];
  const cells_kernel run = kernels[columns->taps == 5][columns->stride == 2];
  const int64_t pitch = vectors_of_row(band->a) * LANES,
                some = ceil_div(columns->count, ceil_div(columns->count, TILE_ROWS));
  lane_cells cells = {.pitch = pitch, .bias = band->m.bias, .sums = band->m.sums};
  for (int64_t y = row; y < row + rows; y++) {
    const int64_t top = input_at(down, y, 0), skipped = top < 0 ? -top : 0,
                  stop = min_i64(down->taps, band->a->args->dims[1].in - top);
    cells.taps = stop > skipped ? stop - skipped : 0;
    cells.weight = band->m.weight + skipped * columns->taps * LANES;
    for (int64_t at = 0, n; at < columns->count; at += n, cells.sums += n * LANES) {
      n = min_i64(some, columns->count - at);
      cells.x = band->m.x + (top + skipped - band->first) * pitch + at * columns->stride * LANES;
      run(&cells, (int)n);
    }
  }
}

static void make_band(band *band, int64_t row, int64_t rows) {
  const conv_args *args = band->a->args;
  const int64_t columns = band->a->d[2].count, cell = row * columns, n = rows * columns,
                at = band->plane * out_size(args) + cell;
  transpose_band(band, row, rows);
  sum_band(band, row, rows);
  if (is_bf16(args->out_type)) {
    bf16_steps(&args->steps, band->m.sums, n * LANES);
    depthwise_lanes_store_bf16(band->a, band->plane, band->count, cell, n, band->m.sums);
    return;
  }
  store_planes(band->a, band->plane, band->count, cell, n, band->m.sums);
  steps_in_place(&args->steps, (float *)args->out + at, at, n, band->count, out_size(args));
}

TARGET_AVX512 static bool lane_weights_are_finite(const float *weight, int64_t taps) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t t = 0; t < taps; t++)
    sum = _mm512_fmadd_ps(_mm512_loadu_ps(weight + t * LANES), _mm512_setzero_ps(), sum);
  return _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_EQ_OQ) == 0xffff;
}

bool depthwise_lanes_run(const conv_phase *phase, int64_t plane, int64_t count, int64_t row,
                         int64_t rows, char *scratch) {
  const conv_args *args = phase->args;
  const int64_t outputs = args->groups * args->outputs,
                some = ceil_div(rows, ceil_div(rows, rows_that_fit(phase)));
  band band = {.a = phase,
               .m = memory_of(phase, some, (float *)(void *)scratch),
               .plane = plane,
               .count = count};
  const float *weight[LANES];
  for (int64_t i = 0; i < LANES; i++) { /* unused lanes repeat the last plane */
    const int64_t out = plane + min_i64(i, count - 1), output = out % outputs;
    band.x[i] = float_at(args->x, is_bf16(args->x_type),
                         (out / outputs * args->groups + output / args->outputs) * in_size(args));
    weight[i] = (const float *)args->weight + output * tap_count(phase);
    band.m.bias[i] = args->bias ? ((const float *)args->bias)[output] : -0.0F;
  }
  transpose_weights(weight, tap_count(phase), band.m.weight);
  if (!lane_weights_are_finite(band.m.weight, tap_count(phase))) return false;
  for (int64_t at = 0; at < rows; at += some) make_band(&band, row + at, min_i64(some, rows - at));
  return true;
}

size_t depthwise_lanes_bytes(const conv_phase *phase, int64_t rows) {
  return memory_of(phase, min_i64(rows, rows_that_fit(phase)), NULL).bytes;
}

bool depthwise_lanes_fit(const conv_phase *phase, int n_threads) {
  const window *window = &phase->d[2];
  const int64_t most = window->taps == 3 ? (n_threads > 1 ? SHORTEST : SHORT)
                                         : NARROW * window->taps * window->stride;
  return cpu_has_avx512() && window->count <= most;
}

#else

bool depthwise_lanes_fit(const conv_phase *phase, int n_threads) {
  (void)phase;
  (void)n_threads;
  return false;
}
size_t depthwise_lanes_bytes(const conv_phase *phase, int64_t rows) {
  (void)phase;
  (void)rows;
  return 0;
}
bool depthwise_lanes_run(const conv_phase *phase, int64_t plane, int64_t count, int64_t row,
                         int64_t rows, char *scratch) {
  (void)phase;
  (void)plane;
  (void)count;
  (void)row;
  (void)rows;
  (void)scratch;
  return false;
}

#endif
