/* Lists of elementwise steps, distributed over threads. */
#include "backend/cpu/kernels/elementwise/elementwise.h"

#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 32 * 1024 /* element steps of the simplest kind that justify waking a thread */ };

/* ---------------------------------------------------------------- a number per row */

typedef struct row_numbers {
  const ktensor *x, *numbers; /* x has the layout of out; numbers has one element per row */
  void *out;
  bool multiplies;
  dtype out_type; /* F32 or BF16; the same holds for x */
} row_numbers;

KERNEL_INLINE void kernel_elementwise_combine(bool multiplies, int64_t n, const float *x,
                                              float number, float *out) {
  for (int64_t i = 0; i < n; i++) out[i] = multiplies ? x[i] * number : x[i] + number;
}

typedef void (*combine_row)(bool multiplies, int64_t n, const float *x, float number, float *out);
static void combine_portable(bool multiplies, int64_t n, const float *x, float number, float *out) {
  kernel_elementwise_combine(multiplies, n, x, number, out);
}
#if KERNEL_X86
TARGET_AVX2 static void combine_avx2(bool multiplies, int64_t n, const float *x, float number,
                                     float *out) {
  kernel_elementwise_combine(multiplies, n, x, number, out);
}
TARGET_AVX512 static void combine_avx512(bool multiplies, int64_t n, const float *x, float number,
                                         float *out) {
  kernel_elementwise_combine(multiplies, n, x, number, out);
}
#endif

static combine_row combine_row_for(void) {
#if KERNEL_X86
  if (cpu_has_avx512()) return combine_avx512;
  if (cpu_has_avx2()) return combine_avx2;
#endif
  return combine_portable;
}

/* Computes elements [at, at + n) of a row; x or out may be BF16. */
static void combine_some(const row_numbers *numbers, combine_row run, int64_t at, int64_t n,
                         float number) {
  const bool widens = numbers->x->type == DTYPE_BF16, rounds = is_bf16(numbers->out_type);
  float wide[ROW_BLOCK], made[ROW_BLOCK];
  if (!widens && !rounds) {
    run(numbers->multiplies, n, (const float *)numbers->x->data + at, number,
        (float *)numbers->out + at);
    return;
  }
  if (widens && rounds) {
    bf16_combine(numbers->multiplies, (const uint16_t *)numbers->x->data + at, n, number,
                 (uint16_t *)numbers->out + at);
    return;
  }
  for (int64_t some; n > 0; at += some, n -= some) {
    some = n < ROW_BLOCK ? n : ROW_BLOCK;
    if (widens) widen_row((const uint16_t *)numbers->x->data + at, some, wide);
    run(numbers->multiplies, some, widens ? wide : (const float *)numbers->x->data + at, number,
        rounds ? made : (float *)numbers->out + at);
    if (rounds) row_to_bf16(made, some, (uint16_t *)numbers->out + at);
  }
}

/* Computes elements [begin, end), which may begin and end within rows. */
static void combine_rows(void *ctx, int64_t begin, int64_t end) {
  const row_numbers *numbers = ctx;
  const combine_row run = combine_row_for();
  const int last = numbers->numbers->rank - 1;
  const int64_t row = numbers->numbers->dims[last];
  int64_t n = row - begin % row;
  walk w = {.rank = last, .dims = numbers->numbers->dims};
  walk_add(&w, numbers->numbers->strides);
  walk_seek(&w, begin / row);
  for (int64_t at = begin; at < end; at += n, n = row, walk_next(&w)) {
    if (n > end - at) n = end - at;
    combine_some(numbers, run, at, n, ((const float *)numbers->numbers->data)[w.offset[0]]);
  }
}

/* True if x is contiguous in out's order; its dims are then merged into one. */
static bool has_order_of_out(const ktensor *x) { return x->rank == 1 && x->strides[0] == 1; }

