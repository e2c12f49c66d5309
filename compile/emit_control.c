/* The statements of run_model: commands in their order, branches and loops around those of bodies,
 * as interp/run/control_flow.c runs them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "compile/emitter.h"

static void begin_line(emitter *e) { text_printf(&e->run, "%*s", 2 * e->depth, ""); }

static void line(emitter *e, const char *format, ...) STATUS_PRINTF(2, 3);
static void line(emitter *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  begin_line(e);
  text_vprintf(&e->run, format, args);
  text_puts(&e->run, "\n");
  va_end(args);
}

static void open_block(emitter *e, const char *head) {
  line(e, *head ? "%s {" : "%s{", head);
  e->depth++;
}

static void close_block(emitter *e) {
  e->depth--;
  line(e, "}");
}

/* "LEFT = ADDRESS;" */
static void assign(emitter *e, const char *left, uint32_t in, int64_t offset) {
  begin_line(e);
  text_printf(&e->run, "%s = ", left);
  write_storage(e, in, offset, &e->run);
  text_puts(&e->run, ";\n");
}

/* ---------------------------------------------------------------- predicates */

/* const bool NAME = the truth of the control's predicate. */
static void emit_predicate(emitter *e, const control *c, const char *name) {
  begin_line(e);
  text_printf(&e->run, "const bool %s = model_truth(m, ", name);
  write_storage(e, c->predicate.storage, byte_offset(&c->predicate.t), &e->run);
  text_puts(&e->run, ");\n");
}

static clave_status emit_body(emitter *e, const control *c, int body) {
  line(e, "if (!model_begin_stretch(m)) return;");
  return emit_commands(e, c->body[body]);
}

static clave_status emit_branch(emitter *e, const control *c, const char *condition, int body) {
  open_block(e, condition);
  TRY(emit_body(e, c, body));
  close_block(e);
  return NULL;
}

static clave_status emit_if(emitter *e, const control *c, uint32_t number) {
  char name[32], condition[64];
  if (c->known >= 0) return emit_branch(e, c, "", c->known == 1 ? 0 : 1);
  (void)snprintf(name, sizeof name, "taken_%u", number);
  emit_predicate(e, c, name);
  (void)snprintf(condition, sizeof condition, "if (m->measures || %s)", name);
  TRY(emit_branch(e, c, condition, 0));
  (void)snprintf(condition, sizeof condition, "if (m->measures || !%s)", name);
  return emit_branch(e, c, condition, 1);
}

/* ---------------------------------------------------------------- what loops carry */

/* Where result k of the loop is while it runs. */
typedef struct carried_name {
  char text[40];
} carried_name;
static carried_name name_carried(uint32_t number, uint32_t k) {
  carried_name n;
  (void)snprintf(n.text, sizeof n.text, "carried_%u_%u", number, k);
  return n;
}

static void begin_carried(emitter *e, const control *c, uint32_t number) {
  for (uint32_t k = 0; k < c->n_results; k++) {
    if (!c->results[k].is_carried) continue;
    char left[64];
    (void)snprintf(left, sizeof left, "char *%s", name_carried(number, k).text);
    assign(e, left, c->results[k].first, 0);
  }
}

static size_t rebased_number(const emitter *e, uint32_t in) {
  return e->k->place[e->p->storages[in].block[0]];
}

/* `NAME == address of a storage`, to be followed by what depends on it. */
static void write_is_at(emitter *e, const char *name, uint32_t in) {
  text_printf(&e->run, "%s == ", name);
  write_storage(e, in, 0, &e->run);
}

/* The body reads what is carried as its arg, and writes the other of two buffers. */
static void rebase_carried(emitter *e, const control *c, uint32_t number, uint32_t k) {
  const body_result *t = &c->results[k];
  const carried_name name = name_carried(number, k);
  line(e, "m->rebased[%zu] = %s;", rebased_number(e, t->arg), name.text);
  begin_line(e);
  text_printf(&e->run, "m->rebased[%zu] = ", rebased_number(e, t->target));
  write_is_at(e, name.text, t->result);
  text_puts(&e->run, " ? ");
  write_storage(e, t->spare, 0, &e->run);
  text_puts(&e->run, " : ");
  write_storage(e, t->result, 0, &e->run);
  text_puts(&e->run, ";\n");
}

/* i: the iteration's number, in a loop over slices. */
static void emit_rebasing(emitter *e, const control *c, uint32_t number) {
  for (uint32_t k = 0; k < c->n_results; k++)
    if (c->results[k].is_carried) rebase_carried(e, c, number, k);
  for (uint32_t k = 0; k < c->n_slices; k++) {
    const slices *x = &c->slices[k];
    begin_line(e);
    text_printf(&e->run, "m->rebased[%zu] = model_at(", rebased_number(e, x->storage));
    write_storage(e, x->whole.storage, byte_offset(&x->whole.t), &e->run);
    text_printf(&e->run, ", i_%u * %" PRId64 ");\n", number, x->stride);
  }
}

