#ifndef TEST_INTERP_SIMULATE_H
#define TEST_INTERP_SIMULATE_H
/* Runs a schedule on simulated memory that records, for each unit of an arena, the storage last
 * written to it: a command must read what was written for it. Loops run three times; sizes that
 * depend on data are 1 and 2 in turn. */
#include "interp/null_device.h"

enum { UNIT = 64, MAX_UNITS = 1 << 20, ITERATIONS = 3 };

/* Marks, in memory.whole, a state block that holds the value for the next run. */
#define NEXT_VALUE (NO_INDEX - 1)

typedef struct memory {
  executable *x;
  uint32_t method;
  const graph *g;
  schedule *p;
  location *at;                  /* (n_slots) location of each slot's contents */
  uint32_t *arena[MAX_BACKENDS]; /* (MAX_UNITS) storage last written to each unit, for all chunks */
  uint32_t *whole;               /* by block: storage last written to blocks outside of arenas */
  int64_t item;                  /* the value that the next Item reads */
  uint32_t commands;             /* number of commands seen */
  bool refused;                  /* no later schedule can be made of these values */
} memory;

/* ---------------------------------------------------------------- blocks */

static inline size_t first_unit(const memory *memory, const block *block) {
  size_t unit = block->a.offset / UNIT;
  for (uint32_t c = 0; c < block->a.chunk; c++)
    unit += memory->p->chunk_bytes[block->backend][c] / UNIT + 1;
  return unit;
}

static inline size_t unit_count(const block *block) { return (block->a.bytes + UNIT - 1) / UNIT; }

static inline void write_storage(memory *memory, uint32_t index, int b) {
  uint32_t i = memory->p->storages[index].block[b];
  assert_int_not_equal(i, NO_INDEX);
  const block *block = &memory->p->blocks[i];
  memory->whole[i] = index;
  if (block->kind != BLOCK_ARENA) return;
  size_t first = first_unit(memory, block);
  assert_true(first + unit_count(block) < MAX_UNITS);
  for (size_t u = 0; u < unit_count(block); u++) memory->arena[b][first + u] = index;
}

/* True if the blocks of a storage still hold its contents. */
static inline bool holds(const memory *memory, uint32_t index, int b) {
  uint32_t i = memory->p->storages[index].block[b];
  assert_int_not_equal(i, NO_INDEX);
  const block *block = &memory->p->blocks[i];
  if (block->kind == BLOCK_STATE) return memory->whole[i] == NO_INDEX || memory->whole[i] == index;
  if (block->kind != BLOCK_ARENA) return true;
  size_t first = first_unit(memory, block);
  for (size_t u = 0; u < unit_count(block); u++)
    if (memory->arena[b][first + u] != index) return false;
  return true;
}

static inline void expect_held(memory *memory, uint32_t index, int b, uint32_t instruction,
                               const char *what) {
  if (holds(memory, index, b)) return;
  fail_msg("%s of node %u on device %d: storage %u was written over", what,
           instruction < memory->g->n ? memory->g->source[instruction] : instruction, b, index);
}

/* ---------------------------------------------------------------- commands */

static inline uint32_t block_of(const memory *memory, uint32_t tid, int b) {
  return memory->p->storages[memory->at[tid].storage].block[b];
}

/* True if a result that reuses an operand's memory is written into the block of operand `tid`. */
static inline bool is_changed(const memory *memory, const ir_instruction *ins, uint32_t tid,
                              int b) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (i.operand.reuses != IR_NONE &&
        block_of(memory, i.operand.reuses, b) == block_of(memory, i.operand.tid, b) &&
        block_of(memory, tid, b) == block_of(memory, i.operand.tid, b))
      return true;
  return false;
}

/* Checks that a result in place has all of one operand's memory and none of another's. */
static inline void check_in_place(const memory *memory, const ir_instruction *ins, uint32_t tid,
                                  int b) {
  const location *location = &memory->at[tid];
  assert_true(tensor_is_contiguous(&location->t) && location->t.offset == 0);
  assert_int_equal((size_t)tensor_numel(&location->t) * dtype_size(location->t.type),
                   memory->p->storages[location->storage].bytes);
  int n = 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    n += !(i.operand.flags & IR_OUT) &&
         block_of(memory, i.operand.tid, b) == block_of(memory, tid, b);
  assert_int_equal(n, 1);
}

