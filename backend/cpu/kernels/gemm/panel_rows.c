/* Picks rows of a table, from the panels of a product if they exist. */
#include "backend/cpu/kernels/gemm/panel_rows.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

typedef struct rows_task {
  const kernel_context *ctx;
  const panel_rows_args *args;
  code_panels of; /* layout of an encoded table */
} rows_task;

static void kernel_panel_rows_copy_row(const panel_rows_args *args, int64_t row, void *to) {
  const gemm_b gemm_b = {.type = args->x_type, .n = args->rows, .k = args->row};
  if (args->panels)
    gemm_b_column(&gemm_b, args->panels, row, to);
  else
    memcpy(to, element_at(args->x, args->x_type, row * args->row),
           (size_t)args->row * dtype_size(args->x_type));
}

static void kernel_panel_rows_decode_row(const rows_task *task, int64_t row, void *to) {
  const panel_rows_args *args = task->args;
  code_bytes from =
      (code_bytes)args->x + (size_t)row * encoding_row_bytes(&args->encoding, args->row);
  float x[DECODED_AT_ONCE];
  for (int64_t k = 0; k < args->row; k += DECODED_AT_ONCE) {
    const int64_t n = args->row - k < DECODED_AT_ONCE ? args->row - k : DECODED_AT_ONCE;
    if (args->panels)
      codes_decode(&task->of, args->panels, row, k / DECODED_AT_ONCE, x);
    else
      encoding_decode(&args->encoding, from, args->row, k / DECODED_AT_ONCE, x);
    store_row(COMPUTE_F32, args->type, element_at(to, args->type, k), 1, n, x);
  }
}

static void pick_rows(void *ctx, int64_t begin, int64_t end) {
  const rows_task *task = ctx;
  const panel_rows_args *args = task->args;
  walk w = {.rank = args->index.rank, .dims = args->index.dims};
  walk_add(&w, args->index.strides);
  walk_seek(&w, begin);
  for (int64_t i = begin; i < end; i++, walk_next(&w)) {
    const int64_t row = load_row_index(task->ctx, &args->index, w.offset[0], args->rows);
    void *to = element_at(args->out, args->type, i * args->row);
    if (is_encoded(&args->encoding))
      kernel_panel_rows_decode_row(task, row, to);
    else
      kernel_panel_rows_copy_row(args, row, to);
  }
}

static bool gemm_kernel_panel_rows(const kernel_context *ctx, const void *args) {
  const panel_rows_args *own = args;
  rows_task task = {.ctx = ctx, .args = own};
  if (is_encoded(&own->encoding)) (void)code_panels_of(&own->encoding, own->row, &task.of);
  ctx->parallel_for(ctx->pool, own->n_picks, GRAIN / own->row + 1, pick_rows, &task);
  return true;
}

const kernel_desc kernel_panel_rows = {
    .name = "panel_rows",
    .run = gemm_kernel_panel_rows,
    .args_size = sizeof(panel_rows_args),
    .operands = {OPERAND(panel_rows_args, x), OPERAND(panel_rows_args, panels),
                 OPERAND(panel_rows_args, index), OPERAND(panel_rows_args, out)}};
