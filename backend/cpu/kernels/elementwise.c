/* Runs a list of elementwise steps over blocks of ROW_BLOCK elements. Floats narrower than F64
 * compute in float and are rounded to the step's dtype after each step; integers and BOOL compute
 * in int64_t and wrap. */
#include "backend/cpu/kernels/elementwise.h"

#include <string.h>
#include <tgmath.h>

#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/steps.h"
#include "backend/cpu/kernels/walk.h"

enum {
  SLOT = ROW_BLOCK * 8 +
         64,        /* bytes of a row buffer; the 64 keep them out of each other's cache sets */
  GRAIN = 32 * 1024 /* element steps that are worth a thread */
};

/* ---------------------------------------------------------------- one step over a block
 * xa, xb, xc: (n) operands (absent ones repeat xa); out: (n), of class real, or int64_t for BOOL
 * results. */

#define LOOP_SAME(expression)               \
  {                                         \
    real *restrict y = out;                 \
    for (int64_t i = 0; i < n; i++) {       \
      real a = xa[i], b = xb[i], c = xc[i]; \
      (void)b, (void)c;                     \
      y[i] = (real)(expression);            \
    }                                       \
    break;                                  \
  }
#define LOOP_BOOL(expression)               \
  {                                         \
    int64_t *restrict y = out;              \
    for (int64_t i = 0; i < n; i++) {       \
      real a = xa[i], b = xb[i], c = xc[i]; \
      (void)b, (void)c;                     \
      y[i] = (expression) ? 1 : 0;          \
    }                                       \
    break;                                  \
  }
/* A compiled program is built with the kinds of steps that it has, as bits; the library with all.
 */
#ifndef KERNEL_FLOAT_STEPS
#define KERNEL_FLOAT_STEPS ~UINT64_C(0), ~UINT64_C(0)
#define KERNEL_INT_STEPS ~UINT64_C(0), ~UINT64_C(0)
#endif
_Static_assert(FLOAT_STEP_COUNT <= 128 && INT_STEP_COUNT <= 128, "two words of bits");
static inline bool has_step(int kind, uint64_t low, uint64_t high) {
  return ((kind < 64 ? low : high) >> (kind & 63) & 1) != 0;
}

