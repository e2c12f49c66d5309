/* Rope: each head's row in blocks of pairs; in float, or in double for F64. */
#include "backend/cpu/kernels/rope.h"

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/walk.h"

typedef struct rope_task {
  const ktensor *x, *cos, *sin, *out;
  bool interleaved;
  compute_class c;
} rope_task;

/* One block of up to ROW_BLOCK pairs. */
typedef struct rope_block {
  row_block a, b, cos, sin;
} rope_block;

static void turn_f32(rope_block *r, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float a = r->a.f32[i], b = r->b.f32[i];
    r->a.f32[i] = a * r->cos.f32[i] - b * r->sin.f32[i];
    r->b.f32[i] = b * r->cos.f32[i] + a * r->sin.f32[i];
  }
}

static void turn_f64(rope_block *r, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double a = r->a.f64[i], b = r->b.f64[i];
    r->a.f64[i] = a * r->cos.f64[i] - b * r->sin.f64[i];
    r->b.f64[i] = b * r->cos.f64[i] + a * r->sin.f64[i];
  }
}

/* The row of head_dim elements at x, at the angles of row `position`. */
static void turn_row(const rope_task *t, const void *x, int64_t position, void *out) {
  int64_t half = t->x->dims[t->x->rank - 1] / 2, step = t->interleaved ? 2 : 1,
          other = t->interleaved ? 1 : half;
  dtype from = t->x->type, to = t->out->type;
  rope_block r;
  for (int64_t i = 0; i < half; i += ROW_BLOCK) {
    int64_t n = half - i < ROW_BLOCK ? half - i : ROW_BLOCK;
    load_row(t->c, from, element_at(x, from, i * step), step, n, &r.a);
    load_row(t->c, from, element_at(x, from, i * step + other), step, n, &r.b);
    load_row(t->c, t->cos->type, element_at(t->cos->data, t->cos->type, position * half + i), 1, n,
             &r.cos);
    load_row(t->c, t->sin->type, element_at(t->sin->data, t->sin->type, position * half + i), 1, n,
             &r.sin);
    if (t->c == COMPUTE_F64) {
      turn_f64(&r, n);
    } else {
      turn_f32(&r, n);
    }
    store_row(t->c, to, element_at(out, to, i * step), step, n, &r.a);
    store_row(t->c, to, element_at(out, to, i * step + other), step, n, &r.b);
  }
}

static void turn_rows(void *ctx, int64_t begin, int64_t end) {
  const rope_task *t = ctx;
  const ktensor *x = t->x;
  int last = x->rank - 1;
  walk w = {.rank = last, .dims = x->dims};
  walk_add(&w, x->strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w))
    turn_row(t, element_at(x->data, x->type, w.offset[0]), w.index[last - 2],
             element_at(t->out->data, t->out->type, r * x->dims[last]));
}

void kernel_rope(const kernel_context *ctx, const ktensor *x, const ktensor *cos,
                 const ktensor *sin, bool interleaved, const ktensor *out) {
  int64_t n = ktensor_numel(x);
  if (n == 0) return;
  rope_task t = {.x = x, .cos = cos, .sin = sin, .out = out, .interleaved = interleaved};
  t.c = x->type == DTYPE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  int64_t row = x->dims[x->rank - 1];
  ctx->parallel_for(ctx->pool, n / row, 8 * 1024 / row + 1, turn_rows, &t);
}