static bool kernel_elementwise_find_rows(const elementwise_head *head, const ktensor *inputs,
                                         const kstep *kstep, row_numbers *row) {
  if (head->n_steps != 1 || head->n_inputs != 2 || head->n_constants != 0 || kstep->arity != 2 ||
      kstep->role != KSTEP_MAP || kstep->type != DTYPE_F32 || kstep->operand_type != DTYPE_F32 ||
      (kstep->kind != FLOAT_STEP_MUL && kstep->kind != FLOAT_STEP_ADD))
    return false;
  const int x = has_order_of_out(&inputs[0]) ? 0 : 1;
  const ktensor *whole = &inputs[x], *numbers = &inputs[1 - x];
  *row = (row_numbers){whole, numbers, head->out, kstep->kind == FLOAT_STEP_MUL, head->out_type};
  return kstep->operands[0].index != kstep->operands[1].index && has_order_of_out(whole) &&
         numbers->rank > 0 && numbers->strides[numbers->rank - 1] == 0 &&
         numbers->type == DTYPE_F32 && (whole->type == DTYPE_F32 || whole->type == DTYPE_BF16);
}

/* ---------------------------------------------------------------- lists of steps */

typedef struct task {
  const step_list *e;
  kernel_fault *fault;
  char *slots; /* row buffers of each task */
  int64_t n_tasks;
} task;

