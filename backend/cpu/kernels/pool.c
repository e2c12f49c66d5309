/* Pooling. Maxima without indices are computed row by row of the output, and for each row tap by
 * tap of the window. Other pooling converts a plane to double or int64_t, then computes cell by
 * cell. */
#include "backend/cpu/kernels/pool.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum { READS_PER_THREAD = 32 * 1024 };

/* The positions first, first + step, ... below stop of a window in one dimension. padded: length of
 * the window, without dilation, if padding counts in its size. */
typedef struct window {
  int64_t first, stop, step, padded;
} window;

/* The window of one output along each dimension, and the sizes `in` of its input plane. */
typedef struct cell_window {
  window d[POOL_DIMS];
  const int64_t *in;
} cell_window;

static int64_t kernel_pool_volume(const int64_t *sizes) { return sizes[0] * sizes[1] * sizes[2]; }

static window kernel_pool_window_of(const pool_args *args, int d, int64_t o) {
  int64_t in = args->in[d], out = args->size[d];
  if (args->adaptive) {
    window window = {.first = o * in / out, .stop = ceil_div((o + 1) * in, out), .step = 1};
    window.padded = window.stop - window.first;
    return window;
  }
  int64_t step = args->dilation[d], first = o * args->stride[d] - args->padding[d],
          stop = first + (args->kernel[d] - 1) * step + 1;
  int64_t limit = in + args->padding[d];
  window window = {.first = first,
                   .stop = stop < in ? stop : in,
                   .step = step,
                   .padded = (stop < limit ? stop : limit) - first};
  if (window.first < 0) window.first += ceil_div(-window.first, step) * step;
  return window;
}

static int64_t window_count(const window *window) {
  return window->stop > window->first ? (window->stop - window->first - 1) / window->step + 1 : 0;
}

/* Returns the offset of row (z, y) in the plane. */
static int64_t kernel_pool_row_of(const cell_window *window, int64_t z, int64_t y) {
  return (z * window->in[1] + y) * window->in[2];
}

/* Returns the position in the plane of the window's maximum, the last NaN if any; -1 for an empty
 * window. */
static int64_t find_max_f64(const double *x, const cell_window *cell_window) {
  const window *window = cell_window->d;
  int64_t best = -1;
  for (int64_t z = window[0].first; z < window[0].stop; z += window[0].step)
    for (int64_t y = window[1].first; y < window[1].stop; y += window[1].step)
      for (int64_t i = window[2].first; i < window[2].stop; i += window[2].step) {
        int64_t at = kernel_pool_row_of(cell_window, z, y) + i;
        if (best < 0 || x[at] > x[best] || isnan(x[at])) best = at;
      }
  return best;
}

static int64_t find_max_i64(const int64_t *x, const cell_window *cell_window) {
  const window *window = cell_window->d;
  int64_t best = -1;
  for (int64_t z = window[0].first; z < window[0].stop; z += window[0].step)
    for (int64_t y = window[1].first; y < window[1].stop; y += window[1].step)
      for (int64_t i = window[2].first; i < window[2].stop; i += window[2].step) {
        int64_t at = kernel_pool_row_of(cell_window, z, y) + i;
        if (best < 0 || x[at] > x[best]) best = at;
      }
  return best;
}

static double kernel_pool_sum_f64(const double *x, const cell_window *cell_window) {
  const window *window = cell_window->d;
  double sum = 0;
  for (int64_t z = window[0].first; z < window[0].stop; z++)
    for (int64_t y = window[1].first; y < window[1].stop; y++)
      for (int64_t i = window[2].first; i < window[2].stop; i++)
        sum += x[kernel_pool_row_of(cell_window, z, y) + i];
  return sum;
}

