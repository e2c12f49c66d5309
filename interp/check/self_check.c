/* Comparing a node's results with the CPU backend's: the bytes of its operands are copied before it
 * runs, the CPU backend runs it on the copies, and both results are read and compared.
 *
 * A launch is taken for right if one of its class was (the backend's is_unproven): the classes are
 * of sizes, so a command needs the question once. Nothing is taken for right unseen: of
 * large nodes a part is compared (operands.c), and one that is too large even so stays
 * unproven, which is said. */
#include "interp/check/self_check.h"

#include <stdlib.h>
#include <string.h>

#include "interp/check/bounds.h"
#include "interp/check/operands.h"
#include "interp/check/results.h"
#include "interp/host_copy.h"
#include "interp/run/move.h"
#include "interp/run/packed_weights.h"

static const char distrust_reason[] = "its kernels gave wrong numbers on this device";

void oracle_destroy(oracle *o) {
  if (!o) return;
  if (o->queue) o->cpu->vt->stream_destroy(o->cpu, o->queue);
  if (o->owner) o->owner->vt->destroy(o->owner);
  free(o);
}

static clave_status oracle_of(session *s) {
  if (s->oracle && s->oracle->queue) return NULL;
  oracle_destroy(s->oracle); /* half-built */
  oracle *o = s->oracle = calloc(1, sizeof *o);
  if (!o) return status_no_memory();
  int own = cpu_of(s);
  if (own < 0) TRY(cpu_backend_create(0, &o->owner));
  o->cpu = own < 0 ? o->owner : s->devices.backends[own];
  return o->cpu->vt->stream_create(o->cpu, &o->queue);
}

static const char *op_of(const checking *c) { return name_of_op(c->nd->instruction); }
static const char *device_of(const checking *c) {
  return c->s->devices.backends[c->backend]->info.name;
}

static void send(const checking *c, const text *note) {
  if (c->s->options.message && note->data)
    c->s->options.message(c->s->options.message_ctx, note->data);
}

/* ---------------------------------------------------------------- wrong results */

/* The CPU backend's results in place of the device's. */
static clave_status correct_result(const checking *c, uint32_t tid) {
  const bound_tensor *to = &c->view[tid], *from = &c->copy[tid];
  if (tensor_numel(&to->t) == 0) return NULL;
  size_t bytes, size = dtype_size(from->t.type), to_size = dtype_size(to->t.type);
  TRY(known_bytes(&from->t, &bytes));
  void *right = malloc(bytes);
  if (!right) return status_no_memory();
  const oracle *k = c->s->oracle;
  clave_status st =
      k->cpu->vt->read(k->queue, from->buf, (size_t)from->t.offset * size, right, bytes);
  if (!st)
    st = c->s->devices.backends[c->backend]->vt->write(
        c->s->streams[c->backend], to->buf, to->buffer_offset + (size_t)to->t.offset * to_size,
        right, (size_t)tensor_numel(&to->t) * to_size);
  free(right);
  return st;
}

static clave_status correct_extent(const checking *c) {
  for (operand_iter i = operands_of(c->nd->instruction); next_operand(&i);)
    if (i.o.flags & IR_OUT) TRY(correct_result(c, i.o.tid));
  return NULL;
}

static clave_status correct_part(const checking *whole, int64_t from) {
  checking c = {.s = whole->s, .backend = whole->backend, .nd = whole->nd, .part = whole->part};
  int64_t left = c.part.rows - from;
  c.number = whole->number;
  c.part.from = from;
  if (left < c.part.count) c.part.count = left;
  bool fits, faulty;
  clave_status st = copy_operands(&c, &fits);
  if (!st) st = run_oracle(&c, &faulty);
  if (!st) st = correct_extent(&c);
  free_copies(&c);
  return st;
}

static bool is_in_place(const checking *c) {
  for (uint32_t i = 0; i < c->n_regions; i++)
    if (c->regions[i].is_read && c->regions[i].is_written) return true;
  return false;
}

/* All of the results, a part at a time; of an op that changed its operands there is no way back. */
static clave_status correct_results(checking *c) {
  if (c->part.axis < 0) {
    TRY(restore_copies(c)); /* the last run may have been on others */
    bool faulty;
    TRY(run_oracle(c, &faulty));
    return correct_extent(c);
  }
  if (is_in_place(c))
    return status_new(STATUS_DEVICE, "the kernels of %s give wrong numbers on %s: %s", op_of(c),
                      device_of(c), c->verdict.data);
  for (int64_t from = 0; from < c->part.rows; from += c->part.count) TRY(correct_part(c, from));
  return NULL;
}

