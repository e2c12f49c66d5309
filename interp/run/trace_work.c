/* How much the commands of a profiled run did, and of which sizes. A command notes where that
 * stands, and what its device computed on that decides it; the rest is done when somebody asks. */
#include "interp/run/trace_work.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/bindings.h"
#include "ops/work.h"

/* Values of an operand, on their way from the device while it works. */
struct traced_values {
  traced_values *next;
  work_counts counts; /* its items are own, or those of an earlier event of the run */
  _Alignas(int64_t) char own[];
};

/* ---------------------------------------------------------------- while it runs */

/* Schedules are held as long as events name them. */
static clave_status hold_schedule(session *s, schedule *p) {
  for (uint32_t i = s->n_traced; i-- > 0;)
    if (s->traced[i] == p) return NULL;
  if (!array_reserve(&s->traced, &s->cap_traced, (size_t)s->n_traced + 1, sizeof(schedule *)))
    return status_no_memory();
  schedule_hold(s->x, p);
  s->traced[s->n_traced++] = p;
  return NULL;
}

static bool is_input(const ir_method *m, uint32_t tid) {
  for (uint32_t i = 0; i < m->inputs.count; i++)
    if (m->inputs.items[i].tensor == tid) return true;
  return false;
}

/* What an earlier command of the run was given of an input: nothing writes one. */
static const work_counts *find_noted(const running *r, uint32_t tid) {
  if (!is_input(r->g->method, tid)) return NULL;
  for (uint32_t i = r->s->n_events; i-- > 0;)
    for (const traced_values *v = r->s->events[i].values; v; v = v->next)
      if (v->counts.tid == tid) return &v->counts;
  return NULL;
}

static clave_status note_values(const running *r, const command *c, uint32_t tid,
                                trace_event *out) {
  const bound_tensor *b = &r->b->bound[c->backend][tid];
  const int64_t n = tensor_numel(&b->t);
  const size_t size = dtype_size(b->t.type);
  if (n == 0 || !tensor_is_contiguous(&b->t)) return NULL;
  const work_counts *noted = find_noted(r, tid);
  traced_values *v = malloc(sizeof *v + (noted ? 0 : (size_t)n * size));
  if (!v) return status_no_memory();
  v->next = out->values;
  v->counts = noted ? *noted : (work_counts){tid, b->t.type, n, v->own};
  out->values = v;
  if (noted) return NULL;
  stream *q = r->s->streams[c->backend];
  return enqueue_read(q, b->buf, b->buffer_offset + (size_t)b->t.offset * size, v->own,
                      (size_t)n * size);
}

static clave_status note_run(const running *r, const command *c, trace_event *out) {
  const ir_instruction *ins = &r->g->instructions[c->instruction];
  TRY(hold_schedule(r->s, r->b->p));
  out->p = r->b->p;
  out->rounds = c->recorded->rounds;
  for (operand_iter i = operands_of(ins); work_table[ins->op_type].counts && next_operand(&i);)
    if (i.o.flags & IR_COUNTS) TRY(note_values(r, c, i.o.tid, out));
  return NULL;
}

clave_status trace_note(const running *r, const command *c, trace_event *out) {
  size_t bytes = 0;
  if (c->kind == COMMAND_RUN) return note_run(r, c, out);
  if (c->kind == COMMAND_TRANSFER) {
    bytes = r->b->p->storages[c->x.storage].bytes;
  } else {
    TRY(known_bytes(&c->out.t, &bytes));
    bytes *= 2;
  }
  out->bytes = (double)bytes;
  return NULL;
}

static void free_values(trace_event *e) {
  for (traced_values *v = e->values, *next; v; v = next) {
    next = v->next;
    free(v);
  }
  e->values = NULL;
}

void trace_clear(session *s) {
  for (uint32_t i = 0; i < s->n_events; i++) {
    free_values(&s->events[i]);
    free(s->events[i].shapes);
  }
  for (uint32_t i = 0; i < s->n_traced; i++) schedule_release(s->x, s->traced[i]);
  s->n_events = s->n_traced = 0;
}

