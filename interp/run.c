/* The loop: binds inputs, finds or makes the plan of their sizes, executes its steps, reads the
 * outputs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "interp/internal.h"
#include "interp/scalar.h"
#include "interp/self_check.h"

/* ---------------------------------------------------------------- inputs */

static clave_status bind_dims(const session *s, const method *m, uint32_t index,
                              scalar_value *values) {
  const ir_argument *a = &m->ir->inputs.items[index];
  const ir_tensor *d = &s->prog->ir.tensors.items[a->tensor];
  for (uint32_t k = 0; k < d->shape.count; k++) {
    uint32_t vid = d->shape.items[k].vid;
    int64_t have = m->inputs[index].t.dims[k];
    if (vid == IR_NONE) continue;
    if (values[vid].known && values[vid].i != have)
      return INVALID("dimension %u of input '%s' is %" PRId64 ", but '%s' is already %" PRId64, k,
                     a->name, have, s->prog->ir.values.items[vid].name, values[vid].i);
    if (values[vid].known) continue;
    char what[160];
    snprintf(what, sizeof what, "dimension %u of input '%.100s'", k, a->name);
    TRY(scalar_set(&s->prog->ir, vid, (scalar_value){.i = have}, values, what));
  }
  return NULL;
}

static clave_status bind_inputs(const session *s, const method *m, scalar_value *values) {
  for (uint32_t i = 0; i < m->ir->inputs.count; i++) {
    const ir_argument *a = &m->ir->inputs.items[i];
    if (!m->inputs[i].set)
      return INVALID("input %u ('%s') of method '%s' was not given", i, a->name, m->ir->name);
    if (a->tensor != IR_NONE) {
      TRY(bind_dims(s, m, i, values));
    } else {
      char what[160];
      snprintf(what, sizeof what, "input '%.100s'", a->name);
      const scalar_value *v = &values[a->value];
      if (v->known && v->i != m->inputs[i].scalar.i)
        return INVALID("%s is %" PRId64 ", but the sizes of other inputs make it %" PRId64, what,
                       m->inputs[i].scalar.i, v->i);
      TRY(scalar_set(&s->prog->ir, a->value, m->inputs[i].scalar, values, what));
    }
  }
  return NULL;
}

/* ---------------------------------------------------------------- plans of past sizes */

static bool same_values(const scalar_value *a, const scalar_value *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (a[i].known != b[i].known ||
        (a[i].known && (a[i].i != b[i].i || memcmp(&a[i].f, &b[i].f, sizeof a[i].f) != 0)))
      return false;
  return true;
}

static bool same_sizes(const method *m, const plan *p) {
  for (uint32_t i = 0; i < m->ir->inputs.count; i++) {
    uint32_t tid = m->ir->inputs.items[i].tensor;
    if (tid == IR_NONE) continue;
    if (memcmp(p->types[tid].dims, m->inputs[i].t.dims,
               (size_t)p->types[tid].rank * sizeof(int64_t)) != 0)
      return false;
  }
  return true;
}

enum { KEPT_PLANS = sizeof((method *)0)->plans / sizeof(plan *) };

/* Moves the plan of these values to the front, or puts a new one there. */
static clave_status find_plan(session *s, method *m, const scalar_value *values, plan **out) {
  size_t i = 0;
  while (i < KEPT_PLANS && m->plans[i] &&
         !(same_values(m->plans[i]->key, values, s->prog->ir.values.count) &&
           same_sizes(m, m->plans[i])))
    i++;
  plan *p = i < KEPT_PLANS ? m->plans[i] : NULL;
  if (!p) {
    TRY(plan_create(s, m, values, &p));
    if (i == KEPT_PLANS) plan_destroy(m->plans[--i]);
  }
  memmove(&m->plans[1], &m->plans[0], i * sizeof(plan *));
  *out = m->plans[0] = p;
  return NULL;
}

