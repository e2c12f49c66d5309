/* Rows of a table that lies in the panels of a product. */
#include "backend/cpu/kernels/gemm/panel_rows.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements worth a thread */ };

typedef struct rows_task {
  const kernel_context *ctx;
  const panel_rows_args *p;
  code_panels of; /* of an encoded table */
} rows_task;

static void copy_row(const panel_rows_args *p, int64_t row, void *to) {
  const gemm_b b = {.type = p->x_type, .n = p->rows, .k = p->row};
  if (p->panels)
    gemm_b_column(&b, p->panels, row, to);
  else
    memcpy(to, element_at(p->x, p->x_type, row * p->row), (size_t)p->row * dtype_size(p->x_type));
}

static void decode_row(const rows_task *t, int64_t row, void *to) {
  const panel_rows_args *p = t->p;
  code_bytes from = (code_bytes)p->x + (size_t)row * encoding_row_bytes(&p->encoding, p->row);
  float x[DECODED_AT_ONCE];
  for (int64_t k = 0; k < p->row; k += DECODED_AT_ONCE) {
    const int64_t n = p->row - k < DECODED_AT_ONCE ? p->row - k : DECODED_AT_ONCE;
    if (p->panels)
      codes_decode(&t->of, p->panels, row, k / DECODED_AT_ONCE, x);
    else
      encoding_decode(&p->encoding, from, p->row, k / DECODED_AT_ONCE, x);
    store_row(COMPUTE_F32, p->type, element_at(to, p->type, k), 1, n, x);
  }
}

static void pick_rows(void *ctx, int64_t begin, int64_t end) {
  const rows_task *t = ctx;
  const panel_rows_args *p = t->p;
  walk w = {.rank = p->index.rank, .dims = p->index.dims};
  walk_add(&w, p->index.strides);
  walk_seek(&w, begin);
  for (int64_t i = begin; i < end; i++, walk_next(&w)) {
    const int64_t row = load_row_index(t->ctx, &p->index, w.offset[0], p->rows);
    void *to = element_at(p->out, p->type, i * p->row);
    if (is_encoded(&p->encoding))
      decode_row(t, row, to);
    else
      copy_row(p, row, to);
  }
}

static bool panel_rows(const kernel_context *ctx, const void *args) {
  const panel_rows_args *p = args;
  rows_task t = {.ctx = ctx, .p = p};
  if (is_encoded(&p->encoding)) (void)code_panels_of(&p->encoding, p->row, &t.of);
  ctx->parallel_for(ctx->pool, p->n_picks, GRAIN / p->row + 1, pick_rows, &t);
  return true;
}

const kernel_desc kernel_panel_rows = {
    .name = "panel_rows",
    .run = panel_rows,
    .args_size = sizeof(panel_rows_args),
    .operands = {OPERAND(panel_rows_args, x), OPERAND(panel_rows_args, panels),
                 OPERAND(panel_rows_args, index), OPERAND(panel_rows_args, out)}};