static int64_t sum_i64(const int64_t *x, const cell_window *cell_window) {
  const window *window = cell_window->d;
  uint64_t sum = 0;
  for (int64_t z = window[0].first; z < window[0].stop; z++)
    for (int64_t y = window[1].first; y < window[1].stop; y++)
      for (int64_t i = window[2].first; i < window[2].stop; i++)
        sum += (uint64_t)x[kernel_pool_row_of(cell_window, z, y) + i];
  return (int64_t)sum;
}

static int64_t kernel_pool_count_positions(const cell_window *window) {
  return window_count(&window->d[0]) * window_count(&window->d[1]) * window_count(&window->d[2]);
}

static int64_t divisor_of(const pool_args *args, const cell_window *window) {
  if (args->divisor != 0) return args->divisor;
  if (args->count_include_pad && !args->adaptive)
    return window->d[0].padded * window->d[1].padded * window->d[2].padded;
  return kernel_pool_count_positions(window);
}

static void average_cell(const pool_args *args, compute_type c, const void *plane,
                         const cell_window *window, int64_t to) {
  int64_t divisor = divisor_of(args, window);
  bool empty = kernel_pool_count_positions(window) == 0;
  void *y = element_at(args->out, args->type, to);
  if (c == COMPUTE_I64) {
    int64_t v = empty || divisor == 0 ? 0 : sum_i64(plane, window) / divisor;
    store_row(c, args->type, y, 1, 1, &v);
  } else {
    double v = empty ? 0 : kernel_pool_sum_f64(plane, window) / (double)divisor;
    store_row(c, args->type, y, 1, 1, &v);
  }
}

static void max_cell(const pool_args *args, compute_type c, const void *plane,
                     const cell_window *window, int64_t to) {
  int64_t at = c == COMPUTE_I64 ? find_max_i64(plane, window) : find_max_f64(plane, window);
  double v = at < 0 ? -INFINITY : c == COMPUTE_I64 ? 0 : ((const double *)plane)[at];
  int64_t k = at < 0 ? INT64_MIN : c == COMPUTE_I64 ? ((const int64_t *)plane)[at] : 0;
  store_row(c, args->type, element_at(args->out, args->type, to), 1, 1,
            c == COMPUTE_I64 ? (void *)&k : (void *)&v);
  if (args->indices) args->indices[to] = at < 0 ? 0 : at;
}

/* ---------------------------------------------------------------- maxima without indices, in their
 * own dtype */

/* Maxima of a row of cells, in the dtype of max_type. */
typedef union cell_row {
  double f64[ROW_BLOCK]; /* large enough for any dtype */
  int64_t i64[ROW_BLOCK];
} cell_row;

/* Returns the dtype in which maxima of dtype t are computed. */
static dtype max_type(dtype t) {
  if (is_small_int(t) || t == DTYPE_F64) return t;
  return compute_type_of(t) == COMPUTE_F32 ? DTYPE_F32 : DTYPE_I64;
}

/* Expands CALL(T, lowest, empty) for a dtype's C type; empty: the result of an empty window. */
#define FOR_MAX_TYPE(t, CALL)                   \
  switch (t) {                                  \
    case DTYPE_I8:                              \
      CALL(int8_t, INT8_MIN, 0) break;          \
    case DTYPE_U8:                              \
      CALL(uint8_t, 0, 0) break;                \
    case DTYPE_I16:                             \
      CALL(int16_t, INT16_MIN, 0) break;        \
    case DTYPE_I32:                             \
      CALL(int32_t, INT32_MIN, 0) break;        \
    case DTYPE_F32:                             \
      CALL(float, -INFINITY, -INFINITY) break;  \
    case DTYPE_F64:                             \
      CALL(double, -INFINITY, -INFINITY) break; \
    default:                                    \
      CALL(int64_t, INT64_MIN, INT64_MIN)       \
  }

/* Keeps the first of equal values, including zeros of both signs; NaN wins. */
#define LARGER(T, x, y)                         \
  for (int64_t i = 0; i < n; i++) {             \
    T v = (x)[i * step];                        \
    (y)[i] = v > (y)[i] || v != v ? v : (y)[i]; \
  }
