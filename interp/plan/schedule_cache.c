/* The lists in which an executable keeps schedules. */
#include "interp/plan/schedule_cache.h"

#include <string.h>

#include "interp/plan/plan.h"
#include "interp/scalar.h"

static bool is_made_of(const schedule *p, const schedule_key *k, uint32_t n_values) {
  static const scalar_value none;
  if (k->values) return p->is_lean == k->is_lean && scalars_equal(p->key, k->values, n_values);
  return p->from.next == k->from.next && p->from.control == k->from.control &&
         p->from.body == k->from.body && scalars_equal(&p->item, k->item ? k->item : &none, 1);
}

/* The schedule in the list, or a new one in the place of that used longest ago; held for the
 * caller. *made: it is new. */
static clave_status find_or_make(executable *x, uint32_t index, schedule_list *list,
                                 const schedule_key *k, schedule **out, bool *made) {
  int i = 0;
  while (i < KEPT_SCHEDULES && list->items[i] &&
         !is_made_of(list->items[i], k, x->prog->ir.values.count))
    i++;
  schedule *p = i < KEPT_SCHEDULES ? list->items[i] : NULL;
  *out = NULL;
  *made = !p;
  if (!p) {
    TRY(plan_schedule(x, index, k, &p));
    p->holds = 1; /* the list's */
  }
  if (i == KEPT_SCHEDULES) schedule_drop(list->items[--i]);
  memmove(&list->items[1], &list->items[0], (size_t)i * sizeof list->items[0]);
  list->items[0] = *out = p;
  p->holds++;
  return NULL;
}

clave_status schedule_find(executable *x, uint32_t index, const scalar_value *values, bool is_lean,
                           schedule **out) {
  const schedule_key k = {.values = values, .is_lean = is_lean};
  bool made;
  mutex_lock(x->lock);
  clave_status st = find_or_make(x, index, &x->methods[index].schedules, &k, out, &made);
  mutex_unlock(x->lock);
  return st;
}

clave_status schedule_find_next(executable *x, uint32_t index, schedule *p, cursor from,
                                const scalar_value *item, schedule **out, bool *made) {
  const schedule_key k = {.before = p, .from = from, .item = item};
  mutex_lock(x->lock);
  clave_status st = find_or_make(x, index, &p->next, &k, out, made);
  mutex_unlock(x->lock);
  return st;
}

void schedule_hold(executable *x, schedule *p) {
  mutex_lock(x->lock);
  p->holds++;
  mutex_unlock(x->lock);
}

void schedule_release(executable *x, schedule *p) {
  if (!p) return;
  mutex_lock(x->lock);
  schedule_drop(p);
  mutex_unlock(x->lock);
}
