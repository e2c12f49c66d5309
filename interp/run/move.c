/* Moving ops to the CPU backend: those whose kernels a device cannot run, or that gave wrong
 * numbers there. An executable does not change, so the session gets one of its own. */
#include "interp/run/move.h"

#include <stdlib.h>
#include <string.h>
#include "interp/run/bindings.h"
#include "interp/run/trace_work.h"

int cpu_of(const session *s) {
  for (int b = 0; b < s->devices.count; b++)
    if (strcmp(s->devices.backends[b]->info.kind, "cpu") == 0) return b;
  return -1;
}

bool can_move(const running *r, uint32_t instruction, int from) {
  const session *s = r->s;
  int to = s->devices.no_fallback ? -1 : cpu_of(s);
  if (s->options.strict_check || instruction >= r->g->n || r->m->where[instruction] != from)
    return false;
  return r->g->instructions[instruction].op_type == IR_OP_CUSTOM || (to >= 0 && to != from);
}

clave_status move_later(const running *r, uint32_t instruction, const char *reason) {
  const char **moved = &r->state->moved[instruction];
  if (!*moved) *moved = mem_pool_strdup(r->s->pool, reason, strlen(reason));
  if (!*moved) return status_no_memory();
  r->state->has_moved = true;
  return NULL;
}

static ir_op op_of(const running *r, uint32_t instruction) {
  return r->g->instructions[instruction].op_type;
}

const char *place_of_moved(const ir_instruction *ins) {
  return ins->op_type == IR_OP_CUSTOM ? "its reference runs" : "it runs on the CPU backend";
}

/* One line to whoever listens, for the first of an op. */
static void note_move(const running *r, const command *c, const char *why) {
  const session_options *o = &r->s->options;
  for (uint32_t i = 0; i < r->g->n; i++)
    if (i != c->instruction && r->state->moved[i] && op_of(r, i) == op_of(r, c->instruction))
      return;
  text note = {0};
  const ir_instruction *ins = &r->g->instructions[c->instruction];
  text_printf(&note, "%s cannot run on %s (%s); %s", name_of_op(ins),
              r->s->devices.backends[c->backend]->info.name, why, place_of_moved(ins));
  if (o->message && note.data) o->message(o->message_ctx, note.data);
  text_free(&note);
}

clave_status give_up_command(const running *r, const command *c, clave_status why) {
  if (status_code_of(why) != STATUS_UNSUPPORTED || c->kind != COMMAND_RUN ||
      !can_move(r, c->instruction, c->backend))
    return why;
  clave_status st = move_later(r, c->instruction, status_message(why));
  if (st) {
    status_free(why);
    return st;
  }
  note_move(r, c, status_message(why));
  r->s->plan_again = true;
  return why;
}

clave_status replace_moved(session *s) {
  uint32_t n = s->prog->ir.methods.count, found = 0;
  for (uint32_t k = 0; k < n; k++) found += s->methods[k].has_moved;
  if (!found) return NULL;
  const char *const **reasons = calloc(n, sizeof *reasons);
  if (!reasons) return status_no_memory();
  for (uint32_t k = 0; k < n; k++) reasons[k] = s->methods[k].moved;
  executable *x = NULL;
  clave_status st = trace_settle(s);
  if (!st) st = executable_move(s->x, reasons, (uint8_t)cpu_of(s), &x);
  free(reasons);
  if (st) return st;
  forget_bindings(s);
  executable_destroy(s->own);
  s->x = s->own = x;
  for (uint32_t k = 0; k < n; k++) s->methods[k].has_moved = false;
  return NULL;
}

bool host_may_copy(const session *s, const command *c, const struct clave_error *st) {
  return c->kind == COMMAND_COPY && status_code_of(st) == STATUS_UNSUPPORTED &&
         !s->options.strict_check && !s->devices.no_fallback;
}
