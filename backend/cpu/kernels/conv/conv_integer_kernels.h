#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_KERNELS_H
/* Kernels that compute sums (rows, cells) = begin (rows) + weight (rows, k) * patches (k, cells),
 * for INTEGER_TILE neighbouring cells. k is processed in words of four bytes. Patch bytes are
 * signed if the processor's instruction requires it; weight bytes are always signed. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { INTEGER_TILE = 64 /* cells */, INTEGER_ROWS = 16 /* maximum number of outputs at a time */ };

/* Rows of the weight, `stride` bytes apart. A row has n whole steps of the kernel. If has_rest, the
 * remaining bytes follow in rest (rows, step), padded with zeros. */
typedef struct weight_rows {
  const unsigned char *first, *rest;
  int64_t stride, n;
  bool has_rest;
} weight_rows;

/* Works like memcpy, but is fast for few bytes. */
static inline void copy_few(void *to, const void *from, int64_t n) {
  char *y = to;
  const char *x = from;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) memcpy(y + i, x + i, 16);
  if (i + 8 <= n) memcpy(y + i, x + i, 8), i += 8;
  if (i + 4 <= n) memcpy(y + i, x + i, 4), i += 4;
  for (; i < n; i++) y[i] = x[i];
}

/* Works like memset, but is fast for few bytes. */
static inline void fill_few(unsigned char *to, int value, int64_t n) {
  if (n > 16)
    memset(to, value, (size_t)n);
  else
    for (int64_t i = 0; i < n; i++) to[i] = (unsigned char)value;
}

/* Copies n bytes that are `stride` apart in x. */
static inline void copy_strided(const unsigned char *restrict x, int64_t stride, int64_t n,
                                unsigned char *restrict to) {
  if (stride == 1)
    copy_few(to, x, n);
  else if (stride == 2)
    for (int64_t i = 0; i < n; i++) to[i] = x[2 * i];
  else
    for (int64_t i = 0; i < n; i++) to[i] = x[i * stride];
}

/* Neighbouring cells of one row of outputs, which are elements [from, from + n) of a tile. */
typedef struct cell_run {
  int from;
  int64_t cell, n;
} cell_run;

typedef struct integer_kernel {
  /* sums (rows, INTEGER_TILE) = begin (rows) + weights * patches (words, INTEGER_TILE). Computes at
   * least the first `cells` of the tile. */
  void (*multiply)(int rows, int cells, const weight_rows *weights, const uint32_t *patches,
                   const int32_t *begin, int32_t *sums);
  /* Joins a byte of each row to a word of `to` (INTEGER_TILE) and inverts the bits set in flip. */
  void (*pack)(const unsigned char *const rows[4], uint32_t flip, uint32_t *to);
  /* Copy elements of `size` bytes from and to a tile. row: cell 0 of an output. */
  void (*scatter)(const char *tile, int64_t size, const cell_run *runs, int n_runs, char *row);
  void (*gather)(const char *row, int64_t size, const cell_run *runs, int n_runs, char *tile);
  /* Called around all multiplications of a task; may be NULL. */
  void (*begin)(void), (*end)(void);
  bool is_signed; /* true if patch bytes are signed */
  bool fills;     /* true if fewer outputs than `rows` take longer than `rows` outputs */
  int rows, step; /* outputs at a time; bytes of k per step, to which patches are padded */
} integer_kernel;
integer_kernel choose_integer_kernel(int64_t k /* elements per row of the weight */);

/* Returns the words of patches of k bytes, in whole steps. */
static inline int64_t integer_words(const integer_kernel *kernel, int64_t k) {
  return (k + kernel->step - 1) / kernel->step * (kernel->step / 4);
}
/* Copies the bytes of a row of k bytes that follow its last whole step to `to` (step), and pads
 * them with zeros. */
static inline void integer_rest(const integer_kernel *kernel, const void *row, int64_t k,
                                unsigned char *to) {
  const int64_t n = k % kernel->step;
  memset(to, 0, (size_t)kernel->step);
  memcpy(to, (const unsigned char *)row + k - n, (size_t)n);
}
/* Returns the weight's rows from `row` on. rest: (all rows, step). */
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
