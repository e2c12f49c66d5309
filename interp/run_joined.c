/* Commands that one launch does, where nobody watches them one by one. The first time that a device
 * is to do it so, they run apart and then joined, from the same bytes: it is to give the same ones.
 * Else they stay apart. */
#include <stdlib.h>
#include <string.h>

#include "interp/running.h"
#include "interp/self_check.h"

/* Bytes written that are compared at most. */
enum { MOST_COMPARED = 64 << 20 };

typedef struct joint {
  const running *r;
  const joined_commands *j;
  command_state *state; /* of the first command */
  stream *queue;
  const backend_vtable *vt;
} joint;

static clave_status launch_joined(const joint *k) {
  const session *s = k->r->s;
  const run_operands o = {.tensors = k->r->b->bound[k->j->backend],
                          .scratch = s->scratch[k->j->backend],
                          .random = s->random};
  return k->vt->run(k->queue, k->j->recorded, &k->state->joined, &o,
                    k->r->b->p->commands[k->j->commands.first].instruction);
}

/* ---------------------------------------------------------------- compared */

/* The bytes that the commands write, as they were, after the commands, and after the launch. */
typedef struct written_bytes {
  uint32_t *storages; /* owned */
  uint32_t n;
  size_t bytes;
  char *before, *apart, *joined; /* owned */
} written_bytes;

static void free_written(written_bytes *w) {
  free(w->storages);
  free(w->before);
  free(w->apart);
  free(w->joined);
}

static void add_written(const schedule *p, written_bytes *w, uint32_t index) {
  for (uint32_t i = w->n; i-- > 0;)
    if (w->storages[i] == index) return;
  w->storages[w->n++] = index;
  w->bytes += p->storages[index].bytes;
}

static clave_status list_written(const joint *k, written_bytes *w) {
  const schedule *p = k->r->b->p;
  w->storages = malloc(((size_t)p->n_storages + 1) * sizeof *w->storages);
  if (!w->storages) return status_no_memory();
  for (uint32_t i = k->j->commands.first; i < k->j->commands.end; i++)
    for (operand_iter o = operands_of(&k->r->g->instructions[p->commands[i].instruction]);
         next_operand(&o);)
      if (o.o.flags & IR_OUT) add_written(p, w, p->at[o.o.tid].storage);
  if (w->bytes > MOST_COMPARED) return NULL;
  w->before = malloc(w->bytes + 1);
  w->apart = malloc(w->bytes + 1);
  w->joined = malloc(w->bytes + 1);
  return w->before && w->apart && w->joined ? NULL : status_no_memory();
}

static const address *place_of(const joint *k, uint32_t index) {
  return &k->r->b->blocks[k->r->b->p->storages[index].block[k->j->backend]];
}

static clave_status read_written(const joint *k, const written_bytes *w, char *to) {
  for (uint32_t i = 0; i < w->n; i++) {
    const address *a = place_of(k, w->storages[i]);
    const size_t bytes = k->r->b->p->storages[w->storages[i]].bytes;
    if (bytes) TRY(k->vt->read(k->queue, a->buf, a->offset, to, bytes));
    to += bytes;
  }
  return NULL;
}

static clave_status write_back(const joint *k, const written_bytes *w, const char *from) {
  for (uint32_t i = 0; i < w->n; i++) {
    const address *a = place_of(k, w->storages[i]);
    const size_t bytes = k->r->b->p->storages[w->storages[i]].bytes;
    if (bytes) TRY(k->vt->write(k->queue, a->buf, a->offset, from, bytes));
    from += bytes;
  }
  return NULL;
}

static clave_status run_apart(const joint *k) {
  for (uint32_t i = k->j->commands.first; i < k->j->commands.end; i++) {
    const command *c = &k->r->b->p->commands[i];
    TRY(while_in_node(run_recorded(k->r, c, &k->r->b->commands[i], c->instruction), k->r->g,
                      c->instruction));
  }
  return NULL;
}

static void stay_apart(const joint *k, const char *why) {
  const session_options *o = &k->r->s->options;
  const range commands = k->j->commands;
  text note = {0};
  k->state->apart_of = k->j->recorded->serial;
  text_printf(&note, "%u small ops on %s run apart, not by one launch: %s",
              (unsigned)(commands.end - commands.first),
              k->r->s->devices.backends[k->j->backend]->info.name, why);
  if (o->message && note.data) o->message(o->message_ctx, note.data);
  text_free(&note);
}

/* True of a launch that the device does not do, for whatever reason: its ops may run apart. */
static bool is_refused(const joint *k, clave_status st) {
  if (!st) return false;
  stay_apart(k, status_message(st));
  status_free(st);
  return true;
}

static clave_status compare(const joint *k, const written_bytes *w) {
  TRY(read_written(k, w, w->before));
  TRY(run_apart(k));
  TRY(read_written(k, w, w->apart));
  TRY(write_back(k, w, w->before));
  if (is_refused(k, launch_joined(k))) return write_back(k, w, w->apart);
  TRY(read_written(k, w, w->joined));
  if (memcmp(w->apart, w->joined, w->bytes) == 0) {
    k->state->joined_checked = true;
    return k->vt->prove(k->queue, k->j->recorded, false);
  }
  stay_apart(k, "it gives other numbers");
  return write_back(k, w, w->apart);
}

/* What all of them write is right in any case, and *ran says so; too much to compare stays apart.
 */
static clave_status run_compared(const joint *k, bool *ran) {
  written_bytes w = {0};
  clave_status st = list_written(k, &w);
  if (!st && w.bytes <= MOST_COMPARED) {
    st = compare(k, &w);
    *ran = true;
  } else if (!st) {
    k->state->apart_of = k->j->recorded->serial;
  }
  free_written(&w);
  return st;
}

/* ---------------------------------------------------------------- run */

/* Whether each command's kernels are proven: else it runs, and is compared, alone first. */
static clave_status are_proven(const joint *k, bool *proven) {
  *proven = true;
  for (uint32_t i = k->j->commands.first; i < k->j->commands.end && *proven; i++) {
    bool unproven = false;
    if (!k->r->b->commands[i].checked)
      TRY(k->vt->is_unproven(k->queue, k->r->b->p->commands[i].recorded, false, &unproven));
    *proven = !unproven;
  }
  return NULL;
}

static bool is_watched(const session *s) {
  return s->observe || s->options.profile || s->options.poison;
}

clave_status run_joined(const running *r, uint32_t number, bool *ran) {
  const session *s = r->s;
  const joined_commands *j = &r->b->p->joined[r->b->p->commands[number].joined - 1];
  const joint k = {.r = r,
                   .j = j,
                   .state = &r->b->commands[number],
                   .queue = s->streams[j->backend],
                   .vt = s->devices.backends[j->backend]->vt};
  *ran = false;
  if (k.state->apart_of == j->recorded->serial || is_watched(s)) return NULL;
  if (!k.state->joined_checked && !s->options.unchecked) {
    bool proven, unproven = false;
    TRY(are_proven(&k, &proven));
    if (!proven) return NULL;
    if (is_refused(&k, k.vt->is_unproven(k.queue, j->recorded, false, &unproven))) return NULL;
    if (unproven) return run_compared(&k, ran);
    k.state->joined_checked = true;
  }
  *ran = !is_refused(&k, launch_joined(&k));
  return NULL;
}