static clave_status distrust(checking *c, const running *r, uint32_t instruction) {
  if (!can_move(r, instruction, c->backend))
    return status_new(STATUS_DEVICE, "the kernels of %s give wrong numbers on %s: %s", op_of(c),
                      device_of(c), c->verdict.data);
  bool is_known = r->state->moved[instruction];
  TRY(move_later(r, instruction, distrust_reason));
  TRY(correct_results(c));
  if (is_known) return NULL;
  text note = {0};
  text_printf(&note, "%s gives wrong numbers on %s (%s); %s", op_of(c), device_of(c),
              c->verdict.data, place_of_moved(c->nd->instruction));
  send(c, &note);
  text_free(&note);
  return NULL;
}

/* ---------------------------------------------------------------- the check */

/* Once in a session. */
static void note_unchecked(const checking *c) {
  oracle *o = c->s->oracle;
  if (o->noted) return;
  o->noted = true;
  text note = {0};
  text_printf(&note,
              "%s is too large here to be compared with the CPU backend: its kernels on %s "
              "run unchecked",
              op_of(c), device_of(c));
  send(c, &note);
  text_free(&note);
}

static run_operands operands_now(const running *r, const command *c, const command_state *state) {
  return (run_operands){r->b->bound[c->backend], r->s->scratch[c->backend], state->weights,
                        r->s->random};
}

static clave_status check_node(checking *c, const running *r, const command *k,
                               command_state *state) {
  const backend_vtable *vt = c->s->devices.backends[c->backend]->vt;
  stream *queue = c->s->streams[c->backend];
  const run_operands o = operands_now(r, k, state);
  bool fits, faulty;
  c->rounds = k->recorded->rounds;
  TRY(oracle_of(c->s));
  TRY(copy_operands(c, &fits));
  TRY(c->nd->instruction->op_type == IR_OP_CUSTOM
          ? run_guarded(c, k->recorded, &state->state, &o)
          : vt->run(queue, k->recorded, &state->state, &o, c->number));
  if (!fits) {
    note_unchecked(c);
    state->checked = true;
    return NULL;
  }
  TRY(run_oracle(c, &faulty));
  if (faulty) return NULL; /* bad indices: the device reports them too */
  TRY(compare_results(c));
  if (c->verdict.size) return distrust(c, r, k->instruction); /* in a loop, each time */
  state->checked = true;
  return vt->proof->prove(queue, k->recorded, state->packs);
}

clave_status check_recording(session *s, int on, const node *n, const recording *r, void **state,
                             const run_operands *o, text *verdict) {
  checking c = {.s = s, .backend = on, .nd = n, .rounds = r->rounds};
  const backend_vtable *vt = s->devices.backends[on]->vt;
  bool fits = false, faulty = false;
  clave_status st = oracle_of(s);
  if (!st) st = copy_operands(&c, &fits);
  if (!st) st = vt->run(s->streams[on], r, state, o, 0);
  if (!st && fits) st = run_oracle(&c, &faulty);
  if (!st && fits && !faulty) st = compare_results(&c);
  if (!st && faulty) text_puts(verdict, "what it was measured with is bad data for it");
  if (!st && c.verdict.size) text_append(verdict, c.verdict.data, c.verdict.size);
  if (!st && fits && !faulty && !c.verdict.size && vt->proof)
    st = vt->proof->prove(s->streams[on], r, r->n_weights > 0);
  free_results(&c);
  free_copies(&c);
  return st ? st : text_status(verdict);
}

static clave_status run_checked(const running *r, const command *c, command_state *state,
                                uint32_t number) {
  const ir_instruction *ins =
      c->kind == COMMAND_COPY ? &r->s->x->copy_instruction : &r->g->instructions[c->instruction];
  const node n = {
      .instruction = ins, .tensors = r->b->bound[c->backend], .values = r->b->p->values};
  checking k = {.s = r->s, .backend = c->backend, .nd = &n, .number = number};
  clave_status st = check_node(&k, r, c, state);
  free_results(&k);
  free_copies(&k);
  return st;
}

clave_status run_recorded(const running *r, const command *c, command_state *state,
                          uint32_t number) {
  const session *s = r->s;
  const backend_vtable *vt = s->devices.backends[c->backend]->vt;
  stream *queue = s->streams[c->backend];
  TRY(take_packed_weights(r, c, state));
  if (!state->checked) {
    bool unproven = false;
    if (!s->options.unchecked && vt->proof)
      TRY(vt->proof->is_unproven(queue, c->recorded, state->packs, &unproven));
    state->checked = !unproven;
    if (unproven) return run_checked(r, c, state, number);
  }
  const run_operands o = operands_now(r, c, state);
  return vt->run(queue, c->recorded, &state->state, &o, number);
}