static inline void read_operands(memory *memory, const command *command, const ir_instruction *ins,
                                 bool are_written) {
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    const location *location = &memory->at[i.operand.tid];
    assert_int_not_equal(location->storage, NO_INDEX);
    if ((i.operand.flags & IR_OUT) || !tensor_numel(&location->t)) continue;
    bool good = !(i.operand.flags & IR_DENSE) || tensor_is_contiguous(&location->t);
    assert_true(good && (!(i.operand.flags & IR_ROWS) || tensor_rows_contiguous(&location->t)));
    if (!are_written || !is_changed(memory, ins, i.operand.tid, command->backend))
      expect_held(memory, location->storage, command->backend, command->instruction,
                  i.operand.field);
  }
}

static inline void simulate_op(memory *memory, const command *command) {
  const ir_instruction *ins = &memory->g->instructions[command->instruction];
  read_operands(memory, command, ins, false);
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (!(i.operand.flags & IR_OUT) || !tensor_numel(&memory->at[i.operand.tid].t)) continue;
    uint32_t out = memory->at[i.operand.tid].storage;
    if (i.operand.reuses != IR_NONE &&
        is_changed(memory, ins, i.operand.reuses, command->backend)) {
      check_in_place(memory, ins, i.operand.reuses, command->backend);
    } else if (i.operand.reuses != IR_NONE) {
      expect_held(memory, out, command->backend, command->instruction,
                  "the copy of what is changed");
    }
    write_storage(memory, out, command->backend);
  }
  read_operands(memory, command, ins, true); /* results are stored elsewhere */
}

static inline void simulate_commands(memory *memory, range range);

static inline void simulate_late(memory *memory, const control *control, uint32_t number, int body);

/* Checks or writes a loop's results in rebased blocks, which stay allocated for the whole loop. */
static inline void each_result(memory *memory, const control *control, bool write) {
  for (uint32_t k = 0; k < control->n_results; k++) {
    const body_result *result = &control->results[k];
    if (!memory->p->storages[result->result].bytes) continue;
    if (write) write_storage(memory, result->result, result->home);
    if (write && result->is_carried) write_storage(memory, result->spare, result->home);
    if (write) continue;
    expect_held(memory, result->result, result->home, control->instruction, "a result");
    if (result->is_carried)
      expect_held(memory, result->spare, result->home, control->instruction,
                  "a result's other half");
  }
}

static inline void simulate_body(memory *memory, const control *control, uint32_t number,
                                 int body) {
  if (control->known >= 0 && control->known != !body) return;
  for (uint32_t i = control->body[body].first; i < control->body[body].end; i++) {
    const command *command = &memory->p->commands[i];
    if (command->kind == COMMAND_COPY && command->rebind != NO_INDEX)
      memory->at[command->rebind] = memory->p->at[command->rebind];
  }
  if (control->late[body]) {
    simulate_late(memory, control, number, body);
  } else {
    simulate_commands(memory, control->body[body]);
  }
}

static inline void simulate_control(memory *memory, uint32_t number) {
  const control *control = memory->p->controls[number];
  const ir_instruction *ins = &memory->g->instructions[control->instruction];
  bool is_loop = ins->op_type != IR_OP_IF;
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  if (is_loop) each_result(memory, control, true);
  for (int i = 0; i < (is_loop ? ITERATIONS : 1); i++) {
    for (int b = 0; b < n; b++) simulate_body(memory, control, number, b);
    if (is_loop && !memory->refused) each_result(memory, control, false);
  }
  if (!is_loop && !memory->refused) each_result(memory, control, false);
}

static inline void simulate_commands(memory *memory, range range) {
  for (uint32_t i = range.first; i < range.end && !memory->refused; i++) {
    const command *command = &memory->p->commands[i];
    int b = command->backend;
    memory->commands++;
    if (command->kind == COMMAND_RUN) simulate_op(memory, command);
    if (command->kind == COMMAND_COPY) {
      expect_held(memory, command->x.storage, b, command->instruction, "the copied operand");
      assert_true(tensor_is_contiguous(&command->out.t)); /* the host copies contiguous tensors */
      write_storage(memory, command->out.storage, b);
      uint32_t to = memory->p->storages[command->out.storage].block[b];
      if (memory->p->blocks[to].kind == BLOCK_STATE && command->instruction == memory->g->n)
        memory->whole[to] = NEXT_VALUE;
      if (command->rebind != NO_INDEX) memory->at[command->rebind] = command->out;
    }
    if (command->kind == COMMAND_TRANSFER && memory->p->storages[command->x.storage].bytes) {
      expect_held(memory, command->x.storage, memory->p->storages[command->x.storage].home,
                  command->instruction, "a transfer");
      write_storage(memory, command->x.storage, b);
    }
    if (command->kind == COMMAND_CONTROL) {
      simulate_control(memory, command->control);
      i = memory->p->controls[command->control]->end - 1;
    }
  }
}