#define LOOP_WHERE(expression) break; /* by run_where */
#define LOOP_CAST(expression) break;  /* by run_cast */
#define FLOAT_STEP_LOOP(NAME, name, arity, result, expression)   \
  case FLOAT_STEP_##NAME:                                        \
    if (!has_step(FLOAT_STEP_##NAME, KERNEL_FLOAT_STEPS)) break; \
    LOOP_##result(expression)
#define INT_STEP_LOOP(NAME, name, arity, result, expression) \
  case INT_STEP_##NAME:                                      \
    if (!has_step(INT_STEP_##NAME, KERNEL_INT_STEPS)) break; \
    LOOP_##result(expression)

KERNEL_INLINE void run_f32(int kind, int64_t n, const float *restrict xa, const float *restrict xb,
                           const float *restrict xc, void *restrict out) {
  typedef float real;
  switch (kind) { STEPS_FLOAT(FLOAT_STEP_LOOP) }
}

static void run_f32_portable(int kind, int64_t n, const float *xa, const float *xb, const float *xc,
                             void *out) {
  run_f32(kind, n, xa, xb, xc, out);
}
#if KERNEL_X86
TARGET_AVX2 static void run_f32_avx2(int kind, int64_t n, const float *xa, const float *xb,
                                     const float *xc, void *out) {
  run_f32(kind, n, xa, xb, xc, out);
}
TARGET_AVX512 static void run_f32_avx512(int kind, int64_t n, const float *xa, const float *xb,
                                         const float *xc, void *out) {
  run_f32(kind, n, xa, xb, xc, out);
}
#endif

static void run_f64(int kind, int64_t n, const double *restrict xa, const double *restrict xb,
                    const double *restrict xc, void *restrict out) {
  typedef double real;
  switch (kind) { STEPS_FLOAT(FLOAT_STEP_LOOP) }
}

static void run_i64(int kind, int64_t n, const int64_t *restrict xa, const int64_t *restrict xb,
                    const int64_t *restrict xc, void *restrict out) {
  typedef int64_t real;
  switch (kind) { STEPS_INT(INT_STEP_LOOP) }
}

static void run_map(const kstep *s, int64_t n, const void *const x[STEP_ARITY], void *out) {
  compute_class c = compute_class_of(s->operand_type);
  if (c == COMPUTE_F64) run_f64(s->kind, n, x[0], x[1], x[2], out);
  if (c == COMPUTE_I64) run_i64(s->kind, n, x[0], x[1], x[2], out);
  if (c != COMPUTE_F32) return;
#if KERNEL_X86
  if (cpu_has_avx512()) {
    run_f32_avx512(s->kind, n, x[0], x[1], x[2], out);
    return;
  }
  if (cpu_has_avx2()) {
    run_f32_avx2(s->kind, n, x[0], x[1], x[2], out);
    return;
  }
#endif
  run_f32_portable(s->kind, n, x[0], x[1], x[2], out);
}

static void run_where(compute_class c, int64_t n, const void *const x[STEP_ARITY], void *out) {
  const int64_t *condition = x[0];
  if (c == COMPUTE_F32) {
    const float *a = x[1], *b = x[2];
    float *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = condition[i] != 0 ? a[i] : b[i];
  } else { /* 8-byte elements move as bits */
    const uint64_t *a = x[1], *b = x[2];
    uint64_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = condition[i] != 0 ? a[i] : b[i];
  }
}

/* Floats to integers as PyTorch on x86: through int64_t for I64 and U32, through int32_t for
 * narrower ones (then they wrap); what does not fit there gives that type's least value. Which
 * value it gives is no promise. */
static int64_t cast_to_int(dtype to, double x) {
  if (to == DTYPE_BOOL) return x != 0;
  if (to == DTYPE_I64 || to == DTYPE_U32) return float_to_i64(x);
  if (to == DTYPE_U64) return float_to_u64(x);
  return x > -2147483649.0 && x < 2147483648.0 ? (int64_t)x : INT32_MIN;
}

/* Between floats and integers of 32 bits processors have vectors of conversions. */
static bool floats_fit_32_bits(int64_t n, const float *x) {
  int others = 0;
  for (int64_t i = 0; i < n; i++) others |= !(x[i] > -0x1p31F && x[i] < 0x1p31F);
  return !others;
}
static bool integers_fit_32_bits(int64_t n, const int64_t *x) {
  int64_t others = 0;
  for (int64_t i = 0; i < n; i++) others |= x[i] ^ (int32_t)x[i];
  return !others;
}

static void cast_from_f32(dtype to, int64_t n, const float *x, void *out) {
  float *f = out;
  double *d = out;
  int64_t *k = out;
  compute_class c = compute_class_of(to);
  if (c == COMPUTE_F32) memcpy(f, x, (size_t)n * sizeof *f);
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] = (double)x[i];
  if (c == COMPUTE_I64 && to != DTYPE_BOOL && floats_fit_32_bits(n, x))
    for (int64_t i = 0; i < n; i++) k[i] = (int32_t)x[i];
  else if (c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++) k[i] = cast_to_int(to, (double)x[i]);
}

/* F64 to what is narrower than F32: PyTorch rounds to F32 on the way to 8-bit floats. */
static bool rounds_once(dtype to) { return to == DTYPE_F16 || to == DTYPE_BF16; }

static void cast_from_f64(dtype to, int64_t n, const double *x, void *out) {
  float *f = out;
  int64_t *k = out;
  compute_class c = compute_class_of(to);
  if (c == COMPUTE_F64) memcpy(out, x, (size_t)n * sizeof *x);
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = rounds_once(to) ? narrow_to_odd(x[i]) : (float)x[i];
  if (c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++) k[i] = cast_to_int(to, x[i]);
}

static void cast_from_u64(dtype to, int64_t n, const uint64_t *x, void *out) {
  float *f = out;
  double *d = out;
  compute_class c = compute_class_of(to);
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] = (double)x[i];
}

static void cast_from_i64(const kstep *s, int64_t n, const int64_t *x, void *out) {
  float *f = out;
  double *d = out;
  compute_class c = compute_class_of(s->type);
  if (c == COMPUTE_I64) {
    memcpy(out, x, (size_t)n * sizeof *x);
    return;
  }
  if (s->operand_type == DTYPE_U64) {
    cast_from_u64(s->type, n, (const uint64_t *)x, out);
    return;
  }
  if (c == COMPUTE_F32 && integers_fit_32_bits(n, x))
    for (int64_t i = 0; i < n; i++) f[i] = (float)(int32_t)x[i];
  else if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] = (double)x[i];
}

static void run_cast(const kstep *s, int64_t n, const void *x, void *out) {
  compute_class c = compute_class_of(s->operand_type);
  if (c == COMPUTE_F32) cast_from_f32(s->type, n, x, out);
  if (c == COMPUTE_F64) cast_from_f64(s->type, n, x, out);
  if (c == COMPUTE_I64) cast_from_i64(s, n, x, out);
}

/* ---------------------------------------------------------------- a range of the output */

/* The arguments of either kernel. */
typedef struct step_list {
  const elementwise_head *head;
  const ktensor *inputs;
  const kstep *steps;
  uint32_t floats; /* bit k: input k, of small integers, is read as floats (read_as_floats) */
} step_list;

typedef struct task {
  const step_list *e;
  const kernel_context *ctx;
  char *slots; /* (n_tasks, n_slots, SLOT) */
  int64_t n_tasks;
} task;

/* Whether all that is done with an input of small integers is to make floats of it. */
static bool is_made_floats(const step_list *e, int input) {
  if (!is_small_int(e->inputs[input].type)) return false;
  for (const kstep *s = e->steps; s < e->steps + e->head->n_steps; s++)
    for (int k = 0; k < s->arity; k++)
      if (s->operands[k].source == KSTEP_INPUT && s->operands[k].index == input &&
          !(s->form == KSTEP_CAST && s->type == DTYPE_F32))
        return false;
  return true;
}

static uint32_t read_as_floats(const step_list *e) {
  uint32_t floats = 0;
  for (int k = 0; k < e->head->n_inputs; k++)
    if (is_made_floats(e, k)) floats |= UINT32_C(1) << k;
  return floats;
}

/* A cast of floats that is the result: it is made where it is stored. */
static bool is_stored_cast(const kstep *s) {
  return s->form == KSTEP_CAST && compute_class_of(s->operand_type) == COMPUTE_F32 &&
         is_small_int(s->type);
}

static int slot_count(const elementwise_head *h) {
  return h->n_inputs + h->n_steps + h->n_constants;
}

static compute_class input_class(const step_list *e, int k) {
  return e->floats >> k & 1 ? COMPUTE_F32 : compute_class_of(e->inputs[k].type);
}

static bool is_native(dtype t) { return t == DTYPE_F32 || t == DTYPE_F64 || t == DTYPE_I64; }

static compute_class operand_class(const kstep *s, int k) {
  return s->form == KSTEP_WHERE && k == 0 ? COMPUTE_I64 : compute_class_of(s->operand_type);
}

static void fill_constant(compute_class c, kstep_constant x, void *slot) {
  float *f = slot;
  double *d = slot;
  int64_t *k = slot;
  for (int i = 0; i < ROW_BLOCK; i++) {
    if (c == COMPUTE_F32) f[i] = (float)x.f;
    if (c == COMPUTE_F64) d[i] = x.f;
    if (c == COMPUTE_I64) k[i] = x.i;
  }
}

static char *constant_slot(const elementwise_head *h, char *slots, int index) {
  return slots + (size_t)(h->n_inputs + h->n_steps + index) * SLOT;
}

static void fill_constants(const step_list *e, char *slots) {
  for (const kstep *s = e->steps; s < e->steps + e->head->n_steps; s++)
    for (int k = 0; k < s->arity; k++) {
      if (s->operands[k].source == KSTEP_CONSTANT)
        fill_constant(operand_class(s, k), s->constants[k],
                      constant_slot(e->head, slots, s->operands[k].index));
    }
}

/* Elements [at, at + n) of x in row-major order, in class c: in place if that is what is stored
 * there, else gathered row by row into `slot`. */
static const void *fetch(const ktensor *x, compute_class c, int64_t at, int64_t n, char *slot) {
  int last = x->rank - 1;
  int64_t row = x->rank > 0 ? x->dims[last] : n, stride = x->rank > 0 ? x->strides[last] : 0;
  int64_t column = x->rank > 0 ? at % row : 0;
  walk w = {.rank = last > 0 ? last : 0, .dims = x->dims};
  walk_add(&w, x->strides);
  walk_seek(&w, x->rank > 1 ? at / row : 0);
  if (stride == 1 && column + n <= row && is_native(x->type))
    return element_at(x->data, x->type, w.offset[0] + column);
  for (int64_t done = 0; done < n; walk_next(&w), column = 0) {
    int64_t m = row - column < n - done ? row - column : n - done;
    load_row(c, x->type, element_at(x->data, x->type, w.offset[0] + column * stride), stride, m,
             slot + (size_t)done * compute_size(c));
    done += m;
  }
  return slot;
}

static void check_divisors(const kernel_context *ctx, int64_t n, const int64_t *divisors) {
  bool zero = false;
  for (int64_t i = 0; i < n; i++) zero |= divisors[i] == 0;
  if (zero) kernel_fault_set(ctx->fault, KERNEL_FAULT_DIVISION, 0, 0, 0);
}

static void run_step(const task *t, const kstep *s, int64_t n, const void *const x[STEP_ARITY],
                     void *out) {
  if (s->divides && compute_class_of(s->operand_type) == COMPUTE_I64)
    check_divisors(t->ctx, n, x[1]);
  if (s->form == KSTEP_MAP || s->form == KSTEP_BOOL) run_map(s, n, x, out);
  if (s->form == KSTEP_WHERE) run_where(compute_class_of(s->operand_type), n, x, out);
  if (s->form == KSTEP_CAST) run_cast(s, n, x[0], out);
  if (s->form == KSTEP_BOOL) return;
  if (compute_class_of(s->type) == COMPUTE_F32) round_row(s->type, out, n);
  if (compute_class_of(s->type) == COMPUTE_I64) wrap_row(s->type, out, n);
}

/* The cast of an input that was read as floats. */
static bool is_float_already(const step_list *e, const kstep *s) {
  return s->operands[0].source == KSTEP_INPUT && e->floats >> s->operands[0].index & 1;
}

/* Steps over elements [at, at + n), n <= ROW_BLOCK. */
static void run_block(const task *t, char *slots, int64_t at, int64_t n) {
  const step_list *e = t->e;
  const elementwise_head *h = e->head;
  const void *inputs[ELEMENTWISE_INPUTS];
  void *results[ELEMENTWISE_STEPS];
  for (int k = 0; k < h->n_inputs; k++)
    inputs[k] = fetch(&e->inputs[k], input_class(e, k), at, n, slots + (size_t)k * SLOT);
  for (int s = 0; s < h->n_steps; s++) {
    const kstep *step = &e->steps[s];
    bool in_place = s == h->n_steps - 1 && is_native(step->type);
    results[s] =
        in_place ? element_at(h->out, step->type, at) : slots + (size_t)(h->n_inputs + s) * SLOT;
    const void *x[STEP_ARITY];
    for (int k = 0; k < STEP_ARITY; k++) {
      const kstep_operand *o = &step->operands[k < step->arity ? k : 0];
      x[k] = o->source == KSTEP_INPUT  ? inputs[o->index]
             : o->source == KSTEP_STEP ? results[o->index]
                                       : constant_slot(h, slots, o->index);
    }
    if (is_stored_cast(step) && s == h->n_steps - 1) {
      cast_row(step->type, element_at(h->out, step->type, at), n, x[0]);
      return;
    }
    if (is_float_already(e, step))
      memcpy(results[s], x[0], (size_t)n * sizeof(float));
    else
      run_step(t, step, n, x, results[s]);
  }
  dtype type = e->steps[h->n_steps - 1].type;
  if (!is_native(type))
    store_row(compute_class_of(type), type, element_at(h->out, type, at), 1, n,
              results[h->n_steps - 1]);
}

static void run_tasks(void *ctx, int64_t begin, int64_t end) {
  const task *t = ctx;
  const elementwise_head *h = t->e->head;
  int64_t share = (h->n + t->n_tasks - 1) / t->n_tasks;
  share = (share + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
  for (int64_t k = begin; k < end; k++) {
    char *slots = t->slots + (size_t)k * (size_t)slot_count(h) * SLOT;
    fill_constants(t->e, slots);
    int64_t stop = (k + 1) * share < h->n ? (k + 1) * share : h->n;
    for (int64_t at = k * share; at < stop; at += ROW_BLOCK)
      run_block(t, slots, at, stop - at < ROW_BLOCK ? stop - at : ROW_BLOCK);
  }
}

static int64_t task_count(const kernel_context *ctx, const elementwise_head *h) {
  int64_t wanted = (h->n / GRAIN + 1) * h->n_steps;
  if (h->n * h->n_steps <= 2 * GRAIN) return 1;
  return wanted < ctx->n_threads ? wanted : ctx->n_threads;
}

/* args of either kernel: both begin with the head. */
static size_t list_scratch(const kernel_context *ctx, const void *args) {
  const elementwise_head *h = args;
  return h->n == 0 ? 0 : (size_t)task_count(ctx, h) * (size_t)slot_count(h) * SLOT;
}

static bool run_list(const kernel_context *ctx, step_list *e) {
  if (e->head->n == 0) return true;
  e->floats = read_as_floats(e);
  task t = {.e = e, .ctx = ctx, .n_tasks = task_count(ctx, e->head)};
  t.slots = ctx->scratch(ctx->pool, list_scratch(ctx, e->head));
  if (!t.slots) return false;
  ctx->parallel_for(ctx->pool, t.n_tasks, 1, run_tasks, &t);
  return true;
}

static bool run_long(const kernel_context *ctx, const void *args) {
  const elementwise_args *p = args;
  return run_list(ctx, &(step_list){&p->head, p->inputs, p->steps, 0});
}

static bool run_short(const kernel_context *ctx, const void *args) {
  const short_elementwise_args *p = args;
  return run_list(ctx, &(step_list){&p->head, p->inputs, p->steps, 0});
}

const kernel_desc kernel_elementwise = {
    .name = "elementwise",
    .run = run_long,
    .scratch = list_scratch,
    .args_size = sizeof(elementwise_args),
    .operands = {OPERAND(elementwise_args, head.out), OPERAND(elementwise_args, inputs[0]),
                 OPERAND(elementwise_args, inputs[1]), OPERAND(elementwise_args, inputs[2]),
                 OPERAND(elementwise_args, inputs[3]), OPERAND(elementwise_args, inputs[4]),
                 OPERAND(elementwise_args, inputs[5]), OPERAND(elementwise_args, inputs[6]),
                 OPERAND(elementwise_args, inputs[7])}};

const kernel_desc kernel_short_elementwise = {
    .name = "short_elementwise",
    .run = run_short,
    .scratch = list_scratch,
    .args_size = sizeof(short_elementwise_args),
    .operands = {
        OPERAND(short_elementwise_args, head.out), OPERAND(short_elementwise_args, inputs[0]),
        OPERAND(short_elementwise_args, inputs[1]), OPERAND(short_elementwise_args, inputs[2])}};