#define TAKE_LARGER(T, lowest, empty) LARGER(T, (const T *)x, (T *)values)
#define FILL_LOWEST(T, lowest, empty) \
  for (int64_t i = 0; i < n; i++) ((T *)values)[i] = lowest;
#define PUT_EMPTY(T, lowest, empty) ((T *)values)[i] = empty;

/* Replaces values[i] by x[i * step] if that is larger. */
static inline void keep_larger(dtype t, int64_t n, const void *restrict x, int64_t step,
                               void *restrict values) {
  FOR_MAX_TYPE(t, TAKE_LARGER)
}

static void fill_lowest(dtype t, int64_t n, void *values) { FOR_MAX_TYPE(t, FILL_LOWEST) }

static void put_empty(dtype t, int64_t i, void *values) { FOR_MAX_TYPE(t, PUT_EMPTY) }

/* The input rows of a row of outputs. */
typedef struct seen_rows {
  const char *plane;
  window z, y;
  const int64_t *in;
} seen_rows;

#if KERNEL_X86
enum { LANES = 16, MAX_TAPS = 8 };

TARGET_AVX512 KERNEL_INLINE __m512i even_lanes(void) {
  return _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/* Works like LARGER for v and the maxima before it. */
TARGET_AVX512 KERNEL_INLINE __m512 larger_lanes(__m512 best, __m512 v) {
  return _mm512_mask_mov_ps(_mm512_max_ps(v, best), _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v);
}

TARGET_AVX512 KERNEL_INLINE __m512 larger_avx512(__m512 best, const float *x, uint32_t valid,
                                                 int64_t stride) {
  const __m512 lowest = _mm512_set1_ps(-INFINITY);
  __m512 v = _mm512_mask_loadu_ps(lowest, (__mmask16)valid, x);
  if (stride == 2)
    v = _mm512_permutex2var_ps(v, even_lanes(),
                               _mm512_mask_loadu_ps(lowest, (__mmask16)(valid >> 16), x + LANES));
  return larger_lanes(best, v);
}

/* Computes a plane of maxima of 2x2 elements. */
TARGET_AVX512 static void max_squares(const pool_args *args, const float *x, float *out) {
  const __m512i even = even_lanes(), odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const int64_t in = args->in[2], columns = args->size[2];
  for (int64_t y = 0; y < args->size[1]; y++, x += 2 * in, out += columns)
    for (int64_t i = 0; i < columns; i += LANES) {
      const uint32_t valid = columns_mask(2 * i, 2 * columns);
      __m512 best = _mm512_set1_ps(-INFINITY);
#pragma GCC unroll 2
      for (int row = 0; row < 2; row++) {
        const float *at = x + row * in + 2 * i;
        const __m512 low = _mm512_maskz_loadu_ps((__mmask16)valid, at),
                     high = _mm512_maskz_loadu_ps((__mmask16)(valid >> 16), at + LANES);
        best = larger_lanes(best, _mm512_permutex2var_ps(low, even, high));
        best = larger_lanes(best, _mm512_permutex2var_ps(low, odd, high));
      }
      _mm512_mask_storeu_ps(out + i, (__mmask16)columns_mask(i, columns), best);
    }
}

/* Computes n cells from `from` on with the semantics of LARGER. */
TARGET_AVX512 KERNEL_INLINE void max_floats(const pool_args *args, const seen_rows *rows,
                                            int64_t from, int64_t n, const int64_t stride,
                                            float *values) {
  const int64_t taps = args->kernel[2], step = args->dilation[2];
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t column = (from + i) * stride - args->padding[2];
    uint32_t valid[MAX_TAPS];
    for (int64_t k = 0; k < taps; k++) valid[k] = columns_mask(column + k * step, rows->in[2]);
    __m512 best = _mm512_set1_ps(-INFINITY);
    for (int64_t z = rows->z.first; z < rows->z.stop; z += rows->z.step)
      for (int64_t y = rows->y.first; y < rows->y.stop; y += rows->y.step) {
        /* address of the first column, which may be outside: missing columns are masked */
        const uintptr_t row =
            (uintptr_t)rows->plane +
            (uintptr_t)((z * rows->in[1] + y) * rows->in[2] + column) * sizeof(float);
        for (int64_t k = 0; k < taps; k++)
          best = larger_avx512(best, (const float *)row + k * step, valid[k], stride);
      }
    const __mmask16 stored = n - i < LANES ? (__mmask16)bits_between(0, n - i) : 0xffff;
    _mm512_mask_storeu_ps(values + i, stored, best);
  }
}
TARGET_AVX512 static void max_floats_1(const pool_args *args, const seen_rows *rows, int64_t from,
                                       int64_t n, float *values) {
  max_floats(args, rows, from, n, 1, values);
}
TARGET_AVX512 static void max_floats_2(const pool_args *args, const seen_rows *rows, int64_t from,
                                       int64_t n, float *values) {
  max_floats(args, rows, from, n, 2, values);
}
#endif