static void forget_plan(method *m) {
  plan_destroy(m->plans[0]);
  memmove(&m->plans[0], &m->plans[1], (KEPT_PLANS - 1) * sizeof(plan *));
  m->plans[KEPT_PLANS - 1] = NULL;
}

/* ---------------------------------------------------------------- steps */

/* The two slots behind the program's own are the operands of the planner's copies. */
static clave_status run_copy(session *s, method *m, plan *p, uint32_t number, bool prepare) {
  const step *st = &p->steps[number];
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
  node nd = {&ins, bound, p->values, cache};
  if (prepare) return be->vt->prepare ? be->vt->prepare(s->streams[st->backend], &nd) : NULL;
  return run_node(s, m, p, number, &nd);
}

static void rebind(const session *s, plan *p, uint32_t slot, location l) {
  const storage *g = &p->storages[l.storage];
  for (int b = 0; b < s->devices.count; b++)
    if (g->block[b] != NO_INDEX) p->bound[b][slot] = bind_location(s, p, l, b);
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

static clave_status run_op(session *s, method *m, plan *p, uint32_t number) {
  const step *st = &p->steps[number];
  const node nd = {&m->instructions[st->instruction], p->bound[st->backend], p->values,
                   &m->cache[st->backend][st->instruction]};
  return run_node(s, m, p, number, &nd);
}

typedef struct observing {
  session *s;
  const method *m;
  plan *p;
  const step *st;
  clave_status status;
} observing;

static bool observe_result(void *ctx, const operand *o) {
  observing *v = ctx;
  if (!(o->flags & IR_OUT)) return true;
  const bound_tensor *t = &v->p->bound[v->st->backend][o->tid];
  size_t bytes;
  v->status = known_bytes(&t->t, &bytes);
  void *host = v->status ? NULL : malloc(bytes + 1);
  if (!v->status && !host) v->status = status_no_memory();
  stream *q = v->s->streams[v->st->backend];
  if (!v->status && bytes)
    v->status = q->owner->vt->read(
        q, t->buf, t->buffer_offset + (size_t)t->t.offset * dtype_size(t->t.type), host, bytes);
  host_tensor value = {.t = t->t, .data = host};
  tensor_set_contiguous(&value.t);
  if (!v->status &&
      !v->s->observe(v->s->observe_ctx, v->m->source[v->st->instruction], o->tid, &value))
    v->status = INVALID("stopped by the observer");
  free(host);
  return v->status == NULL;
}

static clave_status observe_step(session *s, const method *m, plan *p, const step *st) {
  if (!s->observe || st->kind != STEP_RUN) return NULL;
  observing v = {s, m, p, st, NULL};
  for_each_operand(&m->instructions[st->instruction], observe_result, &v);
  return v.status;
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

static clave_status run_step(session *s, method *m, plan *p, uint32_t number) {
  const step *st = &p->steps[number];
  if (st->kind == STEP_RUN) return run_op(s, m, p, number);
  if (st->kind == STEP_TRANSFER) return run_transfer(s, p, st);
  TRY(run_copy(s, m, p, number, false));
  if (st->rebind != NO_INDEX) rebind(s, p, st->rebind, st->out);
  return NULL;
}

static clave_status run_steps(session *s, method *m, plan *p, const phase *ph) {
  const bool watched = s->options.profile || s->options.poison || s->observe;
  for (uint32_t i = ph->first_step; i < ph->first_step + ph->n_steps; i++) {
    int64_t start = watched ? clock_ns() : 0;
    clave_status e = run_step(s, m, p, i);
    if (!e && watched) {
      const step *st = &p->steps[i];
      e = observe_step(s, m, p, st);
      if (!e && s->options.poison) e = poison_dead(s, p, i);
      trace_event t = {.method = (uint32_t)(m - s->methods),
                       .instruction = st->instruction,
                       .kind = st->kind,
                       .backend = st->backend,
                       .start_ns = start,
                       .end_ns = clock_ns()};
      if (!e && s->options.profile) e = trace_add(s, t);
    }
    if (e) return while_in_node(e, s, m, p->steps[i].instruction);
  }
  return NULL;
}

/* Where slots are before step `done`: where they are produced, or where copies made them move. */
static void restore_slots(const session *s, plan *p, uint32_t done) {
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (p->steps[i].kind == STEP_COPY && p->steps[i].rebind != NO_INDEX)
      rebind(s, p, p->steps[i].rebind, p->at[p->steps[i].rebind]);
  for (uint32_t i = 0; i < done; i++)
    if (p->steps[i].kind == STEP_COPY && p->steps[i].rebind != NO_INDEX)
      rebind(s, p, p->steps[i].rebind, p->steps[i].out);
}

/* ---------------------------------------------------------------- phases */

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

static clave_status prepare_phase(session *s, method *m, plan *p, const phase *ph) {
  bool asked = false;
  restore_slots(s, p, ph->first_step);
  for (uint32_t i = ph->first_step; i < ph->first_step + ph->n_steps; i++) {
    const step *st = &p->steps[i];
    const backend_vtable *vt = s->devices.backends[st->backend]->vt;
    if (!vt->prepare || st->kind == STEP_TRANSFER) continue;
    asked = true;
    clave_status e;
    if (st->kind == STEP_COPY) {
      e = run_copy(s, m, p, i, true);
    } else {
      const node nd = {&m->instructions[st->instruction], p->bound[st->backend], p->values,
                       &m->cache[st->backend][st->instruction]};
      e = vt->prepare(s->streams[st->backend], &nd);
    }
    if (st->kind == STEP_COPY && st->rebind != NO_INDEX) rebind(s, p, st->rebind, st->out);
    if (e) return while_in_node(e, s, m, st->instruction);
  }
  restore_slots(s, p, ph->first_step);
  return asked ? build_kernels(s) : NULL;
}

static clave_status write_inputs(session *s, const method *m, plan *p, uint32_t phase_number) {
  for (uint32_t i = 0; i < m->ir->inputs.count; i++) {
    uint32_t tid = m->ir->inputs.items[i].tensor;
    if (tid == IR_NONE || p->at[tid].storage == NO_INDEX) continue;
    const storage *g = &p->storages[p->at[tid].storage];
    for (int b = 0; b < s->devices.count; b++) {
      if (g->block[b] == NO_INDEX || !g->bytes || p->blocks[g->block[b]].phase != phase_number)
        continue;
      bound_tensor t = bind_location(s, p, p->at[tid], b);
      TRY(s->devices.backends[b]->vt->write(s->streams[b], t.buf, t.buffer_offset,
                                            m->inputs[i].data, g->bytes));
    }
  }
  return NULL;
}

static clave_status read_item(session *s, const method *m, plan *p, uint32_t instruction) {
  const ir_item *op = m->instructions[instruction].op;
  location l = p->now[op->x];
  int b = p->storages[l.storage].home == NO_HOME ? 0 : p->storages[l.storage].home;
  bound_tensor t = bind_location(s, p, l, b);
  unsigned char raw[8] = {0};
  size_t size = dtype_size(t.t.type);
  TRY(s->devices.backends[b]->vt->read(s->streams[b], t.buf,
                                       t.buffer_offset + (size_t)t.t.offset * size, raw, size));
  scalar_value v = {0};
  TRY(scalar_from_bytes(t.t.type, raw, s->prog->ir.values.items[op->out].type, &v));
  return scalar_set(&s->prog->ir, op->out, v, p->values, "the value of an item");
}

static clave_status fault_status(const session *s, const method *m, const plan *p,
                                 const device_fault *f) {
  uint32_t i = f->node < p->n_steps ? p->steps[f->node].instruction : m->n;
  clave_status st = f->fault.kind == KERNEL_FAULT_DIVISION
                        ? INVALID("integer division by zero")
                        : INVALID("index %" PRId64 " out of range [%" PRId64 ", %" PRId64 "]",
                                  f->fault.value, f->fault.low, f->fault.high);
  return while_in_node(st, s, m, i);
}

static clave_status finish_all(session *s, const method *m, const plan *p) {
  clave_status first = NULL;
  for (int b = 0; b < s->devices.count; b++) {
    device_fault f = {0};
    clave_status e = s->devices.backends[b]->vt->finish(s->streams[b], &f);
    if (!e && f.present) e = fault_status(s, m, p, &f);
    if (first) {
      status_free(e);
    } else {
      first = e;
    }
  }
  return first;
}

static clave_status run_phases(session *s, method *m, plan *p) {
  for (uint32_t i = 0;; i++) {
    if (i == p->n_phases) {
      TRY(plan_next_phase(s, m, p));
      TRY(prepare_phase(s, m, p, &p->phases[i]));
    }
    phase ph = p->phases[i];
    if (p->arena_generation != s->arena_generation + 1) {
      TRY(bind_plan(s, p));
      restore_slots(s, p, ph.first_step);
    }
    TRY(write_inputs(s, m, p, i + 1));
    TRY(run_steps(s, m, p, &ph));
    if (ph.item == NO_INDEX) return NULL;
    TRY(finish_all(s, m, p)); /* a value made of bad data is none */
    clave_status e = read_item(s, m, p, ph.item);
    if (e) return while_in_node(e, s, m, ph.item);
  }
}

static clave_status read_output(session *s, method *m, plan *p, uint32_t i) {
  const ir_argument *a = &m->ir->outputs.items[i];
  host_tensor *o = &m->outputs[i];
  size_t bytes = 8;
  if (a->tensor != IR_NONE) {
    o->t = p->types[a->tensor];
    TRY(known_bytes(&o->t, &bytes));
  }
  tensor_set_contiguous(&o->t);
  if (!o->data || m->output_capacity[i] < bytes) {
    free(o->data);
    m->output_capacity[i] = 0;
    o->data = malloc(bytes + 1);
    if (!o->data) return status_no_memory();
    m->output_capacity[i] = bytes;
  }
  if (a->tensor == IR_NONE) {
    scalar_to_bytes(&p->values[a->value], &o->t, o->data);
    return NULL;
  }
  location l = p->at[a->tensor];
  int b = p->storages[l.storage].home;
  bound_tensor t = bind_location(s, p, l, b);
  return bytes ? s->devices.backends[b]->vt->read(s->streams[b], t.buf, t.buffer_offset, o->data,
                                                  bytes)
               : NULL;
}

static clave_status run_plan(session *s, method *m, plan *p) {
  clave_status st = run_phases(s, m, p);
  clave_status faults = finish_all(s, m, p);
  if (st) {
    status_free(faults);
  } else {
    st = faults;
  }
  for (uint32_t i = 0; i < m->ir->outputs.count && !st; i++) st = read_output(s, m, p, i);
  if (!st && s->options.profile) st = trace_finish(s);
  restore_slots(s, p, 0);
  return st;
}

clave_status session_run(session *s, uint32_t index) {
  method *m = &s->methods[index];
  m->has_run = false;
  s->n_events = 0;
  scalar_value *values = calloc(s->prog->ir.values.count + 1, sizeof *values);
  if (!values) return status_no_memory();
  plan *p;
  clave_status st = bind_inputs(s, m, values);
  if (!st) st = find_plan(s, m, values, &p);
  free(values);
  if (st) return status_while(st, "method '%s'", m->ir->name);
  st = run_plan(s, m, p);
  s->last_arena_bytes = p->arena_bytes;
  if (st || p->n_phases > 1 || p->next_instruction < m->n) forget_plan(m);
  replace_distrusted(s, m);
  m->has_run = st == NULL;
  return status_while(st, "method '%s'", m->ir->name);
}
