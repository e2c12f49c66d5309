/* The loop over a plan's steps: ops and copies on their backends, transfers, and what watches them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "interp/self_check.h"

/* What a backend reports faults and times under: a step runs more than once in a loop. */
static uint32_t launch_number(const session *s, const step *st) {
  return s->options.profile ? s->n_events : st->instruction;
}

/* The two slots behind the program's own are the operands of the planner's copies. */
static clave_status run_copy(session *s, method *m, plan *p, step *st, bool prepare) {
  backend *be = s->devices.backends[st->backend];
  uint32_t n = slot_count(s);
  bound_tensor *bound = p->bound[st->backend];
  bound[n] = bind_location(s, p, st->x, st->backend);
  bound[n + 1] = bind_location(s, p, st->out, st->backend);
  ir_copy op = {.x = n, .out = n + 1};
  ir_instruction ins = {.op_type = IR_OP_COPY, .op = &op, .name = ""};
  void **cache = st->rebind != NO_INDEX ? &m->copy_cache[st->backend][st->rebind]
                 : st->instruction < m->n
                     ? &m->copy_cache[st->backend][slot_count(s) + st->instruction]
                     : &m->copy_cache[st->backend][slot_count(s) + m->n];
  node nd = {&ins, bound, p->values, cache, s->random};
  if (prepare) return be->vt->prepare ? be->vt->prepare(s->streams[st->backend], &nd) : NULL;
  return run_node(s, m, st, launch_number(s, st), &nd);
}

static clave_status run_transfer(session *s, plan *p, const step *st) {
  const storage *g = &p->storages[st->x.storage];
  if (!g->bytes) return NULL;
  const int home = g->home, b = st->backend;
  tensor bytes = {.type = DTYPE_U8};
  bound_tensor from = bind_location(s, p, (location){st->x.storage, bytes}, home);
  bound_tensor to = bind_location(s, p, (location){st->x.storage, bytes}, b);
  void *host = malloc(g->bytes);
  if (!host) return status_no_memory();
  clave_status e = s->devices.backends[home]->vt->read(s->streams[home], from.buf,
                                                       from.buffer_offset, host, g->bytes);
  if (!e)
    e = s->devices.backends[b]->vt->write(s->streams[b], to.buf, to.buffer_offset, host, g->bytes);
  free(host);
  return e;
}

static clave_status run_op(session *s, method *m, plan *p, step *st) {
  const node nd = {&m->instructions[st->instruction], p->bound[st->backend], p->values,
                   &m->cache[st->backend][st->instruction], s->random};
  return run_node(s, m, st, launch_number(s, st), &nd);
}

static clave_status observe_result(session *s, const bound_tensor *t, int b, uint32_t instruction,
                                   uint32_t tid) {
  size_t bytes;
  TRY(known_bytes(&t->t, &bytes));
  void *host = malloc(bytes + 1);
  if (!host) return status_no_memory();
  stream *q = s->streams[b];
  clave_status st = NULL;
  if (bytes)
    st = q->owner->vt->read(
        q, t->buf, t->buffer_offset + (size_t)t->t.offset * dtype_size(t->t.type), host, bytes);
  host_tensor value = {.t = t->t, .data = host};
  tensor_set_contiguous(&value.t);
  if (!st && !s->observe(s->observe_ctx, instruction, tid, &value))
    st = INVALID("stopped by the observer");
  free(host);
  return st;
}

static clave_status observe_step(session *s, const method *m, plan *p, const step *st) {
  if (!s->observe || st->kind != STEP_RUN) return NULL;
  uint32_t source = m->source[st->instruction];
  for (operand_iter i = operands_of(&m->instructions[st->instruction]); next_operand(&i);)
    if (i.o.flags & IR_OUT)
      TRY(observe_result(s, &p->bound[st->backend][i.o.tid], st->backend, source, i.o.tid));
  return NULL;
}

/* Debugging: bytes whose last reader has run become NaN patterns. */
static clave_status poison_dead(session *s, plan *p, uint32_t number) {
  unsigned char pattern[4096];
  memset(pattern, 0xff, sizeof pattern);
  for (uint32_t i = 0; i < p->n_blocks; i++) {
    const block *k = &p->blocks[i];
    if (k->kind != BLOCK_ARENA || k->a.last != number) continue;
    for (size_t at = 0; at < k->a.bytes; at += sizeof pattern) {
      size_t n = k->a.bytes - at < sizeof pattern ? k->a.bytes - at : sizeof pattern;
      TRY(s->devices.backends[k->backend]->vt->write(s->streams[k->backend],
                                                     s->arenas[k->backend].chunks[k->a.chunk],
                                                     k->a.offset + at, pattern, n));
    }
  }
  return NULL;
}

