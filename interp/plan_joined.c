/* Which commands of a part a device may do by one launch: those of small ops that follow each other
 * in the method itself. In bodies blocks are elsewhere in each iteration. */
#include <stdlib.h>

#include "interp/planner.h"

/* Storages that may lie in a buffer of their own, of all commands of a launch. */
enum { MOST_APART = 18 };

typedef struct joining {
  const planner *l;
  const recording **recorded; /* owned: of the commands of a run */
  uint32_t *numbers;          /* owned: their instructions */
  uint32_t n;
  uint32_t apart[MOST_APART];
  int n_apart;
} joining;

/* Constants, state, and what the caller's memory may be in the place of: inputs and outputs. */
static bool may_lie_apart(const schedule *p, const storage *g, int on) {
  const block *k = &p->blocks[g->block[on]];
  return k->kind != BLOCK_ARENA || g->slot != NO_INDEX || k->a.last == FOREVER;
}

/* False: there is no room. */
static bool add_storage_apart(joining *j, uint32_t index, int on) {
  if (!may_lie_apart(j->l->p, &j->l->p->storages[index], on)) return true;
  for (int i = 0; i < j->n_apart; i++)
    if (j->apart[i] == index) return true;
  if (j->n_apart == MOST_APART) return false;
  j->apart[j->n_apart++] = index;
  return true;
}

static bool has_room(joining *j, const command *c) {
  const int before = j->n_apart;
  for (operand_iter i = operands_of(&j->l->g->instructions[c->instruction]); next_operand(&i);) {
    const uint32_t at = j->l->p->at[i.o.tid].storage;
    if (at == NO_INDEX || j->l->p->storages[at].block[c->backend] == NO_INDEX) continue;
    if (add_storage_apart(j, at, c->backend)) continue;
    j->n_apart = before;
    return false;
  }
  return true;
}

static bool can_join(const joining *j, const command *c) {
  backend *be = j->l->x->devices.backends[c->backend];
  return c->kind == COMMAND_RUN && c->recorded && be->vt->join && be->vt->can_join(be, c->recorded);
}

/* The commands from `first` on that can be joined. */
static void list_run(joining *j, uint32_t first) {
  const schedule *p = j->l->p;
  j->n = 0;
  j->n_apart = 0;
  for (uint32_t i = first; i < p->n_commands; i++) {
    const command *c = &p->commands[i];
    if (c->backend != p->commands[first].backend || !can_join(j, c) || !has_room(j, c)) return;
    j->recorded[j->n] = c->recorded;
    j->numbers[j->n++] = c->instruction;
  }
}

/* Those from `first` on; *taken is how many were looked at. */
static clave_status join_from(joining *j, uint32_t first, uint32_t *taken) {
  schedule *p = j->l->p;
  const uint8_t on = p->commands[first].backend;
  backend *be = j->l->x->devices.backends[on];
  recording *r;
  *taken = 1;
  list_run(j, first);
  if (!j->n) return NULL;
  TRY(be->vt->join(be, j->recorded, j->numbers, j->n, taken, &r));
  if (!r) return NULL;
  hold_first(r);
  return add_joined(p, (joined_commands){{first, first + *taken}, on, r});
}

static clave_status join_all(joining *j) {
  schedule *p = j->l->p;
  for (uint32_t i = p->first_command, taken; i < p->n_commands; i += taken) {
    const command *c = &p->commands[i];
    if (c->kind == COMMAND_CONTROL)
      taken = p->controls[c->control]->end - i;
    else
      TRY(join_from(j, i, &taken));
  }
  return NULL;
}

clave_status plan_joined(const planner *l) {
  const schedule *p = l->p;
  const size_t n = p->n_commands - p->first_command;
  joining j = {.l = l,
               .recorded = malloc((n + 1) * sizeof *j.recorded),
               .numbers = malloc((n + 1) * sizeof *j.numbers)};
  clave_status st = j.recorded && j.numbers ? NULL : status_no_memory();
  if (!st && p->from.control == NO_INDEX) st = join_all(&j);
  free(j.recorded);
  free(j.numbers);
  return st;
}