static void kernel_elementwise_run_tasks(void *ctx, int64_t begin, int64_t end) {
  const task *task = ctx;
  const elementwise_head *head = task->e->head;
  int64_t share = (head->n + task->n_tasks - 1) / task->n_tasks;
  share = (share + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
  for (int64_t k = begin; k < end; k++) {
    char *slots = task->slots + (size_t)k * step_slots_bytes(head, ROW_BLOCK);
    step_slots_fill(task->e, slots);
    int64_t at = k * share, stop = at + share < head->n ? at + share : head->n;
    step_rows_run(task->e, task->fault, slots, at, stop - at);
  }
}

/* Cost of a float step in additions; 0 means 1. */
enum { VECTORS = 8, CALLS = 64 /* for functions of the C library */ };
static const uint8_t costs[FLOAT_STEP_COUNT] = {
    [FLOAT_STEP_EXP] = VECTORS,       [FLOAT_STEP_TANH] = VECTORS,   [FLOAT_STEP_ERF] = VECTORS,
    [FLOAT_STEP_SIGMOID] = VECTORS,   [FLOAT_STEP_SILU] = VECTORS,   [FLOAT_STEP_GELU] = VECTORS,
    [FLOAT_STEP_GELU_TANH] = VECTORS, [FLOAT_STEP_EXP2] = CALLS,     [FLOAT_STEP_EXPM1] = CALLS,
    [FLOAT_STEP_LOG] = CALLS,         [FLOAT_STEP_LOG2] = CALLS,     [FLOAT_STEP_LOG10] = CALLS,
    [FLOAT_STEP_LOG1P] = CALLS,       [FLOAT_STEP_SIN] = CALLS,      [FLOAT_STEP_COS] = CALLS,
    [FLOAT_STEP_TAN] = CALLS,         [FLOAT_STEP_ASIN] = CALLS,     [FLOAT_STEP_ACOS] = CALLS,
    [FLOAT_STEP_ATAN] = CALLS,        [FLOAT_STEP_SINH] = CALLS,     [FLOAT_STEP_COSH] = CALLS,
    [FLOAT_STEP_ASINH] = CALLS,       [FLOAT_STEP_ACOSH] = CALLS,    [FLOAT_STEP_ATANH] = CALLS,
    [FLOAT_STEP_ERFC] = CALLS,        [FLOAT_STEP_SOFTPLUS] = CALLS, [FLOAT_STEP_ELU] = CALLS,
    [FLOAT_STEP_MISH] = CALLS,        [FLOAT_STEP_POW] = CALLS,      [FLOAT_STEP_ATAN2] = CALLS,
    [FLOAT_STEP_HYPOT] = CALLS,       [FLOAT_STEP_LGAMMA] = CALLS,   [FLOAT_STEP_DIGAMMA] = CALLS,
    [FLOAT_STEP_ERFINV] = CALLS,      [FLOAT_STEP_I0] = CALLS,       [FLOAT_STEP_ZETA] = CALLS};

static int64_t cost_of(const kstep *kstep) {
  const bool is_float =
      kstep->role == KSTEP_MAP && compute_type_of(kstep->operand_type) != COMPUTE_I64;
  return is_float && costs[kstep->kind] > 0 ? costs[kstep->kind] : 1;
}

static int64_t kernel_elementwise_task_count(const kernel_context *ctx,
                                             const elementwise_head *head, const kstep *steps) {
  int64_t cost = 0;
  for (int i = 0; i < head->n_steps; i++) cost += cost_of(&steps[i]);
  const int64_t blocks = (head->n + ROW_BLOCK - 1) / ROW_BLOCK,
                wanted = head->n / (GRAIN / cost + 1);
  const int64_t most = blocks < ctx->n_threads ? blocks : ctx->n_threads;
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

static size_t list_scratch(const kernel_context *ctx, const elementwise_head *head,
                           const kstep *steps) {
  return head->n == 0 ? 0
                      : (size_t)kernel_elementwise_task_count(ctx, head, steps) *
                            step_slots_bytes(head, ROW_BLOCK);
}

static bool kernel_elementwise_run_list(const kernel_context *ctx, const elementwise_head *head,
                                        const ktensor *inputs, const kstep *steps) {
  row_numbers rows;
  if (head->n == 0) return true;
  if (kernel_elementwise_find_rows(head, inputs, steps, &rows)) {
    ctx->parallel_for(ctx->pool, head->n, GRAIN, combine_rows, &rows);
    return true;
  }
  const step_list list = step_list_of(head, inputs, steps, ROW_BLOCK);
  task task = {
      .e = &list, .fault = ctx->fault, .n_tasks = kernel_elementwise_task_count(ctx, head, steps)};
  task.slots = ctx->scratch(ctx->pool, list_scratch(ctx, head, steps));
  if (!task.slots) return false;
  ctx->parallel_for(ctx->pool, task.n_tasks, 1, kernel_elementwise_run_tasks, &task);
  return true;
}

static bool run_long(const kernel_context *ctx, const void *args) {
  const elementwise_args *own = args;
  return kernel_elementwise_run_list(ctx, &own->head, own->inputs, own->steps);
}

static bool run_short(const kernel_context *ctx, const void *args) {
  const short_elementwise_args *own = args;
  return kernel_elementwise_run_list(ctx, &own->head, own->inputs, own->steps);
}

static size_t long_scratch(const kernel_context *ctx, const void *args) {
  const elementwise_args *own = args;
  return list_scratch(ctx, &own->head, own->steps);
}

static size_t short_scratch(const kernel_context *ctx, const void *args) {
  const short_elementwise_args *own = args;
  return list_scratch(ctx, &own->head, own->steps);
}

const kernel_desc kernel_elementwise = {
    .name = "elementwise",
    .run = run_long,
    .scratch = long_scratch,
    .args_size = sizeof(elementwise_args),
    .operands = {OPERAND(elementwise_args, head.out), OPERAND(elementwise_args, inputs[0]),
                 OPERAND(elementwise_args, inputs[1]), OPERAND(elementwise_args, inputs[2]),
                 OPERAND(elementwise_args, inputs[3]), OPERAND(elementwise_args, inputs[4]),
                 OPERAND(elementwise_args, inputs[5]), OPERAND(elementwise_args, inputs[6]),
                 OPERAND(elementwise_args, inputs[7])}};

const kernel_desc kernel_short_elementwise = {
    .name = "short_elementwise",
    .run = run_short,
    .scratch = short_scratch,
    .args_size = sizeof(short_elementwise_args),
    .steps = OPERAND(short_elementwise_args, head),
    .operands = {
        OPERAND(short_elementwise_args, head.out), OPERAND(short_elementwise_args, inputs[0]),
        OPERAND(short_elementwise_args, inputs[1]), OPERAND(short_elementwise_args, inputs[2])}};
