/* Runs control ops: which body, how often, and where its rebased blocks are in every iteration. */
#include "interp/run/control_flow.h"

#include "interp/run/bind.h"
#include "interp/run/commands.h"
#include "interp/run/prepare.h"
#include "interp/run/streams.h"
#include "interp/run/walk.h"

/* A control op that runs. */
typedef struct control_run {
  const running *r;
  uint32_t number;  /* of the control in the schedule */
  const control *c; /* of the schedule that was current when it began */
} control_run;

/* ---------------------------------------------------------------- what loops carry */

/* `ended`: the control as the body that has run was planned. */
static void advance(const control_run *k, const control *ended) {
  carried_state *carried = k->r->b->carried[k->number].items;
  for (uint32_t i = 0; i < ended->n_results; i++) {
    const body_result *t = &ended->results[i];
    if (!t->is_carried || !t->written) continue;
    if (t->stacked != NO_INDEX) {
      carried[i].storage = ended->results[t->stacked].target;
    } else {
      carried[i].storage = carried[i].storage == t->result ? t->spare : t->result;
    }
  }
}

/* The last values become the op's results. */
static clave_status end_carried(const control_run *k) {
  const running *r = k->r;
  const schedule *p = r->b->p;
  const ir_instruction *ins = &r->g->instructions[k->c->instruction];
  for (uint32_t i = 0; i < k->c->n_results; i++) {
    const body_result *t = &k->c->results[i];
    carried_state *carried = &r->b->carried[k->number].items[i];
    uint32_t in = carried->storage;
    if (!t->is_carried || in == t->result || !p->storages[t->result].bytes) continue;
    uint32_t tid = control_results(ins)->items[i];
    command copy = {.kind = COMMAND_COPY,
                    .backend = t->home,
                    .instruction = k->c->instruction,
                    .x = {in, p->types[tid]},
                    .out = {t->result, p->types[tid]},
                    .rebind = NO_INDEX,
                    .recorded = t->copied};
    tensor_set_contiguous(&copy.x.t);
    tensor_set_contiguous(&copy.out.t);
    carried->copy.backend = t->home;
    TRY(run_command(r, &copy, &carried->copy));
  }
  return NULL;
}

/* ---------------------------------------------------------------- bodies */

static clave_status read_predicate(const running *r, const control *c, bool *truth) {
  unsigned char raw[8] = {0};
  TRY(finish_all(r->s, r->g)); /* a value made of bad data is none */
  TRY(read_element(r, c->predicate, c->predicate_home, raw));
  *truth = raw[0] != 0;
  return NULL;
}

/* truth: where the body is a loop's condition, what it gives. */
static clave_status run_current(const control_run *k, bool *truth) {
  TRY(run_parts(k->r));
  const control *ended = k->r->b->p->controls[k->number];
  if (truth) return read_predicate(k->r, ended, truth);
  advance(k, ended);
  return NULL;
}

static clave_status run_late(const control_run *k, int body, bool *truth) {
  const running *r = k->r;
  schedule *outer;
  bool is_new;
  TRY(enter_late_body(r, k->number, body, &outer, &is_new));
  clave_status st = is_new ? prepare_kernels(r) : NULL;
  if (!st) st = run_current(k, truth);
  leave_late_body(r, outer);
  return st;
}

static clave_status run_body(const control_run *k, int body, bool *truth) {
  if (k->c->late[body]) return run_late(k, body, truth);
  restore_slots(k->r, k->c->body[body]);
  TRY(run_commands(k->r, k->c->body[body]));
  if (truth) return read_predicate(k->r, k->c, truth);
  advance(k, k->c);
  return NULL;
}

/* ---------------------------------------------------------------- ops */

static clave_status run_if(const control_run *k) {
  bool truth = k->c->known == 1;
  if (k->c->known < 0) TRY(read_predicate(k->r, k->c, &truth));
  return run_body(k, truth ? 0 : 1, NULL);
}

static clave_status run_while(const control_run *k) {
  begin_carried(k->r, k->number);
  for (;;) {
    bool truth = false;
    rebase_blocks(k->r, k->number, 0);
    TRY(run_body(k, 0, &truth));
    if (!truth) return end_carried(k);
    TRY(run_body(k, 1, NULL));
  }
}

static clave_status run_scan(const control_run *k) {
  begin_carried(k->r, k->number);
  for (int64_t i = 0; i < k->c->trips; i++) {
    rebase_blocks(k->r, k->number, i);
    TRY(run_body(k, 0, NULL));
  }
  return end_carried(k);
}

clave_status run_control(const running *r, uint32_t number) {
  const control_run k = {r, number, r->b->p->controls[number]};
  switch (r->g->instructions[k.c->instruction].op_type) {
    case IR_OP_IF:
    case IR_OP_CUSTOM:
      return run_if(&k);
    case IR_OP_WHILE:
      return run_while(&k);
    default:
      return run_scan(&k);
  }
}
