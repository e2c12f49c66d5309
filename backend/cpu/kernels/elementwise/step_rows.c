/* Elementwise steps over blocks. Float types below F64 compute in float and are rounded to the
 * step's dtype after each step; integers and BOOL compute in int64_t and wrap. */
#include "backend/cpu/kernels/elementwise/step_rows.h"

#include <string.h>

#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/real_math.h"
#include "backend/cpu/kernels/support/walk.h"

enum { SLOT_SPACE = 64 /* bytes between row buffers, which put them in different cache sets */ };

/* ---------------------------------------------------------------- one step over a block
 * xa, xb, xc: (n) operands (absent ones repeat xa); out: (n), of class real, or int64_t for BOOL
 * results. out is one of the operands or overlaps none of them. Hence iterations of a loop are
 * independent, which compilers cannot prove. */

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops with calls are not vectorised */
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
/* The kinds of steps to compile, as bits: a compiled program has those that it uses, the library
 * all. */
#ifndef KERNEL_FLOAT_STEPS
#define KERNEL_FLOAT_STEPS ~UINT64_C(0), ~UINT64_C(0)
#define KERNEL_INT_STEPS ~UINT64_C(0), ~UINT64_C(0)
#endif
_Static_assert(FLOAT_STEP_COUNT <= 128 && INT_STEP_COUNT <= 128, "two words of bits");
static inline bool has_step(int kind, uint64_t low, uint64_t high) {
  return ((kind < 64 ? low : high) >> (kind & 63) & 1) != 0;
}

#define LOOP_WHERE(expression) break; /* handled by run_where */
#define LOOP_CAST(expression) break;  /* handled by run_cast */
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

static void run_map(const kstep *kstep, int64_t n, const void *const x[STEP_ARITY], void *out) {
  compute_type c = compute_type_of(kstep->operand_type);
  if (c == COMPUTE_F64) run_f64(kstep->kind, n, x[0], x[1], x[2], out);
  if (c == COMPUTE_I64) run_i64(kstep->kind, n, x[0], x[1], x[2], out);
  if (c == COMPUTE_F32) run_floats(kstep->kind, n, x, out);
}

static void run_where(compute_type c, int64_t n, const void *const x[STEP_ARITY], void *out) {
  const int64_t *condition = x[0];
  if (c == COMPUTE_F32) {
    const float *a = x[1], *b = x[2];
    float *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = condition[i] != 0 ? a[i] : b[i];
  } else { /* 8-byte elements are moved as bits */
    const uint64_t *a = x[1], *b = x[2];
    uint64_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = condition[i] != 0 ? a[i] : b[i];
  }
}

/* Converts floats to integers like PyTorch on x86: through int64_t for I64 and U32, through int32_t
 * for smaller types, which then wrap. A value that does not fit becomes the minimum of that type,
 * which is not a guarantee. */
static int64_t cast_to_int(dtype to, double x) {
  if (to == DTYPE_BOOL) return x != 0;
  if (to == DTYPE_I64 || to == DTYPE_U32) return float_to_i64(x);
  if (to == DTYPE_U64) return float_to_u64(x);
  return x > -2147483649.0 && x < 2147483648.0 ? (int64_t)x : INT32_MIN;
}

/* True if all floats fit 32 bits; only conversions to integers of 32 bits are vectorised. */
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
  compute_type c = compute_type_of(to);
  if (c == COMPUTE_F32) memcpy(f, x, (size_t)n * sizeof *f);
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] = (double)x[i];
  if (c == COMPUTE_I64 && to != DTYPE_BOOL && floats_fit_32_bits(n, x))
    for (int64_t i = 0; i < n; i++) k[i] = (int32_t)x[i];
  else if (c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++) k[i] = cast_to_int(to, (double)x[i]);
}

/* True if PyTorch casts F64 to this type, smaller than F32, with one rounding. Casts to 8-bit
 * floats round to F32 first. */
static bool rounds_once(dtype to) { return to == DTYPE_F16 || to == DTYPE_BF16; }

