/* Tuning tables in memory: rows sorted by family and key. */
#include "base/tuning_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

clave_status tuning_create(tuning **out) {
  *out = NULL;
  tuning *tuning = calloc(1, sizeof *tuning);
  if (!tuning) return status_no_memory();
  clave_status st = mutex_create(&tuning->lock);
  if (st) {
    free(tuning);
    return st;
  }
  *out = tuning;
  return NULL;
}

void tuning_destroy(tuning *tuning) {
  if (!tuning) return;
  mutex_destroy(tuning->lock);
  free(tuning->rows);
  free(tuning);
}

/* ---------------------------------------------------------------- rows */

static bool tuning_rows_is_text(const char *text, size_t reserved) {
  size_t n = strnlen(text, reserved);
  if (n == 0 || n == reserved) return false;
  for (size_t i = 0; i < n; i++)
    if (text[i] < ' ' || text[i] > '~') return false;
  return true;
}

clave_status tuning_check(const char *family, const char *key, const char *variant) {
  if (tuning_rows_is_text(family, TUNING_FAMILY) && tuning_rows_is_text(key, TUNING_KEY) &&
      tuning_rows_is_text(variant, TUNING_VARIANT))
    return NULL;
  return INVALID(
      "a row of a tuning table: expected a family of 1 to %d, a key of 1 to %d and a variant of 1 "
      "to %d printable ASCII characters",
      TUNING_FAMILY - 1, TUNING_KEY - 1, TUNING_VARIANT - 1);
}

static int tuning_rows_compare(const tuning_row *row, const char *family, const char *key) {
  int by_family = strcmp(row->family, family);
  return by_family ? by_family : strcmp(row->key, key);
}

size_t tuning_place_of(const tuning *tuning, const char *family, const char *key, bool *found) {
  size_t low = 0, high = tuning->n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (tuning_rows_compare(&tuning->rows[middle].row, family, key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *found = low < tuning->n && tuning_rows_compare(&tuning->rows[low].row, family, key) == 0;
  return low;
}

static clave_status tuning_rows_insert(tuning *tuning, size_t at) {
  if (tuning->n == TUNING_MAX) return INVALID("a tuning table has at most %d rows", TUNING_MAX);
  if (!array_reserve(&tuning->rows, &tuning->capacity, tuning->n + 1, sizeof *tuning->rows))
    return status_no_memory();
  memmove(&tuning->rows[at + 1], &tuning->rows[at], (tuning->n - at) * sizeof *tuning->rows);
  __atomic_store_n(&tuning->n, tuning->n + 1, __ATOMIC_RELAXED);
  return NULL;
}

clave_status tuning_set(tuning *tuning, const tuning_row *row, bool is_new) {
  bool found;
  size_t at = tuning_place_of(tuning, row->family, row->key, &found);
  if (!found) TRY(tuning_rows_insert(tuning, at));
  tuning->rows[at] = (table_row){.row = *row, .is_new = is_new};
  tuning->version++;
  return NULL;
}

clave_status tuning_put(tuning *tuning, const char *family, const char *key, const char *variant) {
  TRY(tuning_check(family, key, variant));
  tuning_row row = {0}; /* zeroed, because callers may read all its bytes */
  strcpy(row.family, family);
  strcpy(row.key, key);
  strcpy(row.variant, variant);
  mutex_lock(tuning->lock);
  clave_status st = tuning_set(tuning, &row, true);
  mutex_unlock(tuning->lock);
  return st;
}

bool tuning_get(const tuning *tuning, size_t i, tuning_row *out) {
  mutex_lock(tuning->lock);
  bool has = i < tuning->n;
  if (has) *out = tuning->rows[i].row;
  mutex_unlock(tuning->lock);
  return has;
}

size_t tuning_count(const tuning *tuning) { return __atomic_load_n(&tuning->n, __ATOMIC_RELAXED); }

uint64_t tuning_version(const tuning *tuning) {
  mutex_lock(tuning->lock);
  uint64_t version = tuning->version;
  mutex_unlock(tuning->lock);
  return version;
}

bool tuning_find(const tuning *tuning, const char *family, const char *key, tuning_row *out) {
  bool found;
  mutex_lock(tuning->lock);
  size_t at = tuning_place_of(tuning, family, key, &found);
  if (!found) at = tuning_place_of(tuning, family, "*", &found);
  if (found) *out = tuning->rows[at].row;
  mutex_unlock(tuning->lock);
  return found;
}

void tuning_clear(tuning *tuning) {
  mutex_lock(tuning->lock);
  __atomic_store_n(&tuning->n, 0, __ATOMIC_RELAXED);
  tuning->version++;
  mutex_unlock(tuning->lock);
}
