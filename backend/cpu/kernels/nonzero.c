/* Nonzero: counts per chunk, then each chunk writes behind those before it. */
#include "backend/cpu/kernels/nonzero.h"

#include <string.h>

#include "backend/cpu/kernels/walk.h"

enum { CHUNK = 16 * 1024 };

typedef struct nonzero_task {
  const ktensor *x;
  int64_t n;       /* elements of x */
  int64_t *before; /* (chunks + 1) counts, then their sums */
  int64_t *positions;
} nonzero_task;

/* By bits: a float is zero whatever its sign, a subnormal or NaN is not. */
static bool is_nonzero(const ktensor *x, int64_t i) {
  int sign = dtype_is_float(x->type);
  switch (dtype_size(x->type)) {
    case 1:
      return ((const uint8_t *)x->data)[i] != 0;
    case 2:
      return (uint16_t)(((const uint16_t *)x->data)[i] << sign) != 0;
    case 4:
      return ((const uint32_t *)x->data)[i] << sign != 0;
    default:
      return ((const uint64_t *)x->data)[i] << sign != 0;
  }
}

static void count_chunks(void *ctx, int64_t begin, int64_t end) {
  const nonzero_task *t = ctx;
  for (int64_t c = begin; c < end; c++) {
    int64_t found = 0, last = (c + 1) * CHUNK < t->n ? (c + 1) * CHUNK : t->n;
    for (int64_t i = c * CHUNK; i < last; i++) found += is_nonzero(t->x, i);
    t->before[c] = found;
  }
}

static void write_chunks(void *ctx, int64_t begin, int64_t end) {
  const nonzero_task *t = ctx;
  walk w = {.rank = t->x->rank, .dims = t->x->dims};
  for (int64_t c = begin; c < end; c++) {
    int64_t last = (c + 1) * CHUNK < t->n ? (c + 1) * CHUNK : t->n;
    int64_t *to = t->positions + t->before[c] * t->x->rank;
    walk_seek(&w, c * CHUNK);
    for (int64_t i = c * CHUNK; i < last; i++, walk_next(&w)) {
      if (!is_nonzero(t->x, i)) continue;
      for (int d = 0; d < t->x->rank; d++) *to++ = w.index[d];
    }
  }
}

bool kernel_nonzero(const kernel_context *ctx, const ktensor *x, int64_t *positions,
                    int64_t *count) {
  nonzero_task t = {.x = x, .n = ktensor_numel(x), .positions = positions};
  int64_t chunks = (t.n + CHUNK - 1) / CHUNK, total = 0;
  t.before = ctx->scratch(ctx->pool, (size_t)(chunks + 1) * sizeof *t.before);
  if (!t.before) return false;
  ctx->parallel_for(ctx->pool, chunks, 1, count_chunks, &t);
  for (int64_t c = 0; c < chunks; c++) {
    int64_t found = t.before[c];
    t.before[c] = total;
    total += found;
  }
  ctx->parallel_for(ctx->pool, chunks, 1, write_chunks, &t);
  if (x->rank > 0 && total < t.n)
    memset(positions + total * x->rank, 0, (size_t)((t.n - total) * x->rank) * sizeof *positions);
  *count = total;
  return true;
}
