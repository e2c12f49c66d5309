/* Tuning tables in memory: rows sorted by family and key. */
#include "base/tuning_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

clave_status tuning_create(tuning **out) {
  *out = NULL;
  tuning *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  clave_status st = mutex_create(&t->lock);
  if (st) {
    free(t);
    return st;
  }
  *out = t;
  return NULL;
}

void tuning_destroy(tuning *t) {
  if (!t) return;
  mutex_destroy(t->lock);
  free(t->rows);
  free(t);
}

/* ---------------------------------------------------------------- rows */

static bool is_text(const char *s, size_t room) {
  size_t n = strnlen(s, room);
  if (n == 0 || n == room) return false;
  for (size_t i = 0; i < n; i++)
    if (s[i] < ' ' || s[i] > '~') return false;
  return true;
}

clave_status tuning_check(const char *family, const char *key, const char *variant) {
  if (is_text(family, TUNING_FAMILY) && is_text(key, TUNING_KEY) &&
      is_text(variant, TUNING_VARIANT))
    return NULL;
  return INVALID(
      "a row of a tuning table has a family of 1 to %d, a key of 1 to %d and a variant of 1 to %d "
      "printable ASCII characters",
      TUNING_FAMILY - 1, TUNING_KEY - 1, TUNING_VARIANT - 1);
}

static int compare(const tuning_row *r, const char *family, const char *key) {
  int by_family = strcmp(r->family, family);
  return by_family ? by_family : strcmp(r->key, key);
}

/* Where the row is, or belongs. */
static size_t place_of(const tuning *t, const char *family, const char *key, bool *found) {
  size_t low = 0, high = t->n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (compare(&t->rows[middle].row, family, key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *found = low < t->n && compare(&t->rows[low].row, family, key) == 0;
  return low;
}

static clave_status insert(tuning *t, size_t at) {
  if (t->n == TUNING_MOST) return INVALID("a tuning table has at most %d rows", TUNING_MOST);
  if (!array_reserve(&t->rows, &t->capacity, t->n + 1, sizeof *t->rows)) return status_no_memory();
  memmove(&t->rows[at + 1], &t->rows[at], (t->n - at) * sizeof *t->rows);
  __atomic_store_n(&t->n, t->n + 1, __ATOMIC_RELAXED);
  return NULL;
}

clave_status tuning_set(tuning *t, const tuning_row *r, bool is_new) {
  bool found;
  size_t at = place_of(t, r->family, r->key, &found);
  if (!found) TRY(insert(t, at));
  t->rows[at] = (kept_row){.row = *r, .is_new = is_new};
  t->version++;
  return NULL;
}

clave_status tuning_put(tuning *t, const char *family, const char *key, const char *variant) {
  TRY(tuning_check(family, key, variant));
  tuning_row r = {0}; /* callers see all of its bytes */
  strcpy(r.family, family);
  strcpy(r.key, key);
  strcpy(r.variant, variant);
  mutex_lock(t->lock);
  clave_status st = tuning_set(t, &r, true);
  mutex_unlock(t->lock);
  return st;
}

bool tuning_get(const tuning *t, size_t i, tuning_row *out) {
  mutex_lock(t->lock);
  bool has = i < t->n;
  if (has) *out = t->rows[i].row;
  mutex_unlock(t->lock);
  return has;
}

size_t tuning_count(const tuning *t) { return __atomic_load_n(&t->n, __ATOMIC_RELAXED); }

uint64_t tuning_version(const tuning *t) {
  mutex_lock(t->lock);
  uint64_t version = t->version;
  mutex_unlock(t->lock);
  return version;
}

bool tuning_find(const tuning *t, const char *family, const char *key, tuning_row *out) {
  bool found;
  mutex_lock(t->lock);
  size_t at = place_of(t, family, key, &found);
  if (!found) at = place_of(t, family, "*", &found);
  if (found) *out = t->rows[at].row;
  mutex_unlock(t->lock);
  return found;
}

void tuning_clear(tuning *t) {
  mutex_lock(t->lock);
  __atomic_store_n(&t->n, 0, __ATOMIC_RELAXED);
  t->version++;
  mutex_unlock(t->lock);
}