static void cast_from_f64(dtype to, int64_t n, const double *x, void *out) {
  float *f = out;
  int64_t *k = out;
  compute_type c = compute_type_of(to);
  if (c == COMPUTE_F64) memcpy(out, x, (size_t)n * sizeof *x);
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = rounds_once(to) ? round_to_odd(x[i]) : (float)x[i];
  if (c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++) k[i] = cast_to_int(to, x[i]);
}

static void cast_from_u64(dtype to, int64_t n, const uint64_t *x, void *out) {
  float *f = out;
  double *d = out;
  compute_type c = compute_type_of(to);
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] = (double)x[i];
}

static void cast_from_i64(const kstep *kstep, int64_t n, const int64_t *x, void *out) {
  float *f = out;
  double *d = out;
  compute_type c = compute_type_of(kstep->type);
  if (c == COMPUTE_I64) {
    memcpy(out, x, (size_t)n * sizeof *x);
    return;
  }
  if (kstep->operand_type == DTYPE_U64) {
    cast_from_u64(kstep->type, n, (const uint64_t *)x, out);
    return;
  }
  if (c == COMPUTE_F32 && integers_fit_32_bits(n, x))
    for (int64_t i = 0; i < n; i++) f[i] = (float)(int32_t)x[i];
  else if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] = (double)x[i];
}

static void run_cast(const kstep *kstep, int64_t n, const void *x, void *out) {
  compute_type c = compute_type_of(kstep->operand_type);
  if (c == COMPUTE_F32) cast_from_f32(kstep->type, n, x, out);
  if (c == COMPUTE_F64) cast_from_f64(kstep->type, n, x, out);
  if (c == COMPUTE_I64) cast_from_i64(kstep, n, x, out);
}

/* ---------------------------------------------------------------- a range of the output */

/* True if the input holds small integers and all its uses convert it to floats. */
static bool is_read_as_floats(const step_list *list, int input) {
  if (!is_small_int(list->inputs[input].type)) return false;
  for (const kstep *s = list->steps; s < list->steps + list->head->n_steps; s++)
    for (int k = 0; k < s->arity; k++)
      if (s->operands[k].source == KSTEP_INPUT && s->operands[k].index == input &&
          !(s->role == KSTEP_CAST && s->type == DTYPE_F32))
        return false;
  return true;
}

static uint32_t read_as_floats(const step_list *list) {
  uint32_t floats = 0;
  for (int k = 0; k < list->head->n_inputs; k++)
    if (is_read_as_floats(list, k)) floats |= UINT32_C(1) << k;
  return floats;
}

/* True for a final cast of floats to small integers, which happens when the result is stored. */
static bool is_stored_cast(const kstep *kstep) {
  return kstep->role == KSTEP_CAST && compute_type_of(kstep->operand_type) == COMPUTE_F32 &&
         is_small_int(kstep->type);
}

static size_t step_rows_slot_bytes(int block) { return (size_t)block * 8 + SLOT_SPACE; }

size_t step_slots_bytes(const elementwise_head *head, int block) {
  return (size_t)(head->n_inputs + head->n_steps + head->n_constants) * step_rows_slot_bytes(block);
}

step_list step_list_of(const elementwise_head *head, const ktensor *inputs, const kstep *steps,
                       int block) {
  step_list list = {.head = head, .inputs = inputs, .steps = steps, .block = block};
  list.floats = read_as_floats(&list);
  return list;
}

static compute_type input_class(const step_list *list, int k) {
  return list->floats >> k & 1 ? COMPUTE_F32 : compute_type_of(list->inputs[k].type);
}

static bool is_native(dtype t) { return t == DTYPE_F32 || t == DTYPE_F64 || t == DTYPE_I64; }

static compute_type operand_class(const kstep *kstep, int k) {
  return kstep->role == KSTEP_WHERE && k == 0 ? COMPUTE_I64 : compute_type_of(kstep->operand_type);
}

