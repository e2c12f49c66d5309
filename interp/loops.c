/* Runs control ops: which body, how often, and where its moving blocks are in every step. */
#include "interp/internal.h"

/* ---------------------------------------------------------------- carries */

static void advance(control *c) {
  for (uint32_t k = 0; k < c->n_ties; k++) {
    tie *t = &c->ties[k];
    if (!t->is_carry || !t->written) continue;
    if (t->stacked != NO_INDEX) {
      t->current = c->ties[t->stacked].target;
    } else {
      t->current = t->current == t->result ? t->spare : t->result;
    }
  }
}

/* The last values of the carries become the op's results. */
static clave_status end_carries(session *s, method *m, plan *p, control *c) {
  for (uint32_t k = 0; k < c->n_ties; k++) {
    const tie *t = &c->ties[k];
    if (!t->is_carry || t->current == t->result || !p->storages[t->result].bytes) continue;
    const ir_instruction *ins = &m->instructions[c->instruction];
    const ir_scan *scan = ins->op;
    const ir_while *loop = ins->op;
    uint32_t tid = ins->op_type == IR_OP_SCAN ? scan->results.items[k] : loop->results.items[k];
    location from = {t->current, p->types[tid]}, to = {t->result, p->types[tid]};
    tensor_set_contiguous(&from.t);
    tensor_set_contiguous(&to.t);
    TRY(run_extra_step(s, m, p,
                       &(step){.kind = STEP_COPY,
                               .backend = t->home,
                               .instruction = c->instruction,
                               .x = from,
                               .out = to,
                               .rebind = NO_INDEX}));
  }
  return NULL;
}

/* ---------------------------------------------------------------- bodies */

static clave_status read_predicate(session *s, const method *m, plan *p, const control *c,
                                   bool *truth) {
  unsigned char raw[8] = {0};
  TRY(finish_all(s, m)); /* bad data decides nothing */
  TRY(read_element(s, p, c->predicate, c->predicate_home, raw));
  *truth = raw[0] != 0;
  return NULL;
}

static clave_status run_late(session *s, method *m, plan *p, control *c, int b, bool *truth) {
  plan_mark before = mark_plan(p);
  span r = m->bodies[c->instruction][b];
  cursor k = {.next = r.first, .end = r.end, .c = c, .body = b};
  clave_status st = run_phases(s, m, p, &k, p->n_phases);
  if (!st && truth) st = read_predicate(s, m, p, c, truth);
  rewind_plan(s, m, p, &before, r);
  return st;
}

/* truth: where the body is a loop's condition, what it gives. */
static clave_status run_body(session *s, method *m, plan *p, control *c, int b, bool *truth) {
  if (c->late[b]) return run_late(s, m, p, c, b, truth);
  restore_slots(s, p, c->body[b]);
  TRY(run_steps(s, m, p, c->body[b]));
  return truth ? read_predicate(s, m, p, c, truth) : NULL;
}

static clave_status run_if(session *s, method *m, plan *p, control *c) {
  bool truth = c->known == 1;
  if (c->known < 0) TRY(read_predicate(s, m, p, c, &truth));
  return run_body(s, m, p, c, truth ? 0 : 1, NULL);
}

static clave_status run_while(session *s, method *m, plan *p, control *c) {
  begin_carries(c);
  for (;;) {
    bool truth = false;
    move_blocks(s, p, c, 0);
    TRY(run_body(s, m, p, c, 0, &truth));
    if (!truth) return end_carries(s, m, p, c);
    TRY(run_body(s, m, p, c, 1, NULL));
    advance(c);
  }
}

static clave_status run_scan(session *s, method *m, plan *p, control *c) {
  begin_carries(c);
  for (int64_t i = 0; i < c->trips; i++) {
    move_blocks(s, p, c, i);
    TRY(run_body(s, m, p, c, 0, NULL));
    advance(c);
  }
  return end_carries(s, m, p, c);
}

clave_status run_control(session *s, method *m, plan *p, control *c) {
  switch (m->instructions[c->instruction].op_type) {
    case IR_OP_IF:
      return run_if(s, m, p, c);
    case IR_OP_WHILE:
      return run_while(s, m, p, c);
    default:
      return run_scan(s, m, p, c);
  }
}