/* Computes all n cells from `from` on at once if this is possible; returns false if not. */
static bool max_at_once(const pool_args *args, dtype t, const seen_rows *rows, int64_t from,
                        int64_t n, cell_row *values) {
#if KERNEL_X86
  if (t == DTYPE_F32 && args->stride[2] <= 2 && args->kernel[2] <= MAX_TAPS && cpu_has_avx512()) {
    (args->stride[2] == 1 ? max_floats_1 : max_floats_2)(args, rows, from, n,
                                                         (float *)(void *)values);
    return true;
  }
#endif
  (void)args, (void)t, (void)rows, (void)from, (void)n, (void)values;
  return false;
}

/* Replaces each of n cells, from `from` on, by the maximum of it and the row's elements in its
 * window. */
static void max_with_row(const pool_args *args, dtype t, const char *row, int64_t from, int64_t n,
                         cell_row *values) {
  int64_t stride = args->stride[2], size = (int64_t)dtype_size(t);
  for (int64_t tap = 0; tap < args->kernel[2]; tap++) {
    int64_t shift = tap * args->dilation[2] - args->padding[2], last = args->in[2] - 1 - shift;
    int64_t first = shift < 0 ? ceil_div(-shift, stride) : 0,
            stop = last < 0 ? 0 : last / stride + 1;
    if (first < from) first = from;
    if (stop > from + n) stop = from + n;
    if (stop <= first) continue;
    const char *x = row + (first * stride + shift) * size;
    char *y = (char *)values + (first - from) * size;
    if (stride == 1) /* constant strides make the loops vectorise */
      keep_larger(t, stop - first, x, 1, y);
    else if (stride == 2 && t == DTYPE_I16)
      bf16_larger_halves((const void *)x, stop - first, (void *)y);
    else if (stride == 2)
      keep_larger(t, stop - first, x, 2, y);
    else
      keep_larger(t, stop - first, x, stride, y);
  }
}

/* Computes the maxima of n cells of a row, from cell `from` on. */
static void max_cells(const pool_args *args, dtype t, const seen_rows *rows, int64_t from,
                      int64_t n, cell_row *values) {
  const int64_t size = (int64_t)dtype_size(t);
  if (max_at_once(args, t, rows, from, n, values)) return;
  fill_lowest(t, n, values);
  for (int64_t z = rows->z.first; z < rows->z.stop; z += rows->z.step)
    for (int64_t y = rows->y.first; y < rows->y.stop; y += rows->y.step)
      max_with_row(args, t, rows->plane + (z * rows->in[1] + y) * rows->in[2] * size, from, n,
                   values);
}

