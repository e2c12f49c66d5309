/* Writes the statements of run_model: commands in order, with branches and loops around those of
 * bodies, as interp/run/control_flow.c runs them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "compile/emitter.h"

static void emit_control_begin_line(emitter *emitter) {
  text_printf(&emitter->run, "%*s", 2 * emitter->depth, "");
}

static void line(emitter *emitter, const char *format, ...) STATUS_PRINTF(2, 3);
static void line(emitter *emitter, const char *format, ...) {
  va_list args;
  va_start(args, format);
  emit_control_begin_line(emitter);
  text_vprintf(&emitter->run, format, args);
  text_puts(&emitter->run, "\n");
  va_end(args);
}

static void open_block(emitter *emitter, const char *head) {
  line(emitter, *head ? "%s {" : "%s{", head);
  emitter->depth++;
}

static void close_block(emitter *emitter) {
  emitter->depth--;
  line(emitter, "}");
}

/* Writes "LEFT = ADDRESS;". */
static void emit_control_assign(emitter *emitter, const char *left, uint32_t in, int64_t offset) {
  emit_control_begin_line(emitter);
  text_printf(&emitter->run, "%s = ", left);
  write_storage(emitter, in, offset, &emitter->run);
  text_puts(&emitter->run, ";\n");
}

/* ---------------------------------------------------------------- predicates */

/* Writes "const bool NAME = ...;" with the value of the control's predicate. */
static void emit_predicate(emitter *emitter, const control *control, const char *name) {
  emit_control_begin_line(emitter);
  text_printf(&emitter->run, "const bool %s = model_truth(m, ", name);
  write_storage(emitter, control->predicate.storage, byte_offset(&control->predicate.t),
                &emitter->run);
  text_puts(&emitter->run, ");\n");
}

static clave_status emit_body(emitter *emitter, const control *control, int body) {
  line(emitter, "if (!model_begin_stretch(m)) return;");
  return emit_commands(emitter, control->body[body]);
}

static clave_status emit_branch(emitter *emitter, const control *control, const char *condition,
                                int body) {
  open_block(emitter, condition);
  TRY(emit_body(emitter, control, body));
  close_block(emitter);
  return NULL;
}

static clave_status emit_if(emitter *emitter, const control *control, uint32_t number) {
  char name[32], condition[64];
  if (control->known >= 0) return emit_branch(emitter, control, "", control->known == 1 ? 0 : 1);
  (void)snprintf(name, sizeof name, "taken_%u", number);
  emit_predicate(emitter, control, name);
  (void)snprintf(condition, sizeof condition, "if (m->measures || %s)", name);
  TRY(emit_branch(emitter, control, condition, 0));
  (void)snprintf(condition, sizeof condition, "if (m->measures || !%s)", name);
  return emit_branch(emitter, control, condition, 1);
}

/* ---------------------------------------------------------------- carried values of loops */

/* Name of the variable with the address of loop result k during the loop. */
typedef struct carried_name {
  char text[40];
} carried_name;
static carried_name name_carried(uint32_t number, uint32_t k) {
  carried_name name;
  (void)snprintf(name.text, sizeof name.text, "carried_%u_%u", number, k);
  return name;
}

static void emit_control_begin_carried(emitter *emitter, const control *control, uint32_t number) {
  for (uint32_t k = 0; k < control->n_results; k++) {
    if (!control->results[k].is_carried) continue;
    char left[64];
    (void)snprintf(left, sizeof left, "char *%s", name_carried(number, k).text);
    emit_control_assign(emitter, left, control->results[k].first, 0);
  }
}

static size_t rebased_number(const emitter *emitter, uint32_t in) {
  return emitter->plan->place[emitter->schedule->storages[in].block[0]];
}

/* Writes the condition `NAME == address of a storage`. */
static void write_is_at(emitter *emitter, const char *name, uint32_t in) {
  text_printf(&emitter->run, "%s == ", name);
  write_storage(emitter, in, 0, &emitter->run);
}

/* Writes the addresses of a carried value for one iteration. The body reads it from one buffer, as
 * its argument, and writes to the other. */
static void rebase_carried(emitter *emitter, const control *control, uint32_t number, uint32_t k) {
  const body_result *result = &control->results[k];
  const carried_name name = name_carried(number, k);
  line(emitter, "m->rebased[%zu] = %s;", rebased_number(emitter, result->arg), name.text);
  emit_control_begin_line(emitter);
  text_printf(&emitter->run, "m->rebased[%zu] = ", rebased_number(emitter, result->target));
  write_is_at(emitter, name.text, result->result);
  text_puts(&emitter->run, " ? ");
  write_storage(emitter, result->spare, 0, &emitter->run);
  text_puts(&emitter->run, " : ");
  write_storage(emitter, result->result, 0, &emitter->run);
  text_puts(&emitter->run, ";\n");
}