static void fill_constant(compute_type c, kstep_constant constant, int n, void *slot) {
  float *f = slot;
  double *d = slot;
  int64_t *k = slot;
  for (int i = 0; i < n; i++) {
    if (c == COMPUTE_F32) f[i] = (float)constant.f;
    if (c == COMPUTE_F64) d[i] = constant.f;
    if (c == COMPUTE_I64) k[i] = constant.i;
  }
}

static char *constant_slot(const step_list *list, char *slots, int index) {
  return slots + (size_t)(list->head->n_inputs + list->head->n_steps + index) *
                     step_rows_slot_bytes(list->block);
}

void step_slots_fill(const step_list *list, char *slots) {
  for (const kstep *s = list->steps; s < list->steps + list->head->n_steps; s++)
    for (int k = 0; k < s->arity; k++) {
      if (s->operands[k].source == KSTEP_CONSTANT)
        fill_constant(operand_class(s, k), s->constants[k], list->block,
                      constant_slot(list, slots, s->operands[k].index));
    }
}

/* Returns elements [at, at + n) of x in row-major order, in class c: in place if they are stored
 * so, else gathered row by row into `slot`. */
static const void *fetch(const ktensor *x, compute_type c, int64_t at, int64_t n, char *slot) {
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

static void run_step_of_block(kernel_fault *fault, const kstep *kstep, int64_t n,
                              const void *const x[STEP_ARITY], void *out) {
  if (kstep->divides && compute_type_of(kstep->operand_type) == COMPUTE_I64)
    check_divisors(fault, n, x[1]);
  if (kstep->role == KSTEP_MAP || kstep->role == KSTEP_BOOL) run_map(kstep, n, x, out);
  if (kstep->role == KSTEP_WHERE) run_where(compute_type_of(kstep->operand_type), n, x, out);
  if (kstep->role == KSTEP_CAST) run_cast(kstep, n, x[0], out);
  if (kstep->role == KSTEP_BOOL) return;
  if (compute_type_of(kstep->type) == COMPUTE_F32) round_row(kstep->type, out, n);
  if (compute_type_of(kstep->type) == COMPUTE_I64) wrap_row(kstep->type, out, n);
}

/* True for the cast of an input that was read as floats. */
static bool is_float_already(const step_list *list, const kstep *kstep) {
  return kstep->operands[0].source == KSTEP_INPUT && list->floats >> kstep->operands[0].index & 1;
}

/* True if the result is F32 that is stored as BF16. */
static bool step_rows_keeps_bf16(const step_list *list) {
  const elementwise_head *head = list->head;
  return is_bf16(head->out_type) && list->steps[head->n_steps - 1].type == DTYPE_F32;
}

/* Runs the steps over elements [at, at + n), n <= block. */
static void step_rows_run_block(const step_list *list, kernel_fault *fault, char *slots, int64_t at,
                                int64_t n) {
  const elementwise_head *head = list->head;
  const size_t slot = step_rows_slot_bytes(list->block);
  const void *inputs[ELEMENTWISE_INPUTS];
  void *results[ELEMENTWISE_STEPS];
  const bool rounds = step_rows_keeps_bf16(list);
  for (int k = 0; k < head->n_inputs; k++)
    inputs[k] = fetch(&list->inputs[k], input_class(list, k), at, n, slots + (size_t)k * slot);
  for (int s = 0; s < head->n_steps; s++) {
    const kstep *step = &list->steps[s];
    bool in_place = s == head->n_steps - 1 && is_native(step->type) && !rounds;
    results[s] = in_place ? element_at(head->out, step->type, at)
                          : slots + (size_t)(head->n_inputs + s) * slot;
    const void *x[STEP_ARITY];
    for (int k = 0; k < STEP_ARITY; k++) {
      const kstep_operand *o = &step->operands[k < step->arity ? k : 0];
      x[k] = o->source == KSTEP_INPUT  ? inputs[o->index]
             : o->source == KSTEP_STEP ? results[o->index]
                                       : constant_slot(list, slots, o->index);
    }
    if (is_stored_cast(step) && s == head->n_steps - 1) {
      cast_row(step->type, element_at(head->out, step->type, at), n, x[0]);
      return;
    }
    if (is_float_already(list, step))
      memcpy(results[s], x[0], (size_t)n * sizeof(float));
    else
      run_step_of_block(fault, step, n, x, results[s]);
  }
  dtype type = list->steps[head->n_steps - 1].type;
  if (rounds)
    row_to_bf16(results[head->n_steps - 1], n, (uint16_t *)head->out + at);
  else if (!is_native(type))
    store_row(compute_type_of(type), type, element_at(head->out, type, at), 1, n,
              results[head->n_steps - 1]);
}

void step_rows_run(const step_list *list, kernel_fault *fault, char *slots, int64_t at, int64_t n) {
  for (int64_t i = 0; i < n; i += list->block)
    step_rows_run_block(list, fault, slots, at + i, n - i < list->block ? n - i : list->block);
}

/* True if the list is one step of one input in F32. */
static bool is_single(const short_elementwise_args *args) {
  return args->head.n_inputs + args->head.n_steps + args->head.n_constants == 2 &&
         args->steps[0].role == KSTEP_MAP && args->steps[0].operand_type == DTYPE_F32;
}

/* Runs a single step over a row, padded to whole vectors. */
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

/* ---------------------------------------------------------------- lists in F32 in place */

enum { PLAIN_BLOCK = 256 };

/* True if all values are F32 and rows of the inputs are contiguous or equal. */
static bool is_plain(const short_elementwise_args *args) {
  for (int k = 1; k < args->head.n_inputs; k++) {
    const ktensor *x = &args->inputs[k];
    const int64_t stride = x->rank > 0 ? x->strides[x->rank - 1] : 0;
    if (x->type != DTYPE_F32 || (stride != 0 && stride != 1)) return false;
  }
  for (int s = 0; s < args->head.n_steps; s++) {
    const kstep *step = &args->steps[s];
    if (step->role != KSTEP_MAP || step->operand_type != DTYPE_F32 || step->type != DTYPE_F32)
      return false;
  }
  return true;
}

/* A plain list with its buffers: one for each input, step and constant. */
typedef struct plain_list {
  const short_elementwise_args *args;
  float slots[STACK_SLOTS][PLAIN_BLOCK];
  const float *filled[SHORT_INPUTS]; /* the element that fills the input's buffer, or NULL */
  int64_t n_filled[SHORT_INPUTS];    /* how often */
} plain_list;

/* Returns the offset of row `row` of an input. */
static int64_t plain_row(const ktensor *x, int64_t row) {
  int64_t offset = 0;
  for (int d = x->rank - 2; d > 0; d--) {
    const int64_t above = row / x->dims[d];
    offset += (row - above * x->dims[d]) * x->strides[d];
    row = above;
  }
  return offset + (x->rank > 1 ? row * x->strides[0] : 0);
}

/* Gathers elements from several rows. */
static void gather_plain(const ktensor *x, int64_t at, int64_t n, float *slot) {
  const int last = x->rank - 1;
  const int64_t row = x->dims[last];
  int64_t column = at % row;
  walk w = {.rank = last, .dims = x->dims};
  walk_add(&w, x->strides);
  walk_seek(&w, at / row);
  for (int64_t done = 0; done < n; walk_next(&w), column = 0) {
    const int64_t end = row - column < n - done ? done + row - column : n;
    const float *from = (const float *)x->data + w.offset[0];
    if (x->strides[last] == 1)
      memcpy(slot + done, from + column, (size_t)(end - done) * sizeof *slot);
    else
      for (int64_t i = done; i < end; i++) slot[i] = *from;
    done = end;
  }
}

/* Like fetch, for input k of a plain list. */
static const float *fetch_plain(plain_list *list, int k, int64_t at, int64_t n) {
  const ktensor *x = &list->args->inputs[k];
  const int last = x->rank - 1;
  const int64_t size = last >= 0 ? x->dims[last] : INT64_MAX, row = last > 0 ? at / size : 0,
                column = at - row * size;
  float *slot = list->slots[k];
  if (column + n > size) {
    list->filled[k] = NULL;
    gather_plain(x, at, n, slot);
    return slot;
  }
  const float *from = (const float *)x->data + plain_row(x, row);
  if (last >= 0 && x->strides[last] == 1) return from + column;
  if (list->filled[k] == from && list->n_filled[k] >= n) return slot;
  for (int64_t i = 0; i < n; i++) slot[i] = *from;
  list->filled[k] = from;
  list->n_filled[k] = n;
  return slot;
}

/* Runs a plain list over n <= PLAIN_BLOCK elements. */
static void step_rows_run_plain_block(plain_list *list, float *values, int64_t at, int64_t n) {
  const elementwise_head *head = &list->args->head;
  const float *inputs[SHORT_INPUTS] = {values};
  for (int k = 1; k < head->n_inputs; k++) inputs[k] = fetch_plain(list, k, at, n);
  for (int s = 0; s < head->n_steps; s++) {
    const kstep *step = &list->args->steps[s];
    const void *x[STEP_ARITY];
    for (int k = 0; k < STEP_ARITY; k++) {
      const kstep_operand *o = &step->operands[k < step->arity ? k : 0];
      x[k] = o->source == KSTEP_INPUT  ? inputs[o->index]
             : o->source == KSTEP_STEP ? list->slots[head->n_inputs + o->index]
                                       : list->slots[head->n_inputs + head->n_steps + o->index];
    }
    run_floats(step->kind, n, x, s == head->n_steps - 1 ? values : list->slots[head->n_inputs + s]);
  }
}

static void step_rows_run_plain(const short_elementwise_args *args, float *values, int64_t at,
                                int64_t n, int64_t rows, int64_t pitch) {
  plain_list list;
  const int first = args->head.n_inputs + args->head.n_steps;
  list.args = args;
  memset(list.filled, 0, sizeof list.filled);
  for (int s = 0; s < args->head.n_steps; s++)
    for (int k = 0; k < args->steps[s].arity; k++)
      if (args->steps[s].operands[k].source == KSTEP_CONSTANT)
        fill_constant(COMPUTE_F32, args->steps[s].constants[k], PLAIN_BLOCK,
                      list.slots[first + args->steps[s].operands[k].index]);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i += PLAIN_BLOCK)
      step_rows_run_plain_block(&list, values + r * pitch + i, at + r * pitch + i,
                                n - i < PLAIN_BLOCK ? n - i : PLAIN_BLOCK);
}

