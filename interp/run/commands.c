/* Running one command: ops and copies on their backends, transfers, and what watches them. */
#include "interp/run/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "interp/check/self_check.h"
#include "interp/host_copy.h"
#include "interp/run/bind.h"
#include "interp/run/move.h"
#include "interp/run/streams.h"
#include "interp/run/trace.h"
#include "interp/run/trace_work.h"

/* What a backend reports faults and times under: a command runs more than once in a loop. */
static uint32_t launch_number(const session *s, const command *c) {
  return s->options.profile ? s->n_events : c->instruction;
}

/* ---------------------------------------------------------------- kinds */

static clave_status copy_elements(const running *r, const command *c, void *stored, void *copied) {
  stream *q = r->s->streams[c->backend];
  const backend_vtable *vt = q->owner->vt;
  const storage *g = &r->b->p->storages[c->x.storage];
  const bound_tensor from = bind_location(r->b, c->x, c->backend),
                     to = bind_location(r->b, c->out, c->backend);
  const size_t size = dtype_size(to.t.type), n = (size_t)tensor_numel(&to.t);
  TRY(vt->read(q, from.buf, from.buffer_offset, stored, g->bytes));
  copy_to_contiguous(&from.t, stored, copied);
  return vt->write(q, to.buf, to.buffer_offset + (size_t)to.t.offset * size, copied, n * size);
}

/* The planner's copies are to contiguous tensors. */
static clave_status copy_on_host(const running *r, const command *c) {
  size_t bytes;
  TRY(known_bytes(&c->out.t, &bytes));
  void *stored = malloc(r->b->p->storages[c->x.storage].bytes + 1), *copied = malloc(bytes + 1);
  clave_status st = stored && copied ? copy_elements(r, c, stored, copied) : status_no_memory();
  free(stored);
  free(copied);
  return st;
}

/* The two slots behind the program's own are the operands of the planner's copies. */
static clave_status run_copy(const running *r, const command *c, command_state *state) {
  uint32_t n = slot_count(r->s->prog);
  bound_tensor *bound = r->b->bound[c->backend];
  bound[n] = bind_location(r->b, c->x, c->backend);
  bound[n + 1] = bind_location(r->b, c->out, c->backend);
  clave_status st = run_recorded(r, c, state, launch_number(r->s, c));
  if (host_may_copy(r->s, c, st)) {
    status_free(st);
    st = copy_on_host(r, c);
  }
  if (st) return st;
  if (c->rebind != NO_INDEX) rebind_slot(r, c->rebind, c->out);
  return NULL;
}

static clave_status run_transfer(const running *r, const command *c) {
  const storage *g = &r->b->p->storages[c->x.storage];
  const address *blocks = r->b->blocks;
  return copy_bytes(r, g->home, blocks[g->block[g->home]], c->backend, blocks[g->block[c->backend]],
                    g->bytes);
}

/* ---------------------------------------------------------------- observers */

/* Shows a result as the program has it: as F32 where it is kept as BF16. */
static clave_status observe_result(const running *r, int b, uint32_t instruction, uint32_t tid) {
  session *s = r->s;
  const bound_tensor *t = &r->b->bound[b][tid];
  const dtype type = r->b->p->types[tid].type;
  const bool is_kept = t->t.type != type;
  const int64_t n = tensor_numel(&t->t);
  size_t bytes;
  TRY(known_bytes(&t->t, &bytes));
  void *host = malloc((is_kept ? 2 : 1) * bytes + 1);
  if (!host) return status_no_memory();
  stream *q = s->streams[b];
  const size_t offset = t->buffer_offset + (size_t)t->t.offset * dtype_size(t->t.type);
  bool edited = false;
  clave_status st = bytes ? q->owner->vt->read(q, t->buf, offset, host, bytes) : NULL;
  host_tensor value = {.t = t->t, .data = host};
  tensor_set_contiguous(&value.t);
  value.t.type = type;
  if (!st && is_kept) widen_bf16(host, n);
  if (!st && !s->observe(s->observe_ctx, instruction, tid, &value, &edited))
    st = CANCELLED("stopped by the observer");
  if (!st && edited && is_kept) round_to_bf16(host, n);
  if (!st && edited && bytes) st = q->owner->vt->write(q, t->buf, offset, host, bytes);
  free(host);
  return st;
}