/* ---------------------------------------------------------------- schedules */

static inline void write_inputs(memory *memory) {
  for (uint32_t i = 0; i < memory->p->n_storages; i++) {
    const storage *storage = &memory->p->storages[i];
    for (int b = 0; b < memory->x->devices.count; b++)
      if (storage->home == NO_HOME && storage->block[b] != NO_INDEX &&
          memory->p->blocks[storage->block[b]].segment == memory->p->number)
        write_storage(memory, i, b);
  }
}

/* Checks the locations of this schedule's slots; other slots stay where commands put them. */
static inline void enter(memory *memory, schedule *schedule) {
  memory->p = schedule;
  for (uint32_t i = 0; i < slot_count(memory->x->prog); i++) {
    uint32_t w = memory->g->writer[i];
    bool is_own =
        w != NO_INDEX && w >= schedule->instructions.first && w < schedule->instructions.end;
    if (schedule->at[i].storage != NO_INDEX && (is_own || memory->at[i].storage == NO_INDEX))
      memory->at[i] = schedule->at[i];
  }
  memory->whole = realloc(memory->whole, (schedule->n_blocks + 1) * sizeof *memory->whole);
  for (uint32_t i = schedule->first_block; i < schedule->n_blocks; i++) memory->whole[i] = NO_INDEX;
  write_inputs(memory);
}

static inline bool next_schedule(memory *memory, cursor from, const scalar_value *value,
                                 schedule **out) {
  bool made;
  clave_status st =
      schedule_find_next(memory->x, memory->method, memory->p, from, value, out, &made);
  memory->refused = st != NULL;
  status_free(st);
  return !memory->refused;
}

/* Simulates the current schedule and those that follow it. */
static inline void simulate_segments(memory *memory) {
  for (;;) {
    schedule *schedule = memory->p, *next;
    simulate_commands(memory, (range){schedule->first_command, schedule->n_commands});
    if (memory->refused || schedule->reads == NO_INDEX) return;
    memory->item = memory->item % 2 + 1;
    scalar_value value = {.known = true, .i = memory->item, .f = (double)memory->item};
    if (!next_schedule(memory, schedule->rest, &value, &next)) return;
    schedule_release(memory->x, next); /* the list keeps it, as there are at most two values */
    enter(memory, next);
  }
}

static inline void simulate_late(memory *memory, const control *control, uint32_t number,
                                 int body) {
  schedule *before = memory->p, *next;
  range range = memory->g->bodies[control->instruction][body];
  cursor from = {range.first, range.end, number, body};
  if (!next_schedule(memory, from, NULL, &next)) {
    memory->refused = false; /* its branch need never run */
    return;
  }
  schedule_release(memory->x, next);
  enter(memory, next);
  simulate_segments(memory);
  memory->p = before;
  memory->refused = false;
}

static inline void check_outputs(memory *memory) {
  const ir_arguments *outputs = &memory->g->method->outputs;
  for (uint32_t i = 0; i < outputs->count; i++) {
    uint32_t tid = outputs->items[i].tensor;
    if (tid == IR_NONE || !tensor_numel(&memory->p->types[tid])) continue;
    const location *location = &memory->p->at[tid];
    assert_true(tensor_is_contiguous(&location->t) && location->t.offset == 0);
    expect_held(memory, location->storage, memory->p->storages[location->storage].home,
                memory->g->n, "an output");
  }
}

/* Runs the method for inputs of these values. *commands: number of commands seen. */
static inline void simulate(executable *executable, uint32_t method, const scalar_value *values,
                            uint32_t *commands) {
  schedule *schedule;
  clave_status st = schedule_find(executable, method, values, false, &schedule);
  *commands = 0;
  status_free(st);
  if (st) return;
  memory memory = {.x = executable, .method = method, .g = &executable->methods[method].graph};
  size_t n = slot_count(executable->prog);
  memory.at = malloc((n + 1) * sizeof *memory.at);
  for (size_t i = 0; i < n; i++) memory.at[i].storage = NO_INDEX;
  for (int b = 0; b < executable->devices.count; b++)
    memory.arena[b] = malloc(MAX_UNITS * sizeof *memory.arena[b]);
  for (int b = 0; b < executable->devices.count; b++)
    memset(memory.arena[b], 0xff, MAX_UNITS * sizeof **memory.arena);
  enter(&memory, schedule);
  simulate_segments(&memory);
  if (!memory.refused) check_outputs(&memory);
  for (int b = 0; b < executable->devices.count; b++) free(memory.arena[b]);
  free(memory.at);
  free(memory.whole);
  schedule_release(executable, schedule);
  *commands = memory.commands;
}

#endif
