/* Elementwise steps over blocks. Floats narrower than F64 compute in float and are rounded to the
 * step's dtype after each step; integers and BOOL compute in int64_t and wrap. */
#include "backend/cpu/kernels/elementwise/step_rows.h"

#include <string.h>

#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/real_math.h"
#include "backend/cpu/kernels/support/walk.h"

enum { SLOT_SPACE = 64 /* bytes that keep row buffers out of each other's cache sets */ };

/* ---------------------------------------------------------------- one step over a block
 * xa, xb, xc: (n) operands (absent ones repeat xa); out: (n), of class real, or int64_t for BOOL
 * results. out may be one of the operands, or lie apart from all of them: iterations of a loop are
 * independent, which compilers cannot see. */

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* what calls functions has no vectors */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define LOOP_SAME(expression)                     \
  {                                               \
    real *y = out;                                \
    INDEPENDENT for (int64_t i = 0; i < n; i++) { \
      real a = xa[i], b = xb[i], c = xc[i];       \
      (void)b, (void)c;                           \
      y[i] = (real)(expression);                  \
    }                                             \
    break;                                        \
  }
#define LOOP_BOOL(expression)                     \
  {                                               \
    int64_t *y = out;                             \
    INDEPENDENT for (int64_t i = 0; i < n; i++) { \
      real a = xa[i], b = xb[i], c = xc[i];       \
      (void)b, (void)c;                           \
      y[i] = (expression) ? 1 : 0;                \
    }                                             \
    break;                                        \
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

KERNEL_INLINE void run_f32(int kind, int64_t n, const float *xa, const float *xb, const float *xc,
                           void *out) {
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

static void run_f64(int kind, int64_t n, const double *xa, const double *xb, const double *xc,
                    void *out) {
  typedef double real;
  switch (kind) { STEPS_FLOAT(FLOAT_STEP_LOOP) }
}

static void run_i64(int kind, int64_t n, const int64_t *xa, const int64_t *xb, const int64_t *xc,
                    void *out) {
  typedef int64_t real;
  switch (kind) { STEPS_INT(INT_STEP_LOOP) }
}

static void run_floats(int kind, int64_t n, const void *const x[STEP_ARITY], void *out) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    run_f32_avx512(kind, n, x[0], x[1], x[2], out);
    return;
  }
  if (cpu_has_avx2()) {
    run_f32_avx2(kind, n, x[0], x[1], x[2], out);
    return;
  }
#endif
  run_f32_portable(kind, n, x[0], x[1], x[2], out);
}