/* Sets the cells in [from, from + n) of a row whose windows, which may be dilated, are empty. */
static void empty_cells(const pool_args *args, dtype t, bool is_row_empty, int64_t from, int64_t n,
                        cell_row *values) {
  if (!is_row_empty && args->dilation[2] == 1) return;
  for (int64_t i = 0; i < n; i++) {
    const window window = kernel_pool_window_of(args, 2, from + i);
    if (is_row_empty || window_count(&window) == 0) put_empty(t, i, values);
  }
}

static bool reads_bf16(const pool_args *args) {
  return args->type == DTYPE_F32 && is_bf16(args->x_type);
}
static bool rounds(const pool_args *args) {
  return args->type == DTYPE_F32 && is_bf16(args->out_type);
}

/* Stores n cells from element `at` of out on. */
static void kernel_pool_store_cells(const pool_args *args, dtype t, int64_t at, int64_t n,
                                    const cell_row *values) {
  void *to = element_at(args->out, args->out_type, at);
  if (rounds(args))
    row_to_bf16((const float *)(const void *)values, n, to);
  else if (t == args->type)
    memcpy(to, values, (size_t)n * dtype_size(t));
  else
    store_row(compute_type_of(t), args->type, to, 1, n, values);
}

/* Stores n results of bf16_larger from element `at` of out on. */
static void store_ordered(const pool_args *args, int64_t at, int64_t n, const int16_t *order) {
  uint16_t bf16[ROW_BLOCK];
  uint16_t *to = rounds(args) ? (uint16_t *)args->out + at : bf16;
  bf16_ordered(order, n, to);
  if (!rounds(args)) widen_row(bf16, n, (float *)args->out + at);
}

/* Computes a row of maxima of a BF16 plane. First takes the maximum over the window's rows. */
static void max_bf16_row(const pool_args *args, const uint16_t *plane, int64_t task, int64_t row,
                         int16_t *joined) {
  const int64_t columns = args->size[2];
  const window slices = kernel_pool_window_of(args, 0, row / args->size[1]),
               rows = kernel_pool_window_of(args, 1, row % args->size[1]);
  cell_row values;
  int16_t *order = (int16_t *)(void *)&values;
  for (int64_t i = 0; i < args->in[2]; i++) joined[i] = BF16_MIN;
  for (int64_t i = slices.first; i < slices.stop; i += slices.step)
    for (int64_t j = rows.first; j < rows.stop; j += rows.step)
      bf16_larger(plane + (i * args->in[1] + j) * args->in[2], args->in[2], joined);
  for (int64_t from = 0, n; from < columns; from += n) {
    n = columns - from < ROW_BLOCK ? columns - from : ROW_BLOCK;
    for (int64_t i = 0; i < n; i++) order[i] = BF16_MIN;
    max_with_row(args, DTYPE_I16, (const char *)joined, from, n, &values);
    store_ordered(args, (task * args->size[0] * args->size[1] + row) * columns + from, n, order);
  }
}

/* plane: of dtype t. */
static void max_row(const pool_args *args, dtype t, const char *plane, int64_t task, int64_t row) {
  const int64_t columns = args->size[2];
  const seen_rows seen = {plane, kernel_pool_window_of(args, 0, row / args->size[1]),
                          kernel_pool_window_of(args, 1, row % args->size[1]), args->in};
  const bool is_empty = window_count(&seen.z) == 0 || window_count(&seen.y) == 0;
  cell_row values;
  for (int64_t from = 0, n; from < columns; from += n) {
    n = columns - from < ROW_BLOCK ? columns - from : ROW_BLOCK;
    max_cells(args, t, &seen, from, n, &values);
    empty_cells(args, t, is_empty, from, n, &values);
    kernel_pool_store_cells(args, t, (task * args->size[0] * args->size[1] + row) * columns + from,
                            n, &values);
  }
}

/* Computes a plane of F32 at once if windows are 2x2 elements without gaps and padding; returns
 * false if not. */
