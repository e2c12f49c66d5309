/* The lists of schedules that an executable keeps. */
#include "interp/plan/schedule_cache.h"

#include <string.h>

#include "interp/plan/plan.h"
#include "interp/scalar.h"

static bool is_made_of(const schedule *schedule, const schedule_key *key, uint32_t n_values) {
  static const scalar_value none;
  if (key->values)
    return schedule->low_memory == key->low_memory &&
           scalars_equal(schedule->key, key->values, n_values);
  return schedule->from.next == key->from.next && schedule->from.control == key->from.control &&
         schedule->from.body == key->from.body &&
         scalars_equal(&schedule->item, key->item ? key->item : &none, 1);
}

/* Returns the schedule of `key` in the list, or a new one, which replaces the least recently used
 * one. The caller gets a reference. Sets *made if the schedule is new. */
static clave_status find_or_make(executable *executable, uint32_t index, schedule_list *list,
                                 const schedule_key *key, schedule **out, bool *made) {
  int i = 0;
  while (i < KEPT_SCHEDULES && list->items[i] &&
         !is_made_of(list->items[i], key, executable->prog->ir.values.count))
    i++;
  schedule *schedule = i < KEPT_SCHEDULES ? list->items[i] : NULL;
  *out = NULL;
  *made = !schedule;
  if (!schedule) {
    TRY(plan_schedule(executable, index, key, &schedule));
    schedule->holds = 1; /* the list's reference */
  }
  if (i == KEPT_SCHEDULES) schedule_drop(list->items[--i]);
  memmove(&list->items[1], &list->items[0], (size_t)i * sizeof list->items[0]);
  list->items[0] = *out = schedule;
  schedule->holds++;
  return NULL;
}

clave_status schedule_find(executable *executable, uint32_t index, const scalar_value *values,
                           bool low_memory, schedule **out) {
  const schedule_key key = {.values = values, .low_memory = low_memory};
  bool made;
  mutex_lock(executable->lock);
  clave_status st =
      find_or_make(executable, index, &executable->methods[index].schedules, &key, out, &made);
  mutex_unlock(executable->lock);
  return st;
}

clave_status schedule_find_next(executable *executable, uint32_t index, schedule *before,
                                cursor from, const scalar_value *item, schedule **out, bool *made) {
  const schedule_key key = {.before = before, .from = from, .item = item};
  mutex_lock(executable->lock);
  clave_status st = find_or_make(executable, index, &before->next, &key, out, made);
  mutex_unlock(executable->lock);
  return st;
}

void schedule_hold(executable *executable, schedule *schedule) {
  mutex_lock(executable->lock);
  schedule->holds++;
  mutex_unlock(executable->lock);
}

void schedule_release(executable *executable, schedule *schedule) {
  if (!schedule) return;
  mutex_lock(executable->lock);
  schedule_drop(schedule);
  mutex_unlock(executable->lock);
}