static void run_map(const kstep *s, int64_t n, const void *const x[STEP_ARITY], void *out) {
  compute_class c = compute_class_of(s->operand_type);
  if (c == COMPUTE_F64) run_f64(s->kind, n, x[0], x[1], x[2], out);
  if (c == COMPUTE_I64) run_i64(s->kind, n, x[0], x[1], x[2], out);
  if (c == COMPUTE_F32) run_floats(s->kind, n, x, out);
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

static size_t slot_bytes(int block) { return (size_t)block * 8 + SLOT_SPACE; }

size_t step_slots_bytes(const elementwise_head *h, int block) {
  return (size_t)(h->n_inputs + h->n_steps + h->n_constants) * slot_bytes(block);
}

step_list step_list_of(const elementwise_head *head, const ktensor *inputs, const kstep *steps,
                       int block) {
  step_list e = {.head = head, .inputs = inputs, .steps = steps, .block = block};
  e.floats = read_as_floats(&e);
  return e;
}

static compute_class input_class(const step_list *e, int k) {
  return e->floats >> k & 1 ? COMPUTE_F32 : compute_class_of(e->inputs[k].type);
}

static bool is_native(dtype t) { return t == DTYPE_F32 || t == DTYPE_F64 || t == DTYPE_I64; }

static compute_class operand_class(const kstep *s, int k) {
  return s->form == KSTEP_WHERE && k == 0 ? COMPUTE_I64 : compute_class_of(s->operand_type);
}

static void fill_constant(compute_class c, kstep_constant x, int n, void *slot) {
  float *f = slot;
  double *d = slot;
  int64_t *k = slot;
  for (int i = 0; i < n; i++) {
    if (c == COMPUTE_F32) f[i] = (float)x.f;
    if (c == COMPUTE_F64) d[i] = x.f;
    if (c == COMPUTE_I64) k[i] = x.i;
  }
}

static char *constant_slot(const step_list *e, char *slots, int index) {
  return slots + (size_t)(e->head->n_inputs + e->head->n_steps + index) * slot_bytes(e->block);
}

void step_slots_fill(const step_list *e, char *slots) {
  for (const kstep *s = e->steps; s < e->steps + e->head->n_steps; s++)
    for (int k = 0; k < s->arity; k++) {
      if (s->operands[k].source == KSTEP_CONSTANT)
        fill_constant(operand_class(s, k), s->constants[k], e->block,
                      constant_slot(e, slots, s->operands[k].index));
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
    const void *from = element_at(x->data, x->type, w.offset[0] + column * stride);
    char *to = slot + (size_t)done * compute_size(c);
    if (x->type == DTYPE_BF16 && stride == 1)
      widen_row(from, m, (float *)(void *)to);
    else
      load_row(c, x->type, from, stride, m, to);
    done += m;
  }
  return slot;
}

static void check_divisors(kernel_fault *fault, int64_t n, const int64_t *divisors) {
  bool zero = false;
  for (int64_t i = 0; i < n; i++) zero |= divisors[i] == 0;
  if (zero) kernel_fault_set(fault, KERNEL_FAULT_DIVISION, 0, 0, 0);
}

static void run_step(kernel_fault *fault, const kstep *s, int64_t n,
                     const void *const x[STEP_ARITY], void *out) {
  if (s->divides && compute_class_of(s->operand_type) == COMPUTE_I64)
    check_divisors(fault, n, x[1]);
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

/* True if the result is F32 that is kept as BF16. */
static bool keeps_bf16(const step_list *e) {
  const elementwise_head *h = e->head;
  return is_bf16(h->out_type) && e->steps[h->n_steps - 1].type == DTYPE_F32;
}

/* Steps over elements [at, at + n), n <= block. */
static void run_block(const step_list *e, kernel_fault *fault, char *slots, int64_t at, int64_t n) {
  const elementwise_head *h = e->head;
  const size_t slot = slot_bytes(e->block);
  const void *inputs[ELEMENTWISE_INPUTS];
  void *results[ELEMENTWISE_STEPS];
  const bool rounds = keeps_bf16(e);
  for (int k = 0; k < h->n_inputs; k++)
    inputs[k] = fetch(&e->inputs[k], input_class(e, k), at, n, slots + (size_t)k * slot);
  for (int s = 0; s < h->n_steps; s++) {
    const kstep *step = &e->steps[s];
    bool in_place = s == h->n_steps - 1 && is_native(step->type) && !rounds;
    results[s] =
        in_place ? element_at(h->out, step->type, at) : slots + (size_t)(h->n_inputs + s) * slot;
    const void *x[STEP_ARITY];
    for (int k = 0; k < STEP_ARITY; k++) {
      const kstep_operand *o = &step->operands[k < step->arity ? k : 0];
      x[k] = o->source == KSTEP_INPUT  ? inputs[o->index]
             : o->source == KSTEP_STEP ? results[o->index]
                                       : constant_slot(e, slots, o->index);
    }
    if (is_stored_cast(step) && s == h->n_steps - 1) {
      cast_row(step->type, element_at(h->out, step->type, at), n, x[0]);
      return;
    }
    if (is_float_already(e, step))
      memcpy(results[s], x[0], (size_t)n * sizeof(float));
    else
      run_step(fault, step, n, x, results[s]);
  }
  dtype type = e->steps[h->n_steps - 1].type;
  if (rounds)
    narrow_row(results[h->n_steps - 1], n, (uint16_t *)h->out + at);
  else if (!is_native(type))
    store_row(compute_class_of(type), type, element_at(h->out, type, at), 1, n,
              results[h->n_steps - 1]);
}

void step_rows_run(const step_list *e, kernel_fault *fault, char *slots, int64_t at, int64_t n) {
  for (int64_t i = 0; i < n; i += e->block)
    run_block(e, fault, slots, at + i, n - i < e->block ? n - i : e->block);
}

/* Whether it is one step of one input in F32. */
static bool is_single(const short_elementwise_args *p) {
  return p->head.n_inputs + p->head.n_steps + p->head.n_constants == 2 &&
         p->steps[0].form == KSTEP_MAP && p->steps[0].operand_type == DTYPE_F32;
}

/* A row by itself, in whole vectors. */
static void run_single(int kind, float *x, int64_t n) {
  enum { LANES = 16 };
  const int64_t whole = n / LANES * LANES, rest = n - whole;
  float last[LANES] = {0};
  if (whole > 0) run_floats(kind, whole, (const void *[]){x, x, x}, x);
  if (rest == 0) return;
  memcpy(last, x + whole, (size_t)rest * sizeof *x);
  run_floats(kind, LANES, (const void *[]){last, last, last}, last);
  memcpy(x + whole, last, (size_t)rest * sizeof *x);
}

/* A list with row buffers on the stack. */
static void run_list(const short_elementwise_args *p, float *values, int64_t at, int64_t n,
                     int64_t rows, int64_t pitch) {
  enum { BLOCK = 128 };
  _Alignas(64) char slots[STACK_SLOTS * (BLOCK * 8 + SLOT_SPACE)];
  /* where element 0 would be */
  float *first = (float *)((uintptr_t)values - (uintptr_t)at * sizeof *values);
  elementwise_head head = p->head;
  ktensor inputs[SHORT_INPUTS];
  memcpy(inputs, p->inputs, sizeof inputs);
  head.out = first;
  head.out_type = DTYPE_F32; /* which is rounded later */
  inputs[0] =
      (ktensor){.data = first, .type = DTYPE_F32, .rank = 1, .dims = {INT64_MAX}, .strides = {1}};
  const step_list e = step_list_of(&head, inputs, p->steps, BLOCK);
  step_slots_fill(&e, slots);
  for (int64_t i = 0; i < rows; i++) step_rows_run(&e, NULL, slots, at + i * pitch, n);
}

void steps_in_place(const short_elementwise_args *p, float *values, int64_t at, int64_t n,
                    int64_t rows, int64_t pitch) {
  if (p->head.n_steps == 0) return;
  if (n == pitch) {
    n *= rows;
    rows = 1;
  }
  if (!is_single(p)) {
    run_list(p, values, at, n, rows, pitch);
    return;
  }
  for (int64_t i = 0; i < rows; i++) run_single(p->steps[0].kind, values + i * pitch, n);
}