static clave_status run_step(session *s, method *m, plan *p, step *st) {
  if (st->kind == STEP_RUN) return run_op(s, m, p, st);
  if (st->kind == STEP_TRANSFER) return run_transfer(s, p, st);
  TRY(run_copy(s, m, p, st, false));
  if (st->rebind != NO_INDEX) rebind_slot(s, p, st->rebind, st->out);
  return NULL;
}

clave_status run_extra_step(session *s, method *m, plan *p, step *st) {
  int64_t start = s->options.profile ? clock_ns() : 0;
  TRY(run_step(s, m, p, st));
  if (s->observe) TRY(observe_step(s, m, p, st));
  if (!s->options.profile) return NULL;
  return trace_add(s, (trace_event){.method = (uint32_t)(m - s->methods),
                                    .instruction = st->instruction,
                                    .kind = st->kind,
                                    .backend = st->backend,
                                    .start_ns = start,
                                    .end_ns = clock_ns()});
}

static clave_status run_numbered(session *s, method *m, plan *p, uint32_t i) {
  step *st = &p->steps[i]; /* until run_control: bodies that are planned late move the list */
  if (st->kind < STEP_CONTROL) TRY(run_extra_step(s, m, p, st));
  if (st->kind == STEP_CONTROL) TRY(run_control(s, m, p, p->controls[st->control]));
  return s->options.poison ? poison_dead(s, p, i) : NULL;
}

clave_status run_steps(session *s, method *m, plan *p, span steps) {
  s->random.run++;
  for (uint32_t i = steps.first;; i++) { /* asks in a loop without steps, too */
    if (s->options.cancel && s->options.cancel(s->options.cancel_ctx)) return INVALID("cancelled");
    if (i >= steps.end) return NULL;
    clave_status e = run_numbered(s, m, p, i);
    if (e) return while_in_node(e, s, m, p->steps[i].instruction);
    if (p->steps[i].kind == STEP_CONTROL) i = p->controls[p->steps[i].control]->end - 1;
  }
}

clave_status read_element(session *s, plan *p, location l, int b, unsigned char *raw) {
  bound_tensor t = bind_location(s, p, l, b);
  size_t size = dtype_size(t.t.type);
  return s->devices.backends[b]->vt->read(s->streams[b], t.buf,
                                          t.buffer_offset + (size_t)t.t.offset * size, raw, size);
}

/* ---------------------------------------------------------------- kernels */

typedef struct progress_relay {
  void (*progress)(void *ctx, const char *what, int done, int total);
  void *ctx;
} progress_relay;

static void relay_progress(void *ctx, int done, int total) {
  const progress_relay *r = ctx;
  r->progress(r->ctx, "building kernels", done, total);
}

static clave_status build_kernels(session *s) {
  for (int b = 0; b < s->devices.count; b++) {
    const backend_vtable *vt = s->devices.backends[b]->vt;
    if (!vt->build_all) continue;
    progress_relay r = {s->options.progress, s->options.progress_ctx};
    TRY(vt->build_all(s->streams[b], s->options.progress ? relay_progress : NULL, &r));
  }
  return NULL;
}

clave_status prepare_phase(session *s, method *m, plan *p, const phase *ph) {
  bool asked = false;
  for (uint32_t i = ph->first_step; i < ph->first_step + ph->n_steps; i++) {
    step *st = &p->steps[i];
    const backend_vtable *vt = s->devices.backends[st->backend]->vt;
    if (!vt->prepare || st->kind >= STEP_TRANSFER) continue;
    asked = true;
    clave_status e;
    if (st->kind == STEP_COPY) {
      e = run_copy(s, m, p, st, true);
    } else {
      const node nd = {&m->instructions[st->instruction], p->bound[st->backend], p->values,
                       &m->cache[st->backend][st->instruction], s->random};
      e = vt->prepare(s->streams[st->backend], &nd);
    }
    if (st->kind == STEP_COPY && st->rebind != NO_INDEX) rebind_slot(s, p, st->rebind, st->out);
    if (e) return while_in_node(e, s, m, st->instruction);
  }
  restore_slots(s, p, (span){ph->first_step, ph->first_step + ph->n_steps});
  return asked ? build_kernels(s) : NULL;
}
