/* A run: binds inputs, finds or makes the plan of their sizes, executes it phase by phase, reads
 * the outputs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp/layout.h"
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

enum { KEPT_PLANS = sizeof((method *)0)->plans / sizeof(plan *) };

/* Moves the plan of these values, which sizes are among, to the front, or puts a new one there. */
static clave_status find_plan(session *s, method *m, const scalar_value *values, plan **out) {
  size_t i = 0;
  while (i < KEPT_PLANS && m->plans[i] &&
         !same_values(m->plans[i]->key, values, s->prog->ir.values.count))
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

/* ---------------------------------------------------------------- phases */

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
  unsigned char raw[8] = {0};
  scalar_value v = {0};
  TRY(read_element(s, p, l, home_of(p, l.storage), raw));
  TRY(scalar_from_bytes(l.t.type, raw, s->prog->ir.values.items[op->out].type, &v));
  return scalar_set(&s->prog->ir, op->out, v, p->values, "the value of an item");
}

static clave_status fault_text(const kernel_fault *f) {
  if (f->kind == KERNEL_FAULT_DIVISION) return INVALID("integer division by zero");
  if (f->kind == KERNEL_FAULT_ROWS)
    return INVALID("positions [%" PRId64 ", %" PRId64 ") do not fit into a cache of %" PRId64
                   " rows",
                   f->value, f->value + f->low, f->high);
  return INVALID("index %" PRId64 " out of range [%" PRId64 ", %" PRId64 "]", f->value, f->low,
                 f->high);
}

static clave_status fault_status(const session *s, const method *m, const device_fault *f) {
  uint32_t i =
      s->options.profile && f->node < s->n_events ? s->events[f->node].instruction : f->node;
  return while_in_node(fault_text(&f->fault), s, m, i);
}

clave_status finish_all(session *s, const method *m) {
  clave_status first = NULL;
  for (int b = 0; b < s->devices.count; b++) {
    device_fault f = {0};
    clave_status e = s->devices.backends[b]->vt->finish(s->streams[b], &f);
    if (!e && f.present) e = fault_status(s, m, &f);
    if (first) {
      status_free(e);
    } else {
      first = e;
    }
  }
  return first;
}

clave_status run_phases(session *s, method *m, plan *p, cursor *k, uint32_t i) {
  for (;; i++) {
    if (i == p->n_phases) {
      TRY(plan_next_phase(s, m, p, k));
      TRY(prepare_phase(s, m, p, &p->phases[i]));
    }
    if (p->arena_generation != s->arena_generation + 1) TRY(bind_plan(s, p));
    phase ph = p->phases[i];
    TRY(write_inputs(s, m, p, i + 1));
    TRY(run_steps(s, m, p, (span){ph.first_step, ph.first_step + ph.n_steps}));
    if (ph.item == NO_INDEX) return NULL;
    TRY(finish_all(s, m)); /* a value made of bad data is none */
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
  cursor k = {.next = p->next_instruction, .end = m->n};
  clave_status st = run_phases(s, m, p, &k, 0);
  p->next_instruction = k.next;
  clave_status faults = finish_all(s, m);
  if (st) {
    status_free(faults);
  } else {
    st = faults;
  }
  for (uint32_t i = 0; i < m->ir->outputs.count && !st; i++) st = read_output(s, m, p, i);
  if (!st && s->options.profile) st = trace_finish(s);
  restore_slots(s, p, (span){0, p->n_steps});
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
  s->last_arena_bytes = p->peak_bytes;
  if (st || p->n_phases > 1 || p->next_instruction < m->n) forget_plan(m);
  replace_distrusted(s, m);
  m->has_run = st == NULL;
  return status_while(st, "method '%s'", m->ir->name);
}
