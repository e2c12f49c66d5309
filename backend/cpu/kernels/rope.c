/* Rope: each head's row in blocks of pairs; in float, or in double for F64. */
#include "backend/cpu/kernels/rope.h"

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 8 * 1024 /* elements worth a thread */ };

typedef struct rope_task {
  const rope_args *p;
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

/* The row of n_pairs pairs at x, by row `angles` of the tables. */
static void turn_row(const rope_task *t, const void *x, int64_t angles, void *out) {
  const rope_args *p = t->p;
  int64_t step = p->interleaved ? 2 : 1, other = p->interleaved ? 1 : p->n_pairs;
  dtype from = p->x.type, to = p->out.type, cos = p->cos.type, sin = p->sin.type;
  rope_block r;
  for (int64_t i = 0; i < p->n_pairs; i += ROW_BLOCK) {
    int64_t n = p->n_pairs - i < ROW_BLOCK ? p->n_pairs - i : ROW_BLOCK,
            angle = angles * p->n_pairs + i;
    load_row(t->c, from, element_at(x, from, i * step), step, n, &r.a);
    load_row(t->c, from, element_at(x, from, i * step + other), step, n, &r.b);
    load_row(t->c, cos, element_at(p->cos.data, cos, angle), 1, n, &r.cos);
    load_row(t->c, sin, element_at(p->sin.data, sin, angle), 1, n, &r.sin);
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
  const rope_args *p = t->p;
  walk w = {.rank = p->x.rank, .dims = p->x.dims};
  walk_add(&w, p->x.strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w))
    turn_row(t, element_at(p->x.data, p->x.type, w.offset[0]), r / p->n_heads % p->n_angles,
             element_at(p->out.data, p->out.type, r * 2 * p->n_pairs));
}

static bool rope(const kernel_context *ctx, const void *args) {
  rope_task t = {.p = args};
  t.c = t.p->x.type == DTYPE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  if (t.p->n_pairs > 0)
    ctx->parallel_for(ctx->pool, t.p->n_rows, GRAIN / (2 * t.p->n_pairs) + 1, turn_rows, &t);
  return true;
}

const kernel_desc kernel_rope = {.name = "rope",
                                 .run = rope,
                                 .args_size = sizeof(rope_args),
                                 .operands = {OPERAND(rope_args, x), OPERAND(rope_args, cos),
                                              OPERAND(rope_args, sin), OPERAND(rope_args, out)}};