/* Runs a list with row buffers on the stack. */
static void step_rows_run_list(const short_elementwise_args *args, float *values, int64_t at,
                               int64_t n, int64_t rows, int64_t pitch) {
  enum { BLOCK = 128 };
  _Alignas(64) char slots[STACK_SLOTS * (BLOCK * 8 + SLOT_SPACE)];
  /* address that element 0 would have */
  float *first = (float *)((uintptr_t)values - (uintptr_t)at * sizeof *values);
  elementwise_head head = args->head;
  ktensor inputs[SHORT_INPUTS];
  memcpy(inputs, args->inputs, sizeof inputs);
  head.out = first;
  head.out_type = DTYPE_F32; /* rounded later */
  inputs[0] =
      (ktensor){.data = first, .type = DTYPE_F32, .rank = 1, .dims = {INT64_MAX}, .strides = {1}};
  const step_list list = step_list_of(&head, inputs, args->steps, BLOCK);
  step_slots_fill(&list, slots);
  for (int64_t i = 0; i < rows; i++) step_rows_run(&list, NULL, slots, at + i * pitch, n);
}

void steps_in_place(const short_elementwise_args *args, float *values, int64_t at, int64_t n,
                    int64_t rows, int64_t pitch) {
  if (args->head.n_steps == 0) return;
  if (n == pitch) {
    n *= rows;
    rows = 1;
  }
  if (is_single(args))
    for (int64_t i = 0; i < rows; i++) run_single(args->steps[0].kind, values + i * pitch, n);
  else if (is_plain(args))
    step_rows_run_plain(args, values, at, n, rows, pitch);
  else
    step_rows_run_list(args, values, at, n, rows, pitch);
}
