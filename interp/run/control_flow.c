/* Runs control ops: chooses and repeats bodies, and sets rebased blocks in every iteration. */
#include "interp/run/control_flow.h"

#include "interp/run/bind.h"
#include "interp/run/commands.h"
#include "interp/run/prepare.h"
#include "interp/run/streams.h"
#include "interp/run/walk.h"

/* One running control op. */
typedef struct control_run {
  const running *run;
  uint32_t number;        /* index of the control in the schedule */
  const control *control; /* its entry in the schedule that was current when the op began */
} control_run;

/* ---------------------------------------------------------------- carried values */

/* Swaps the buffers of carried values after a body. ended: the control in the body's schedule. */
static void control_flow_advance(const control_run *run, const control *ended) {
  carried_state *carried = run->run->binding->carried[run->number].items;
  for (uint32_t i = 0; i < ended->n_results; i++) {
    const body_result *result = &ended->results[i];
    if (!result->is_carried || !result->written) continue;
    if (result->stacked != NO_INDEX) {
      carried[i].storage = ended->results[result->stacked].target;
    } else {
      carried[i].storage = carried[i].storage == result->result ? result->spare : result->result;
    }
  }
}

/* Copies the last carried values to the op's results, unless they are already there. */
static clave_status control_flow_end_carried(const control_run *run) {
  const running *running = run->run;
  const schedule *schedule = running->binding->schedule;
  const ir_instruction *ins = &running->graph->instructions[run->control->instruction];
  for (uint32_t i = 0; i < run->control->n_results; i++) {
    const body_result *result = &run->control->results[i];
    carried_state *carried = &running->binding->carried[run->number].items[i];
    uint32_t in = carried->storage;
    if (!result->is_carried || in == result->result || !schedule->storages[result->result].bytes)
      continue;
    uint32_t tid = control_results(ins)->items[i];
    command copy = {.kind = COMMAND_COPY,
                    .backend = result->home,
                    .instruction = run->control->instruction,
                    .x = {in, schedule->types[tid]},
                    .out = {result->result, schedule->types[tid]},
                    .rebind = NO_INDEX,
                    .recorded = result->copied};
    tensor_set_contiguous(&copy.x.t);
    tensor_set_contiguous(&copy.out.t);
    carried->copy.backend = result->home;
    TRY(run_command(running, &copy, &carried->copy));
  }
  return NULL;
}

/* ---------------------------------------------------------------- bodies */

static clave_status read_predicate(const running *run, const control *control, bool *truth) {
  unsigned char raw[8] = {0};
  TRY(finish_all(run->session, run->graph)); /* reports bad data before its value is used */
  TRY(read_element(run, control->predicate, control->predicate_home, raw));
  *truth = raw[0] != 0;
  return NULL;
}

/* Runs the current schedule of a late body. truth: set if the body is a loop's condition. */
static clave_status run_current(const control_run *run, bool *truth) {
  TRY(run_segments(run->run));
  const control *ended = run->run->binding->schedule->controls[run->number];
  if (truth) return read_predicate(run->run, ended, truth);
  control_flow_advance(run, ended);
  return NULL;
}

static clave_status run_late(const control_run *run, int body, bool *truth) {
  const running *running = run->run;
  schedule *outer;
  bool is_new;
  TRY(enter_late_body(running, run->number, body, &outer, &is_new));
  clave_status st = is_new ? prepare_kernels(running) : NULL;
  if (!st) st = run_current(run, truth);
  leave_late_body(running, outer);
  return st;
}

static clave_status run_body(const control_run *run, int body, bool *truth) {
  if (run->control->late[body]) return run_late(run, body, truth);
  restore_slots(run->run, run->control->body[body]);
  TRY(run_commands(run->run, run->control->body[body]));
  if (truth) return read_predicate(run->run, run->control, truth);
  control_flow_advance(run, run->control);
  return NULL;
}

/* ---------------------------------------------------------------- ops */

static clave_status run_if(const control_run *run) {
  bool truth = run->control->known == 1;
  if (run->control->known < 0) TRY(read_predicate(run->run, run->control, &truth));
  return run_body(run, truth ? 0 : 1, NULL);
}

static clave_status run_while(const control_run *run) {
  begin_carried(run->run, run->number);
  for (;;) {
    bool truth = false;
    rebase_blocks(run->run, run->number, 0);
    TRY(run_body(run, 0, &truth));
    if (!truth) return control_flow_end_carried(run);
    TRY(run_body(run, 1, NULL));
  }
}

static clave_status run_scan(const control_run *run) {
  begin_carried(run->run, run->number);
  for (int64_t i = 0; i < run->control->trips; i++) {
    rebase_blocks(run->run, run->number, i);
    TRY(run_body(run, 0, NULL));
  }
  return control_flow_end_carried(run);
}

clave_status run_control(const running *run, uint32_t number) {
  const control_run in = {run, number, run->binding->schedule->controls[number]};
  switch (run->graph->instructions[in.control->instruction].op_type) {
    case IR_OP_IF:
    case IR_OP_CUSTOM:
      return run_if(&in);
    case IR_OP_WHILE:
      return run_while(&in);
    default:
      return run_scan(&in);
  }
}