static void emit_advance(emitter *e, const control *c, uint32_t number) {
  for (uint32_t k = 0; k < c->n_results; k++) {
    const body_result *t = &c->results[k];
    if (!t->is_carried || !t->written) continue;
    const carried_name name = name_carried(number, k);
    const uint32_t now = t->stacked == NO_INDEX ? t->target : c->results[t->stacked].target;
    line(e, "%s = m->rebased[%zu];", name.text, rebased_number(e, now));
  }
}

/* The last values become the op's results. */
static clave_status end_carried(emitter *e, const control *c, uint32_t number) {
  const ir_u32s *tids = control_results(&e->k->g->instructions[c->instruction]);
  for (uint32_t k = 0; k < c->n_results; k++) {
    const body_result *t = &c->results[k];
    if (!t->is_carried || !t->copied || !e->p->storages[t->result].bytes) continue;
    const carried_name name = name_carried(number, k);
    command copy = {.kind = COMMAND_COPY,
                    .instruction = c->instruction,
                    .out = {t->result, e->p->types[tids->items[k]]},
                    .rebind = NO_INDEX,
                    .recorded = t->copied};
    char function[48];
    (void)snprintf(function, sizeof function, "copy_%s", name.text);
    e->source = "from";
    clave_status st = emit_function(e, &copy, function, ", const char *from");
    e->source = NULL;
    if (st) return st;
    begin_line(e);
    text_puts(&e->run, "if (!(");
    write_is_at(e, name.text, t->result);
    text_printf(&e->run, ")) %s(m, %s);\n", function, name.text);
  }
  return NULL;
}

/* ---------------------------------------------------------------- loops */

static clave_status emit_while(emitter *e, const control *c, uint32_t number) {
  char name[32];
  (void)snprintf(name, sizeof name, "goes_on_%u", number);
  begin_carried(e, c, number);
  open_block(e, "for (;;)");
  emit_rebasing(e, c, number);
  TRY(emit_body(e, c, 0));
  emit_predicate(e, c, name);
  line(e, "if (!%s && !m->measures) break;", name);
  TRY(emit_body(e, c, 1));
  emit_advance(e, c, number);
  line(e, "if (m->measures) break;");
  close_block(e);
  return end_carried(e, c, number);
}

static clave_status emit_scan(emitter *e, const control *c, uint32_t number) {
  char head[96];
  (void)snprintf(head, sizeof head,
                 "for (int64_t i_%u = 0; i_%u < (m->measures ? %d : %" PRId64 "); i_%u++)", number,
                 number, c->trips > 0, c->trips, number);
  begin_carried(e, c, number);
  open_block(e, head);
  emit_rebasing(e, c, number);
  TRY(emit_body(e, c, 0));
  emit_advance(e, c, number);
  close_block(e);
  return end_carried(e, c, number);
}

/* What it declares is seen in its own block alone. */
static clave_status emit_control(emitter *e, uint32_t number) {
  const control *c = e->p->controls[number];
  open_block(e, "");
  switch (e->k->g->instructions[c->instruction].op_type) {
    case IR_OP_IF:
    case IR_OP_CUSTOM:
      TRY(emit_if(e, c, number));
      break;
    case IR_OP_WHILE:
      TRY(emit_while(e, c, number));
      break;
    default:
      TRY(emit_scan(e, c, number));
  }
  close_block(e);
  return NULL;
}

/* ---------------------------------------------------------------- commands */

static clave_status emit_command(emitter *e, uint32_t i) {
  const command *c = &e->p->commands[i];
  char name[32];
  if (c->kind == COMMAND_END) return NULL;
  if (c->kind == COMMAND_CONTROL) return emit_control(e, c->control);
  (void)snprintf(name, sizeof name, "command_%u", i);
  TRY(emit_function(e, c, name, ""));
  line(e, "%s(m);", name);
  if (c->kind == COMMAND_COPY && c->rebind != NO_INDEX) e->now[c->rebind] = c->out;
  return NULL;
}

clave_status emit_commands(emitter *e, range commands) {
  for (uint32_t i = commands.first; i < commands.end; i++) {
    TRY(emit_command(e, i));
    if (e->p->commands[i].kind == COMMAND_CONTROL)
      i = e->p->controls[e->p->commands[i].control]->end - 1;
  }
  return NULL;
}