static clave_status observe_command(const running *r, const command *c) {
  if (!r->s->observe || c->kind != COMMAND_RUN) return NULL;
  uint32_t source = r->g->source[c->instruction];
  for (operand_iter i = operands_of(&r->g->instructions[c->instruction]); next_operand(&i);)
    if (i.o.flags & IR_OUT) TRY(observe_result(r, c->backend, source, i.o.tid));
  return NULL;
}

clave_status observe_control(const running *r, uint32_t number) {
  const schedule *p = r->b->p;
  const uint32_t instruction = p->commands[number].instruction;
  if (!r->s->observe) return NULL;
  for (operand_iter i = operands_of(&r->g->instructions[instruction]); next_operand(&i);) {
    const uint32_t at = i.o.flags & IR_OUT ? p->at[i.o.tid].storage : NO_INDEX;
    const uint8_t home = at == NO_INDEX ? NO_HOME : p->storages[at].home;
    if (home == NO_HOME || !r->b->bound[home][i.o.tid].buf) continue;
    TRY(observe_result(r, home, r->g->source[instruction], i.o.tid));
  }
  return NULL;
}

clave_status poison_dead(const running *r, uint32_t number) {
  const schedule *p = r->b->p;
  unsigned char pattern[4096];
  memset(pattern, 0xff, sizeof pattern);
  for (uint32_t i = 0; i < p->n_blocks; i++) {
    const block *k = &p->blocks[i];
    if (k->kind != BLOCK_ARENA || k->a.last != number) continue;
    const backend_vtable *vt = r->s->devices.backends[k->backend]->vt;
    const address *to = &r->b->blocks[i];
    if (to->buf != r->s->arenas[k->backend].chunks[k->a.chunk]) continue; /* an argument's */
    for (size_t at = 0; at < k->a.bytes; at += sizeof pattern) {
      size_t n = k->a.bytes - at < sizeof pattern ? k->a.bytes - at : sizeof pattern;
      TRY(vt->write(r->s->streams[k->backend], to->buf, to->offset + at, pattern, n));
    }
  }
  return NULL;
}

/* ---------------------------------------------------------------- one command */

static clave_status run_one(const running *r, const command *c, command_state *state) {
  session *s = r->s;
  if (c->kind == COMMAND_RUN) {
    TRY(run_recorded(r, c, state, launch_number(s, c)));
  } else {
    TRY(c->kind == COMMAND_TRANSFER ? run_transfer(r, c) : run_copy(r, c, state));
  }
  return s->observe ? observe_command(r, c) : NULL;
}

/* Its event is kept where it fails, too: what is read for it is on its way until the devices have
 * finished. */
static clave_status run_traced(const running *r, const command *c, command_state *state) {
  session *s = r->s;
  trace_event e = {
      .method = r->index, .instruction = c->instruction, .kind = c->kind, .backend = c->backend};
  TRY(trace_reserve(s));
  clave_status st = trace_note(r, c, &e);
  e.start_ns = clock_ns();
  if (!st) st = run_one(r, c, state);
  e.end_ns = clock_ns();
  s->events[s->n_events++] = e; /* its number is that of the launch */
  return st;
}

clave_status run_command(const running *r, const command *c, command_state *state) {
  return (r->s->options.profile ? run_traced : run_one)(r, c, state);
}

clave_status read_element(const running *r, location l, int b, unsigned char *raw) {
  bound_tensor t = bind_location(r->b, l, b);
  size_t size = dtype_size(t.t.type);
  return r->s->devices.backends[b]->vt->read(
      r->s->streams[b], t.buf, t.buffer_offset + (size_t)t.t.offset * size, raw, size);
}
