/* Lists of elementwise steps, shared out among threads. */
#include "backend/cpu/kernels/elementwise.h"

enum { GRAIN = 32 * 1024 /* element steps that are worth a thread */ };

typedef struct task {
  const step_list *e;
  kernel_fault *fault;
  char *slots; /* row buffers of each task */
  int64_t n_tasks;
} task;

static void run_tasks(void *ctx, int64_t begin, int64_t end) {
  const task *t = ctx;
  const elementwise_head *h = t->e->head;
  int64_t share = (h->n + t->n_tasks - 1) / t->n_tasks;
  share = (share + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
  for (int64_t k = begin; k < end; k++) {
    char *slots = t->slots + (size_t)k * step_slots_bytes(h, ROW_BLOCK);
    step_slots_fill(t->e, slots);
    int64_t at = k * share, stop = at + share < h->n ? at + share : h->n;
    step_rows_run(t->e, t->fault, slots, at, stop - at);
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
  return h->n == 0 ? 0 : (size_t)task_count(ctx, h) * step_slots_bytes(h, ROW_BLOCK);
}

static bool run_list(const kernel_context *ctx, const elementwise_head *head, const ktensor *inputs,
                     const kstep *steps) {
  if (head->n == 0) return true;
  const step_list e = step_list_of(head, inputs, steps, ROW_BLOCK);
  task t = {.e = &e, .fault = ctx->fault, .n_tasks = task_count(ctx, head)};
  t.slots = ctx->scratch(ctx->pool, list_scratch(ctx, head));
  if (!t.slots) return false;
  ctx->parallel_for(ctx->pool, t.n_tasks, 1, run_tasks, &t);
  return true;
}

static bool run_long(const kernel_context *ctx, const void *args) {
  const elementwise_args *p = args;
  return run_list(ctx, &p->head, p->inputs, p->steps);
}

static bool run_short(const kernel_context *ctx, const void *args) {
  const short_elementwise_args *p = args;
  return run_list(ctx, &p->head, p->inputs, p->steps);
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
    .steps = OPERAND(short_elementwise_args, head),
    .operands = {
        OPERAND(short_elementwise_args, head.out), OPERAND(short_elementwise_args, inputs[0]),
        OPERAND(short_elementwise_args, inputs[1]), OPERAND(short_elementwise_args, inputs[2])}};
