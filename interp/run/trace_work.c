/* Computes the work and the sizes of a profiled run's commands. During the run, an event records
 * only its schedule and the operand values that its work depends on; the rest is computed later. */
#include "interp/run/trace_work.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/bindings.h"
#include "ops/work.h"

/* Values of an operand, read from the device asynchronously. */
struct traced_values {
  traced_values *next;
  work_counts counts; /* its items point to `own`, or to the values of an earlier event */
  _Alignas(int64_t) char own[];
};

/* ---------------------------------------------------------------- during the run */

/* Holds a reference to the schedule while events refer to it. */
static clave_status hold_schedule(session *session, schedule *plan) {
  for (uint32_t i = session->n_traced; i-- > 0;)
    if (session->traced[i] == plan) return NULL;
  if (!array_reserve(&session->traced, &session->cap_traced, (size_t)session->n_traced + 1,
                     sizeof(schedule *)))
    return status_no_memory();
  schedule_hold(session->executable, plan);
  session->traced[session->n_traced++] = plan;
  return NULL;
}

static bool trace_work_is_input(const ir_method *method, uint32_t tid) {
  for (uint32_t i = 0; i < method->inputs.count; i++)
    if (method->inputs.items[i].tensor == tid) return true;
  return false;
}

/* Returns an input's values if an earlier event has read them; inputs do not change in a run. */
static const work_counts *find_noted(const running *run, uint32_t tid) {
  if (!trace_work_is_input(run->graph->method, tid)) return NULL;
  for (uint32_t i = run->session->n_events; i-- > 0;)
    for (const traced_values *v = run->session->events[i].values; v; v = v->next)
      if (v->counts.tid == tid) return &v->counts;
  return NULL;
}

static clave_status note_values(const running *run, const command *command, uint32_t tid,
                                trace_event *out) {
  const bound_tensor *tensor = &run->binding->bound[command->backend][tid];
  const int64_t n = tensor_numel(&tensor->tensor);
  const size_t size = dtype_size(tensor->tensor.type);
  if (n == 0 || !tensor_is_contiguous(&tensor->tensor)) return NULL;
  const work_counts *noted = find_noted(run, tid);
  traced_values *values = malloc(sizeof *values + (noted ? 0 : (size_t)n * size));
  if (!values) return status_no_memory();
  values->next = out->values;
  values->counts = noted ? *noted : (work_counts){tid, tensor->tensor.type, n, values->own};
  out->values = values;
  if (noted) return NULL;
  stream *stream = run->session->streams[command->backend];
  return enqueue_read(stream, tensor->buf,
                      tensor->buffer_offset + (size_t)tensor->tensor.offset * size, values->own,
                      (size_t)n * size);
}

static clave_status note_run(const running *run, const command *command, trace_event *out) {
  const ir_instruction *ins = &run->graph->instructions[command->instruction];
  TRY(hold_schedule(run->session, run->binding->schedule));
  out->schedule = run->binding->schedule;
  out->rounds = command->recorded->rounds;
  for (operand_iter i = operands_of(ins); work_table[ins->op_type].counts && next_operand(&i);)
    if (i.operand.flags & IR_COUNTS) TRY(note_values(run, command, i.operand.tid, out));
  return NULL;
}

clave_status trace_note(const running *run, const command *command, trace_event *out) {
  size_t bytes = 0;
  if (command->kind == COMMAND_RUN) return note_run(run, command, out);
  if (command->kind == COMMAND_TRANSFER) {
    bytes = run->binding->schedule->storages[command->x.storage].bytes;
  } else {
    TRY(known_bytes(&command->out.t, &bytes));
    bytes *= 2;
  }
  out->bytes = (double)bytes;
  return NULL;
}

static void free_values(trace_event *event) {
  for (traced_values *v = event->values, *next; v; v = next) {
    next = v->next;
    free(v);
  }
  event->values = NULL;
}

void trace_clear(session *session) {
  for (uint32_t i = 0; i < session->n_events; i++) {
    free_values(&session->events[i]);
    free(session->events[i].shapes);
  }
  for (uint32_t i = 0; i < session->n_traced; i++)
    schedule_release(session->executable, session->traced[i]);
  session->n_events = session->n_traced = 0;
}

/* ---------------------------------------------------------------- work and shapes */

