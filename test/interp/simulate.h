#ifndef TEST_INTERP_SIMULATE_H
#define TEST_INTERP_SIMULATE_H
/* Runs a schedule on memory that knows, for each stretch of an arena, which storage was written
 * there last: what a command reads must be what was written for it. Loops run three times; sizes
 * that depend on data are 1 and 2 in turn. */
#include "interp/null_device.h"

enum { UNIT = 64, MAX_UNITS = 1 << 20, ITERATIONS = 3 };

/* Of a state that has the value of the next run. */
#define NEXT_VALUE (NO_INDEX - 1)

typedef struct memory {
  executable *x;
  uint32_t method;
  const graph *g;
  schedule *p;
  location *at;                  /* (n_slots) where the commands have put each */
  uint32_t *arena[MAX_BACKENDS]; /* (MAX_UNITS) storage, chunks one after the other */
  uint32_t *whole;               /* by block: storage, of those that are in no arena */
  int64_t item;                  /* what the next Item reads */
  uint32_t commands;             /* how many were seen */
  bool refused;                  /* a later schedule cannot be made of these values */
} memory;

/* ---------------------------------------------------------------- blocks */

static inline size_t first_unit(const memory *m, const block *k) {
  size_t unit = k->a.offset / UNIT;
  for (uint32_t c = 0; c < k->a.chunk; c++) unit += m->p->chunk_bytes[k->backend][c] / UNIT + 1;
  return unit;
}

static inline size_t unit_count(const block *k) { return (k->a.bytes + UNIT - 1) / UNIT; }

static inline void write_storage(memory *m, uint32_t index, int b) {
  uint32_t i = m->p->storages[index].block[b];
  assert_int_not_equal(i, NO_INDEX);
  const block *k = &m->p->blocks[i];
  m->whole[i] = index;
  if (k->kind != BLOCK_ARENA) return;
  size_t first = first_unit(m, k);
  assert_true(first + unit_count(k) < MAX_UNITS);
  for (size_t u = 0; u < unit_count(k); u++) m->arena[b][first + u] = index;
}

/* The storage, or the one that it was made of in place. */
static inline bool holds(const memory *m, uint32_t index, int b) {
  uint32_t i = m->p->storages[index].block[b];
  assert_int_not_equal(i, NO_INDEX);
  const block *k = &m->p->blocks[i];
  if (k->kind == BLOCK_STATE) return m->whole[i] == NO_INDEX || m->whole[i] == index;
  if (k->kind != BLOCK_ARENA) return true;
  size_t first = first_unit(m, k);
  for (size_t u = 0; u < unit_count(k); u++)
    if (m->arena[b][first + u] != index) return false;
  return true;
}

static inline void expect_held(memory *m, uint32_t index, int b, uint32_t instruction,
                               const char *what) {
  if (holds(m, index, b)) return;
  fail_msg("%s of node %u on device %d: storage %u was written over", what,
           instruction < m->g->n ? m->g->source[instruction] : instruction, b, index);
}

/* ---------------------------------------------------------------- commands */

static inline uint32_t block_of(const memory *m, uint32_t tid, int b) {
  return m->p->storages[m->at[tid].storage].block[b];
}

/* Whether an operand lies where a result does that is made of it. */
static inline bool is_changed(const memory *m, const ir_instruction *ins, uint32_t tid, int b) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (i.o.reuses != IR_NONE && block_of(m, i.o.reuses, b) == block_of(m, i.o.tid, b) &&
        block_of(m, tid, b) == block_of(m, i.o.tid, b))
      return true;
  return false;
}

/* All of its memory is the operand's, and no other operand's. */
static inline void check_in_place(const memory *m, const ir_instruction *ins, uint32_t tid, int b) {
  const location *l = &m->at[tid];
  assert_true(tensor_is_contiguous(&l->t) && l->t.offset == 0);
  assert_int_equal((size_t)tensor_numel(&l->t) * dtype_size(l->t.type),
                   m->p->storages[l->storage].bytes);
  int n = 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    n += !(i.o.flags & IR_OUT) && block_of(m, i.o.tid, b) == block_of(m, tid, b);
  assert_int_equal(n, 1);
}