static bool max_plane_at_once(const pool_args *args, int64_t task) {
#if KERNEL_X86
  if (args->type != DTYPE_F32 || args->in[0] != 1 || args->size[0] != 1 || args->kernel[0] != 1 ||
      args->padding[0] != 0 || reads_bf16(args) || rounds(args) || !cpu_has_avx512())
    return false;
  for (int d = 1; d < POOL_DIMS; d++)
    if (args->kernel[d] != 2 || args->stride[d] != 2 || args->dilation[d] != 1 ||
        args->padding[d] != 0 || 2 * args->size[d] > args->in[d])
      return false;
  max_squares(args, (const float *)args->x + task * kernel_pool_volume(args->in),
              (float *)args->out + task * kernel_pool_volume(args->size));
  return true;
#else
  (void)args, (void)task;
  return false;
#endif
}

static void max_plane(const pool_args *args, int64_t task, char *scratch) {
  if (max_plane_at_once(args, task)) return;
  const dtype t = max_type(args->type);
  int64_t size = kernel_pool_volume(args->in);
  const int64_t rows = args->size[0] * args->size[1];
  if (reads_bf16(args)) {
    for (int64_t row = 0; row < rows; row++)
      max_bf16_row(args, (const uint16_t *)args->x + task * size, task, row,
                   (int16_t *)(void *)scratch);
    return;
  }
  const void *x = element_at(args->x, args->type, task * size),
             *plane = t == args->type ? x : scratch;
  if (t != args->type) load_row(compute_type_of(t), args->type, x, 1, size, scratch);
  for (int64_t row = 0; row < rows; row++) max_row(args, t, plane, task, row);
}

/* ---------------------------------------------------------------- the kernel */

static void pool_plane(const void *user, int64_t task, char *scratch) {
  const pool_args *args = user;
  compute_type c = compute_type_of(args->type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  int64_t size = kernel_pool_volume(args->in), cells = kernel_pool_volume(args->size),
          columns = args->size[2], rows = args->size[1];
  if (!args->average && !args->adaptive && !args->indices) {
    max_plane(args, task, scratch);
    return;
  }
  load_row(c, args->type, element_at(args->x, args->type, task * size), 1, size, scratch);
  for (int64_t i = 0; i < cells; i++) {
    cell_window window = {.d = {kernel_pool_window_of(args, 0, i / columns / rows),
                                kernel_pool_window_of(args, 1, i / columns % rows),
                                kernel_pool_window_of(args, 2, i % columns)},
                          .in = args->in};
    if (args->average)
      average_cell(args, c, scratch, &window, task * cells + i);
    else
      max_cell(args, c, scratch, &window, task * cells + i);
  }
}

static int64_t pool_work(const pool_args *args) {
  int64_t in = kernel_pool_volume(args->in),
          reads = args->adaptive
                      ? in
                      : kernel_pool_volume(args->size) * kernel_pool_volume(args->kernel);
  return args->planes * (reads + in) / READS_PER_THREAD;
}

/* Returns the bytes of a plane, for a thread. */
static size_t kernel_pool_plane_bytes(const pool_args *args) {
  return (size_t)kernel_pool_volume(args->in) * sizeof(double);
}

static int64_t kernel_pool_task_count(const pool_args *args) {
  return kernel_pool_volume(args->size) > 0 ? args->planes : 0;
}

static size_t pool_scratch(const kernel_context *ctx, const void *args) {
  return slots_bytes(ctx, kernel_pool_task_count(args), pool_work(args),
                     kernel_pool_plane_bytes(args));
}

static bool pool(const kernel_context *ctx, const void *args) {
  return run_slots(ctx, kernel_pool_task_count(args), pool_work(args),
                   kernel_pool_plane_bytes(args), pool_plane, args);
}

const kernel_desc kernel_pool = {
    .name = "pool",
    .run = pool,
    .scratch = pool_scratch,
    .args_size = sizeof(pool_args),
    .operands = {OPERAND(pool_args, x), OPERAND(pool_args, out), OPERAND(pool_args, indices)}};