/* Returns an operand as the kernel saw it: dense if the op needs that. */
static tensor tensor_in(const schedule *schedule, const operand *operand) {
  tensor tensor = schedule->at[operand->tid].t;
  if ((operand->flags & IR_DENSE && !tensor_is_contiguous(&tensor)) ||
      (operand->flags & IR_ROWS && !tensor_rows_contiguous(&tensor)))
    tensor_set_contiguous(&tensor);
  return tensor;
}

static void write_shape(text *out, const tensor *tensor) {
  char name[64];
  text_puts(out, tensor->encoding.kind ? encoding_text(&tensor->encoding, name, sizeof name)
                                       : dtype_name(tensor->type));
  text_puts(out, " [");
  for (int i = 0; i < tensor->rank; i++)
    text_printf(out, "%s%lld", i ? ", " : "", (long long)tensor->dims[i]);
  text_puts(out, "]");
}

/* Writes the shapes of operands and results: "F32 [2, 3], F32 [3, 4] -> F32 [2, 4]". */
static clave_status write_shapes(const node *node, char **out) {
  text text = {0};
  bool any = false;
  for (int written = 0; written < 2; written++) {
    if (written) text_puts(&text, any ? " -> " : "-> ");
    any = false;
    for (operand_iter i = operands_of(node->instruction); next_operand(&i);) {
      if (((i.operand.flags & IR_OUT) != 0) != written) continue;
      text_puts(&text, any ? ", " : "");
      write_shape(&text, &node->tensors[i.operand.tid].tensor);
      any = true;
    }
  }
  clave_status st = text_status(&text);
  if (st)
    text_free(&text);
  else
    *out = text.data;
  return st;
}

/* Returns the dtype of the computation: for a Matmul with an F16 weight, that of a. */
static dtype type_of_work(const node *node, rounding rounds) {
  uint32_t first = first_slot(node->instruction, false);
  if (first == IR_NONE) first = first_slot(node->instruction, true);
  return rounds == ROUNDS_ROWS      ? DTYPE_I8
         : rounds == ROUNDS_TO_BF16 ? DTYPE_BF16
         : rounds == ROUNDS_TO_F16  ? DTYPE_F16
                                    : node->tensors[first].tensor.type;
}

/* Memory for computing the work of events. */
typedef struct settling {
  bound_tensor *tensors; /* owned (n_slots) */
  work_counts *counts;   /* owned: values of one event's operands */
  size_t n_counts, cap_counts;
} settling;

static clave_status list_counts(settling *settling, const trace_event *event) {
  settling->n_counts = 0;
  for (const traced_values *v = event->values; v; v = v->next) {
    if (!array_reserve(&settling->counts, &settling->cap_counts, settling->n_counts + 1,
                       sizeof *settling->counts))
      return status_no_memory();
    settling->counts[settling->n_counts++] = v->counts;
  }
  return NULL;
}

static clave_status settle_event(const session *session, settling *on, trace_event *event) {
  const ir_instruction *ins =
      &session->executable->methods[event->method].graph.instructions[event->instruction];
  const node node = {.instruction = ins,
                     .tensors = on->tensors,
                     .types = event->schedule->types,
                     .values = event->schedule->values};
  TRY(list_counts(on, event));
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    on->tensors[i.operand.tid].tensor = tensor_in(event->schedule, &i.operand);
  const op_work work = measure_work(&(work_node){&node, on->counts, (int)on->n_counts});
  event->flops = work.flops;
  event->bytes = work.bytes;
  event->type = type_of_work(&node, event->rounds);
  TRY(write_shapes(&node, &event->shapes));
  event->schedule = NULL;
  return NULL;
}

clave_status trace_compute_work(session *session) {
  if (!session->n_traced) return NULL;
  settling on = {.tensors = calloc((size_t)slot_count(session->prog) + 1, sizeof *on.tensors)};
  clave_status st = on.tensors ? NULL : status_no_memory();
  for (uint32_t i = 0; i < session->n_events && !st; i++)
    if (session->events[i].schedule) st = settle_event(session, &on, &session->events[i]);
  free(on.tensors);
  free(on.counts);
  if (st) return st;
  for (uint32_t i = 0; i < session->n_events; i++) free_values(&session->events[i]);
  for (uint32_t i = 0; i < session->n_traced; i++)
    schedule_release(session->executable, session->traced[i]);
  session->n_traced = 0;
  return NULL;
}