static inline void read_operands(memory *m, const command *c, const ir_instruction *ins,
                                 bool are_written) {
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    const location *l = &m->at[i.o.tid];
    assert_int_not_equal(l->storage, NO_INDEX);
    if ((i.o.flags & IR_OUT) || !tensor_numel(&l->t)) continue;
    bool good = !(i.o.flags & IR_DENSE) || tensor_is_contiguous(&l->t);
    assert_true(good && (!(i.o.flags & IR_ROWS) || tensor_rows_contiguous(&l->t)));
    if (!are_written || !is_changed(m, ins, i.o.tid, c->backend))
      expect_held(m, l->storage, c->backend, c->instruction, i.o.field);
  }
}

static inline void simulate_op(memory *m, const command *c) {
  const ir_instruction *ins = &m->g->instructions[c->instruction];
  read_operands(m, c, ins, false);
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (!(i.o.flags & IR_OUT) || !tensor_numel(&m->at[i.o.tid].t)) continue;
    uint32_t out = m->at[i.o.tid].storage;
    if (i.o.reuses != IR_NONE && is_changed(m, ins, i.o.reuses, c->backend)) {
      check_in_place(m, ins, i.o.reuses, c->backend);
    } else if (i.o.reuses != IR_NONE) {
      expect_held(m, out, c->backend, c->instruction, "the copy of what is changed");
    }
    write_storage(m, out, c->backend);
  }
  read_operands(m, c, ins, true); /* results lie elsewhere */
}

static inline void simulate_commands(memory *m, range r);

static inline void simulate_late(memory *m, const control *c, uint32_t number, int body);

/* What a loop writes through rebased blocks is there from its begin to its end. */
static inline void each_result(memory *m, const control *c, bool write) {
  for (uint32_t k = 0; k < c->n_results; k++) {
    const body_result *t = &c->results[k];
    if (!m->p->storages[t->result].bytes) continue;
    if (write) write_storage(m, t->result, t->home);
    if (write && t->is_carried) write_storage(m, t->spare, t->home);
    if (write) continue;
    expect_held(m, t->result, t->home, c->instruction, "a result");
    if (t->is_carried) expect_held(m, t->spare, t->home, c->instruction, "a result's other half");
  }
}

static inline void simulate_body(memory *m, const control *c, uint32_t number, int body) {
  if (c->known >= 0 && c->known != !body) return;
  for (uint32_t i = c->body[body].first; i < c->body[body].end; i++) {
    const command *k = &m->p->commands[i];
    if (k->kind == COMMAND_COPY && k->rebind != NO_INDEX) m->at[k->rebind] = m->p->at[k->rebind];
  }
  if (c->late[body]) {
    simulate_late(m, c, number, body);
  } else {
    simulate_commands(m, c->body[body]);
  }
}

static inline void simulate_control(memory *m, uint32_t number) {
  const control *c = m->p->controls[number];
  const ir_instruction *ins = &m->g->instructions[c->instruction];
  bool is_loop = ins->op_type != IR_OP_IF;
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  if (is_loop) each_result(m, c, true);
  for (int i = 0; i < (is_loop ? ITERATIONS : 1); i++) {
    for (int b = 0; b < n; b++) simulate_body(m, c, number, b);
    if (is_loop && !m->refused) each_result(m, c, false);
  }
  if (!is_loop && !m->refused) each_result(m, c, false);
}

static inline void simulate_commands(memory *m, range r) {
  for (uint32_t i = r.first; i < r.end && !m->refused; i++) {
    const command *c = &m->p->commands[i];
    int b = c->backend;
    m->commands++;
    if (c->kind == COMMAND_RUN) simulate_op(m, c);
    if (c->kind == COMMAND_COPY) {
      expect_held(m, c->x.storage, b, c->instruction, "the copied operand");
      assert_true(tensor_is_contiguous(&c->out.t)); /* as the host's way to copy has it */
      write_storage(m, c->out.storage, b);
      uint32_t to = m->p->storages[c->out.storage].block[b];
      if (m->p->blocks[to].kind == BLOCK_STATE && c->instruction == m->g->n)
        m->whole[to] = NEXT_VALUE;
      if (c->rebind != NO_INDEX) m->at[c->rebind] = c->out;
    }
    if (c->kind == COMMAND_TRANSFER && m->p->storages[c->x.storage].bytes) {
      expect_held(m, c->x.storage, m->p->storages[c->x.storage].home, c->instruction, "a transfer");
      write_storage(m, c->x.storage, b);
    }
    if (c->kind == COMMAND_CONTROL) {
      simulate_control(m, c->control);
      i = m->p->controls[c->control]->end - 1;
    }
  }
}