/* ---------------------------------------------------------------- afterwards */

/* As kernels are given it: what they want contiguous was copied. */
static tensor tensor_in(const schedule *p, const operand *o) {
  tensor t = p->at[o->tid].t;
  if ((o->flags & IR_DENSE && !tensor_is_contiguous(&t)) ||
      (o->flags & IR_ROWS && !tensor_rows_contiguous(&t)))
    tensor_set_contiguous(&t);
  return t;
}

static void write_shape(text *out, const tensor *t) {
  char name[64];
  text_puts(
      out, t->encoding.kind ? encoding_text(&t->encoding, name, sizeof name) : dtype_name(t->type));
  text_puts(out, " [");
  for (int i = 0; i < t->rank; i++)
    text_printf(out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
  text_puts(out, "]");
}

/* "F32 [2, 3], F32 [3, 4] -> F32 [2, 4]" */
static clave_status write_shapes(const node *n, char **out) {
  text t = {0};
  bool any = false;
  for (int written = 0; written < 2; written++) {
    if (written) text_puts(&t, any ? " -> " : "-> ");
    any = false;
    for (operand_iter i = operands_of(n->instruction); next_operand(&i);) {
      if (((i.o.flags & IR_OUT) != 0) != written) continue;
      text_puts(&t, any ? ", " : "");
      write_shape(&t, &n->tensors[i.o.tid].t);
      any = true;
    }
  }
  clave_status st = text_status(&t);
  if (st)
    text_free(&t);
  else
    *out = t.data;
  return st;
}

/* What it is computed in: a Matmul with a weight of F16 in F32, as its a. */
static dtype type_of_work(const node *n, rounding rounds) {
  uint32_t first = first_slot(n->instruction, false);
  if (first == IR_NONE) first = first_slot(n->instruction, true);
  return rounds == ROUNDS_ROWS      ? DTYPE_I8
         : rounds == ROUNDS_TO_BF16 ? DTYPE_BF16
                                    : n->tensors[first].t.type;
}

/* What events are settled with. */
typedef struct settling {
  bound_tensor *tensors; /* owned: (slot_count) */
  work_counts *counts;   /* owned: of one event's operands */
  size_t n_counts, cap_counts;
} settling;

static clave_status list_counts(settling *w, const trace_event *e) {
  w->n_counts = 0;
  for (const traced_values *v = e->values; v; v = v->next) {
    if (!array_reserve(&w->counts, &w->cap_counts, w->n_counts + 1, sizeof *w->counts))
      return status_no_memory();
    w->counts[w->n_counts++] = v->counts;
  }
  return NULL;
}

static clave_status settle_event(const session *s, settling *on, trace_event *e) {
  const ir_instruction *ins = &s->x->methods[e->method].g.instructions[e->instruction];
  const node n = {
      .instruction = ins, .tensors = on->tensors, .types = e->p->types, .values = e->p->values};
  TRY(list_counts(on, e));
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    on->tensors[i.o.tid].t = tensor_in(e->p, &i.o);
  const op_work work = measure_work(&(work_node){&n, on->counts, (int)on->n_counts});
  e->flops = work.flops;
  e->bytes = work.bytes;
  e->type = type_of_work(&n, e->rounds);
  TRY(write_shapes(&n, &e->shapes));
  e->p = NULL;
  return NULL;
}

clave_status trace_settle(session *s) {
  if (!s->n_traced) return NULL;
  settling on = {.tensors = calloc((size_t)slot_count(s->prog) + 1, sizeof *on.tensors)};
  clave_status st = on.tensors ? NULL : status_no_memory();
  for (uint32_t i = 0; i < s->n_events && !st; i++)
    if (s->events[i].p) st = settle_event(s, &on, &s->events[i]);
  free(on.tensors);
  free(on.counts);
  if (st) return st;
  for (uint32_t i = 0; i < s->n_events; i++) free_values(&s->events[i]);
  for (uint32_t i = 0; i < s->n_traced; i++) schedule_release(s->x, s->traced[i]);
  s->n_traced = 0;
  return NULL;
}
