/* Rope: rotates each head's row in blocks of pairs, in float, or in double for F64. */
#include "backend/cpu/kernels/rope.h"

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 8 * 1024 /* elements that justify waking a thread */ };

typedef struct rope_task {
  const rope_args *args;
  compute_type c;
} rope_task;

/* One block of up to ROW_BLOCK pairs. */
typedef struct rope_block {
  row_block a, b, cos, sin;
} rope_block;

static void turn_f32(rope_block *block, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float a = block->a.f32[i], b = block->b.f32[i];
    block->a.f32[i] = a * block->cos.f32[i] - b * block->sin.f32[i];
    block->b.f32[i] = b * block->cos.f32[i] + a * block->sin.f32[i];
  }
}

static void turn_f64(rope_block *block, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double a = block->a.f64[i], b = block->b.f64[i];
    block->a.f64[i] = a * block->cos.f64[i] - b * block->sin.f64[i];
    block->b.f64[i] = b * block->cos.f64[i] + a * block->sin.f64[i];
  }
}

/* Rotates the row of n_pairs pairs at x by row `angles` of the tables. */
static void kernel_rope_rotate_row(const rope_task *task, const void *x, int64_t angles,
                                   void *out) {
  const rope_args *args = task->args;
  int64_t stride = args->interleaved ? 2 : 1, other = args->interleaved ? 1 : args->n_pairs;
  dtype from = args->x.type, to = args->out.type, cos = args->cos.type, sin = args->sin.type;
  rope_block block;
  for (int64_t i = 0; i < args->n_pairs; i += ROW_BLOCK) {
    int64_t n = args->n_pairs - i < ROW_BLOCK ? args->n_pairs - i : ROW_BLOCK,
            angle = angles * args->n_pairs + i;
    load_row(task->c, from, element_at(x, from, i * stride), stride, n, &block.a);
    load_row(task->c, from, element_at(x, from, i * stride + other), stride, n, &block.b);
    load_row(task->c, cos, element_at(args->cos.data, cos, angle), 1, n, &block.cos);
    load_row(task->c, sin, element_at(args->sin.data, sin, angle), 1, n, &block.sin);
    if (task->c == COMPUTE_F64) {
      turn_f64(&block, n);
    } else {
      turn_f32(&block, n);
    }
    store_row(task->c, to, element_at(out, to, i * stride), stride, n, &block.a);
    store_row(task->c, to, element_at(out, to, i * stride + other), stride, n, &block.b);
  }
}

static void kernel_rope_turn_rows(void *ctx, int64_t begin, int64_t end) {
  const rope_task *task = ctx;
  const rope_args *args = task->args;
  walk w = {.rank = args->x.rank, .dims = args->x.dims};
  walk_add(&w, args->x.strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w))
    kernel_rope_rotate_row(task, element_at(args->x.data, args->x.type, w.offset[0]),
                           r / args->n_heads % args->n_angles,
                           element_at(args->out.data, args->out.type, r * 2 * args->n_pairs));
}

static bool rope(const kernel_context *ctx, const void *args) {
  rope_task task = {.args = args};
  task.c = task.args->x.type == DTYPE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  if (task.args->n_pairs > 0)
    ctx->parallel_for(ctx->pool, task.args->n_rows, GRAIN / (2 * task.args->n_pairs) + 1,
                      kernel_rope_turn_rows, &task);
  return true;
}

const kernel_desc kernel_rope = {.name = "rope",
                                 .run = rope,
                                 .args_size = sizeof(rope_args),
                                 .operands = {OPERAND(rope_args, x), OPERAND(rope_args, cos),
                                              OPERAND(rope_args, sin), OPERAND(rope_args, out)}};
