/* Tuning tables in memory: rows sorted by family and key, and choices by them. */
#include "base/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/tuning_rows.h"

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
  if (is_text(family, TUNING_FAMILY) && is_text(key, TUNING_KEY) && is_text(variant, TUNING_VARIANT))
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
  tuning_row r;
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

/* ---------------------------------------------------------------- choosing */

tuning_key tuning_key_begin(const tuning *t, const variant_choices *c) {
  tuning_key k;
  k.is_wanted = c || (t && tuning_count(t) > 0);
  k.size = 0;
  k.text[0] = '\0';
  return k;
}

void tuning_key_text(tuning_key *k, const char *name, const char *v) {
  if (!k->is_wanted || k->size >= sizeof k->text) return;
  int n = snprintf(k->text + k->size, sizeof k->text - k->size, "%s%s=%s", k->size ? " " : "", name,
                   v);
  k->size += n > 0 ? (size_t)n : 0;
}

void tuning_key_int(tuning_key *k, const char *name, int64_t v) {
  char number[24];
  if (!k->is_wanted) return;
  (void)snprintf(number, sizeof number, "%" PRId64, v);
  tuning_key_text(k, name, number);
}

static void finish_key(const tuning_key *k, char out[TUNING_KEY]) {
  enum { HASH = 17 };
  size_t n = strlen(k->text);
  if (n < TUNING_KEY) {
    memcpy(out, k->text, n + 1);
    return;
  }
  memcpy(out, k->text, TUNING_KEY - 1 - HASH);
  (void)snprintf(out + TUNING_KEY - 1 - HASH, HASH + 1, "#%016" PRIx64, hash_bytes(k->text, n));
}

static const char *name_of(const variants *all, int i) {
  const char *name;
  memcpy(&name, (const char *)all->rows + (size_t)i * all->row_size, sizeof name);
  return name;
}

/* The variant that a table names; -1: none that can run. */
static int find_variant(const tuning *t, const variants *all, const char *key) {
  tuning_row r;
  if (!t || !tuning_count(t) || !tuning_find(t, all->family, key, &r)) return -1;
  for (int i = 0; i < all->n; i++)
    if (strcmp(name_of(all, i), r.variant) == 0) return all->is_usable(all->ctx, i) ? i : -1;
  return -1;
}

static void note_choice(variant_choices *c, const variants *all, const char *key, int by_rule, int taken) {
  for (int i = 0; i < c->n; i++)
    if (strcmp(c->items[i].family, all->family) == 0 && strcmp(c->items[i].key, key) == 0) return;
  if (c->n == MOST_CHOICES) return;
  variant_choice *made = &c->items[c->n++];
  made->n = 0;
  (void)snprintf(made->family, sizeof made->family, "%s", all->family);
  memcpy(made->key, key, TUNING_KEY);
  for (int i = 0; i < all->n && made->n < MOST_VARIANTS; i++) {
    if (i != by_rule && !all->is_usable(all->ctx, i)) continue;
    if (i == by_rule) made->by_rule = made->n;
    if (i == taken) made->taken = made->n;
    made->names[made->n++] = name_of(all, i);
  }
}

int tuning_choose(const tuning *t, variant_choices *c, const variants *all, const tuning_key *key,
                  int by_rule) {
  char wanted[TUNING_KEY];
  if (!key->is_wanted) return by_rule;
  finish_key(key, wanted);
  int taken = c ? find_variant(c->first, all, wanted) : -1;
  if (taken < 0) taken = find_variant(t, all, wanted);
  if (taken < 0) taken = by_rule;
  if (c) note_choice(c, all, wanted, by_rule, taken);
  return taken;
}