/* ---------------------------------------------------------------- schedules */

static inline void write_inputs(memory *m) {
  for (uint32_t i = 0; i < m->p->n_storages; i++) {
    const storage *g = &m->p->storages[i];
    for (int b = 0; b < m->x->devices.count; b++)
      if (g->home == NO_HOME && g->block[b] != NO_INDEX &&
          m->p->blocks[g->block[b]].part == m->p->number)
        write_storage(m, i, b);
  }
}

/* Slots that this schedule produces are where it says; others stay where commands put them. */
static inline void enter(memory *m, schedule *p) {
  m->p = p;
  for (uint32_t i = 0; i < slot_count(m->x->prog); i++) {
    uint32_t w = m->g->writer[i];
    bool is_own = w != NO_INDEX && w >= p->instructions.first && w < p->instructions.end;
    if (p->at[i].storage != NO_INDEX && (is_own || m->at[i].storage == NO_INDEX))
      m->at[i] = p->at[i];
  }
  m->whole = realloc(m->whole, (p->n_blocks + 1) * sizeof *m->whole);
  for (uint32_t i = p->first_block; i < p->n_blocks; i++) m->whole[i] = NO_INDEX;
  write_inputs(m);
}

static inline bool next_schedule(memory *m, cursor from, const scalar_value *v, schedule **out) {
  bool made;
  clave_status st = schedule_find_next(m->x, m->method, m->p, from, v, out, &made);
  m->refused = st != NULL;
  status_free(st);
  return !m->refused;
}

/* The current schedule and what follows it. */
static inline void simulate_parts(memory *m) {
  for (;;) {
    schedule *p = m->p, *next;
    simulate_commands(m, (range){p->first_command, p->n_commands});
    if (m->refused || p->reads == NO_INDEX) return;
    m->item = m->item % 2 + 1;
    scalar_value v = {.known = true, .i = m->item, .f = (double)m->item};
    if (!next_schedule(m, p->rest, &v, &next)) return;
    schedule_release(m->x, next); /* its list holds it: no more than two values */
    enter(m, next);
  }
}

static inline void simulate_late(memory *m, const control *c, uint32_t number, int body) {
  schedule *before = m->p, *next;
  range r = m->g->bodies[c->instruction][body];
  cursor from = {r.first, r.end, number, body};
  if (!next_schedule(m, from, NULL, &next)) {
    m->refused = false; /* its branch need never run */
    return;
  }
  schedule_release(m->x, next);
  enter(m, next);
  simulate_parts(m);
  m->p = before;
  m->refused = false;
}

static inline void check_outputs(memory *m) {
  const ir_arguments *outputs = &m->g->method->outputs;
  for (uint32_t i = 0; i < outputs->count; i++) {
    uint32_t tid = outputs->items[i].tensor;
    if (tid == IR_NONE || !tensor_numel(&m->p->types[tid])) continue;
    const location *l = &m->p->at[tid];
    assert_true(tensor_is_contiguous(&l->t) && l->t.offset == 0);
    expect_held(m, l->storage, m->p->storages[l->storage].home, m->g->n, "an output");
  }
}

/* The method for inputs of these values. *commands: how many were seen. */
static inline void simulate(executable *x, uint32_t method, const scalar_value *values,
                            uint32_t *commands) {
  schedule *p;
  clave_status st = schedule_find(x, method, values, false, &p);
  *commands = 0;
  status_free(st);
  if (st) return;
  memory m = {.x = x, .method = method, .g = &x->methods[method].g};
  size_t n = slot_count(x->prog);
  m.at = malloc((n + 1) * sizeof *m.at);
  for (size_t i = 0; i < n; i++) m.at[i].storage = NO_INDEX;
  for (int b = 0; b < x->devices.count; b++) m.arena[b] = malloc(MAX_UNITS * sizeof *m.arena[b]);
  for (int b = 0; b < x->devices.count; b++) memset(m.arena[b], 0xff, MAX_UNITS * sizeof **m.arena);
  enter(&m, p);
  simulate_parts(&m);
  if (!m.refused) check_outputs(&m);
  for (int b = 0; b < x->devices.count; b++) free(m.arena[b]);
  free(m.at);
  free(m.whole);
  schedule_release(x, p);
  *commands = m.commands;
}

#endif