/* Writes the addresses of carried values and, for iteration i_NUMBER of a scan, of slices. */
static void emit_rebasing(emitter *emitter, const control *control, uint32_t number) {
  for (uint32_t k = 0; k < control->n_results; k++)
    if (control->results[k].is_carried) rebase_carried(emitter, control, number, k);
  for (uint32_t k = 0; k < control->n_slices; k++) {
    const slices *slices = &control->slices[k];
    emit_control_begin_line(emitter);
    text_printf(&emitter->run, "m->rebased[%zu] = model_at(",
                rebased_number(emitter, slices->storage));
    write_storage(emitter, slices->whole.storage, byte_offset(&slices->whole.t), &emitter->run);
    text_printf(&emitter->run, ", i_%u * %" PRId64 ");\n", number, slices->stride);
  }
}

static void emit_advance(emitter *emitter, const control *control, uint32_t number) {
  for (uint32_t k = 0; k < control->n_results; k++) {
    const body_result *result = &control->results[k];
    if (!result->is_carried || !result->written) continue;
    const carried_name name = name_carried(number, k);
    const uint32_t now =
        result->stacked == NO_INDEX ? result->target : control->results[result->stacked].target;
    line(emitter, "%s = m->rebased[%zu];", name.text, rebased_number(emitter, now));
  }
}

/* Copies the last carried values to the op's results. */
static clave_status emit_control_end_carried(emitter *emitter, const control *control,
                                             uint32_t number) {
  const ir_u32s *tids = control_results(&emitter->plan->graph->instructions[control->instruction]);
  for (uint32_t k = 0; k < control->n_results; k++) {
    const body_result *result = &control->results[k];
    if (!result->is_carried || !result->copied ||
        !emitter->schedule->storages[result->result].bytes)
      continue;
    const carried_name name = name_carried(number, k);
    command copy = {.kind = COMMAND_COPY,
                    .instruction = control->instruction,
                    .out = {result->result, emitter->schedule->types[tids->items[k]]},
                    .rebind = NO_INDEX,
                    .recorded = result->copied};
    char function[48];
    (void)snprintf(function, sizeof function, "copy_%s", name.text);
    emitter->source = "from";
    clave_status st = emit_function(emitter, &copy, function, ", const char *from");
    emitter->source = NULL;
    if (st) return st;
    emit_control_begin_line(emitter);
    text_puts(&emitter->run, "if (!(");
    write_is_at(emitter, name.text, result->result);
    text_printf(&emitter->run, ")) %s(m, %s);\n", function, name.text);
  }
  return NULL;
}

/* ---------------------------------------------------------------- loops */

static clave_status emit_while(emitter *emitter, const control *control, uint32_t number) {
  char name[32];
  (void)snprintf(name, sizeof name, "goes_on_%u", number);
  emit_control_begin_carried(emitter, control, number);
  open_block(emitter, "for (;;)");
  emit_rebasing(emitter, control, number);
  TRY(emit_body(emitter, control, 0));
  emit_predicate(emitter, control, name);
  line(emitter, "if (!%s && !m->measures) break;", name);
  TRY(emit_body(emitter, control, 1));
  emit_advance(emitter, control, number);
  line(emitter, "if (m->measures) break;");
  close_block(emitter);
  return emit_control_end_carried(emitter, control, number);
}

static clave_status emit_scan(emitter *emitter, const control *control, uint32_t number) {
  char head[96];
  (void)snprintf(head, sizeof head,
                 "for (int64_t i_%u = 0; i_%u < (m->measures ? %d : %" PRId64 "); i_%u++)", number,
                 number, control->trips > 0, control->trips, number);
  emit_control_begin_carried(emitter, control, number);
  open_block(emitter, head);
  emit_rebasing(emitter, control, number);
  TRY(emit_body(emitter, control, 0));
  emit_advance(emitter, control, number);
  close_block(emitter);
  return emit_control_end_carried(emitter, control, number);
}

/* Writes a control in a block, so that its variables are local. */
static clave_status emit_control(emitter *emitter, uint32_t number) {
  const control *control = emitter->schedule->controls[number];
  open_block(emitter, "");
  switch (emitter->plan->graph->instructions[control->instruction].op_type) {
    case IR_OP_IF:
    case IR_OP_CUSTOM:
      TRY(emit_if(emitter, control, number));
      break;
    case IR_OP_WHILE:
      TRY(emit_while(emitter, control, number));
      break;
    default:
      TRY(emit_scan(emitter, control, number));
  }
  close_block(emitter);
  return NULL;
}

/* ---------------------------------------------------------------- commands */

static clave_status emit_command(emitter *emitter, uint32_t i) {
  const command *command = &emitter->schedule->commands[i];
  char name[32];
  if (command->kind == COMMAND_END) return NULL;
  if (command->kind == COMMAND_CONTROL) return emit_control(emitter, command->control);
  (void)snprintf(name, sizeof name, "command_%u", i);
  TRY(emit_function(emitter, command, name, ""));
  line(emitter, "%s(m);", name);
  if (command->kind == COMMAND_COPY && command->rebind != NO_INDEX)
    emitter->now[command->rebind] = command->out;
  return NULL;
}

clave_status emit_commands(emitter *emitter, range commands) {
  for (uint32_t i = commands.first; i < commands.end; i++) {
    TRY(emit_command(emitter, i));
    if (emitter->schedule->commands[i].kind == COMMAND_CONTROL)
      i = emitter->schedule->controls[emitter->schedule->commands[i].control]->end - 1;
  }
  return NULL;
}
