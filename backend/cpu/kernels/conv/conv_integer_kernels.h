#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_KERNELS_H
/* Of INTEGER_TILE neighbouring cells the patches, four bytes of neighbouring k a word, times four
 * bytes of the weight's row at once. Bytes of patches are unsigned, or signed, as the processor has
 * it; those of the weight are signed. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { INTEGER_TILE = 64 /* cells */, INTEGER_ROWS = 16 /* outputs at a time, at most */ };

/* Outputs' rows of the weight, `stride` bytes apart, in steps of the kernel's: n whole ones and,
 * behind them, where rows have more, the rest of each, zeros after it (rows, step). */
typedef struct weight_rows {
  const unsigned char *first, *rest;
  int64_t stride, n;
  bool has_rest;
} weight_rows;

/* As memcpy, of few bytes. */
static inline void copy_few(void *to, const void *from, int64_t n) {
  char *y = to;
  const char *x = from;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) memcpy(y + i, x + i, 16);
  if (i + 8 <= n) memcpy(y + i, x + i, 8), i += 8;
  if (i + 4 <= n) memcpy(y + i, x + i, 4), i += 4;
  for (; i < n; i++) y[i] = x[i];
}

/* Neighbouring cells of one row of outputs: elements [from, from + n) of a tile. */
typedef struct cell_run {
  int from;
  int64_t cell, n;
} cell_run;

typedef struct integer_kernel {
  /* sums (rows, INTEGER_TILE) = begin (rows) + weights by patches (words, INTEGER_TILE): of the
   * first `cells` of a tile at least */
  void (*multiply)(int rows, int cells, const weight_rows *weights, const uint32_t *patches,
                   const int32_t *begin, int32_t *sums);
  /* to: (INTEGER_TILE), a byte of each row (INTEGER_TILE), all bits of flip the other way */
  void (*pack)(const unsigned char *const rows[4], uint32_t flip, uint32_t *to);
  /* Elements of a tile, of `size` bytes, to and from where they belong; row: an output's cell 0. */
  void (*scatter)(const char *tile, int64_t size, const cell_run *runs, int n_runs, char *row);
  void (*gather)(const char *row, int64_t size, const cell_run *runs, int n_runs, char *tile);
  /* Around all that one task multiplies; NULL: nothing. */
  void (*begin)(void), (*end)(void);
  bool is_signed; /* bytes of patches */
  bool fills;     /* fewer outputs than `rows` take longer than so many */
  int rows, step; /* outputs at a time; bytes of k, of which patches have whole steps, any value
                     behind the last byte */
} integer_kernel;
integer_kernel choose_integer_kernel(int64_t k /* elements of a row of the weight */);

/* Words of patches of k bytes. */
static inline int64_t integer_words(const integer_kernel *kernel, int64_t k) {
  return (k + kernel->step - 1) / kernel->step * (kernel->step / 4);
}
/* to (step): what steps leave of a row of k bytes. */
static inline void integer_rest(const integer_kernel *kernel, const void *row, int64_t k,
                                unsigned char *to) {
  const int64_t n = k % kernel->step;
  memset(to, 0, (size_t)kernel->step);
  memcpy(to, (const unsigned char *)row + k - n, (size_t)n);
}
/* The weight's rows from number `row` on; rest: (all rows, step). */
static inline weight_rows integer_weight(const integer_kernel *kernel, const void *weight,
                                         const unsigned char *rest, int64_t k, int64_t row) {
  const bool has_rest = k % kernel->step != 0;
  return (weight_rows){.first = (const unsigned char *)weight + row * k,
                       .rest = has_rest ? rest + row * kernel->step : NULL,
                       .stride = k,
                       .n = k / kernel->step,
                       .has_rest = has_rest};
}

#endif
