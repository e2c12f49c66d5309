/* Rows of encoded constants as plain floats. */
#include "backend/cpu/kernels/dequantize.h"

#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements worth a thread */ };

typedef struct dequantize_task {
  const kernel_context *ctx;
  const dequantize_args *p;
} dequantize_task;

/* The row of place p. */
static int64_t row_at(const dequantize_task *t, const walk *w, int64_t p) {
  if (!t->p->index.data) return p;
  return load_row_index(t->ctx, &t->p->index, w->offset[0], t->p->rows);
}

static void decode_row(const dequantize_args *p, int64_t row, int64_t to) {
  code_bytes from = (code_bytes)p->x + (size_t)row * encoding_row_bytes(&p->encoding, p->row);
  float x[DECODED_AT_ONCE];
  for (int64_t k = 0; k < p->row; k += DECODED_AT_ONCE) {
    int64_t n = p->row - k < DECODED_AT_ONCE ? p->row - k : DECODED_AT_ONCE;
    encoding_decode(&p->encoding, from, p->row, k / DECODED_AT_ONCE, x);
    store_row(COMPUTE_F32, p->type, element_at(p->out, p->type, to * p->row + k), 1, n, x);
  }
}

static void decode_rows(void *ctx, int64_t begin, int64_t end) {
  const dequantize_task *t = ctx;
  walk w = {.rank = t->p->index.rank, .dims = t->p->index.dims};
  walk_add(&w, t->p->index.strides);
  walk_seek(&w, begin);
  for (int64_t p = begin; p < end; p++) {
    int64_t row = row_at(t, &w, p);
    if (t->p->rows > 0) decode_row(t->p, row, p);
    if (t->p->index.data) walk_next(&w);
  }
}

static bool dequantize(const kernel_context *ctx, const void *args) {
  const dequantize_args *p = args;
  dequantize_task t = {ctx, p};
  if (p->n_picks * p->row > 0)
    ctx->parallel_for(ctx->pool, p->n_picks, GRAIN / p->row + 1, decode_rows, &t);
  return true;
}

const kernel_desc kernel_dequantize = {
    .name = "dequantize",
    .run = dequantize,
    .args_size = sizeof(dequantize_args),
    .operands = {OPERAND(dequantize_args, x), OPERAND(dequantize_args, index),
                 OPERAND(dequantize_args, out)}};
