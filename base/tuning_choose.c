/* Choices by a tuning table, and the keys that its rows have. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/tuning.h"

tuning_key tuning_key_begin(const tuning *t, const variant_choices *c) {
  tuning_key k;
  k.is_wanted = c || (t && tuning_count(t) > 0);
  k.size = 0;
  k.text[0] = '\0';
  return k;
}

void tuning_key_text(tuning_key *k, const char *name, const char *v) {
  if (!k->is_wanted || k->size >= sizeof k->text) return;
  int n =
      snprintf(k->text + k->size, sizeof k->text - k->size, "%s%s=%s", k->size ? " " : "", name, v);
  k->size += n > 0 ? (size_t)n : 0;
}

void tuning_key_int(tuning_key *k, const char *name, int64_t v) {
  char number[24];
  if (!k->is_wanted) return;
  (void)snprintf(number, sizeof number, "%" PRId64, v);
  tuning_key_text(k, name, number);
}

void tuning_key_encoding(tuning_key *k, const char *name, const encoding *e) {
  char text[64];
  if (k->is_wanted && e->kind) tuning_key_text(k, name, encoding_text(e, text, sizeof text));
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

/* The variant that a table names; NULL: none that can run. */
static const kernel_variant *find_variant(const tuning *t, const variants *all, const char *key) {
  tuning_row r;
  if (!t || !tuning_count(t) || !tuning_find(t, all->family, key, &r)) return NULL;
  for (const kernel_variant *variant = all->rows; variant < all->rows + all->n; variant++)
    if (strcmp(variant->name, r.variant) == 0)
      return variant_is_usable(all, variant) ? variant : NULL;
  return NULL;
}

static void note_choice(variant_choices *c, const variants *all, const char *key,
                        const kernel_variant *by_rule, const kernel_variant *taken) {
  for (int i = 0; i < c->n; i++)
    if (strcmp(c->items[i].family, all->family) == 0 && strcmp(c->items[i].key, key) == 0) return;
  if (c->n == MOST_CHOICES) return;
  variant_choice *made = &c->items[c->n++];
  made->n = 0;
  made->rounds_apart = all->rounds_apart;
  (void)snprintf(made->family, sizeof made->family, "%s", all->family);
  memcpy(made->key, key, TUNING_KEY);
  for (const kernel_variant *variant = all->rows; variant < all->rows + all->n; variant++) {
    if (made->n == MOST_VARIANTS || !variant_is_usable(all, variant)) continue;
    if (variant == by_rule) made->by_rule = made->n;
    if (variant == taken) made->taken = made->n;
    made->names[made->n++] = variant->name;
  }
}

const kernel_variant *tuning_choose(const tuning *t, variant_choices *c, const variants *all,
                                    const tuning_key *key) {
  char wanted[TUNING_KEY];
  const kernel_variant *by_cost = variant_by_cost(all), *taken = NULL;
  if (!key->is_wanted) return by_cost;
  finish_key(key, wanted);
  if (c) taken = find_variant(c->first, all, wanted);
  if (!taken) taken = find_variant(t, all, wanted);
  if (!taken) taken = by_cost;
  if (c) note_choice(c, all, wanted, by_cost, taken);
  return taken;
}
