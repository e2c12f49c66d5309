/* Choices by tuning tables, and the keys of their rows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/tuning.h"

tuning_key tuning_key_begin(const tuning *tuning, const variant_choices *choices) {
  tuning_key key;
  key.is_wanted = choices || (tuning && tuning_count(tuning) > 0);
  key.size = 0;
  key.text[0] = '\0';
  return key;
}

void tuning_key_text(tuning_key *key, const char *name, const char *value) {
  if (!key->is_wanted || key->size >= sizeof key->text) return;
  int n = snprintf(key->text + key->size, sizeof key->text - key->size, "%s%s=%s",
                   key->size ? " " : "", name, value);
  key->size += n > 0 ? (size_t)n : 0;
}

void tuning_key_int(tuning_key *key, const char *name, int64_t v) {
  char number[24];
  if (!key->is_wanted) return;
  (void)snprintf(number, sizeof number, "%" PRId64, v);
  tuning_key_text(key, name, number);
}

void tuning_key_encoding(tuning_key *key, const char *name, const encoding *encoding) {
  char text[64];
  if (key->is_wanted && encoding->kind)
    tuning_key_text(key, name, encoding_text(encoding, text, sizeof text));
}

static void finish_key(const tuning_key *key, char out[TUNING_KEY]) {
  enum { HASH = 17 };
  size_t n = strlen(key->text);
  if (n < TUNING_KEY) {
    memcpy(out, key->text, n + 1);
    return;
  }
  memcpy(out, key->text, TUNING_KEY - 1 - HASH);
  (void)snprintf(out + TUNING_KEY - 1 - HASH, HASH + 1, "#%016" PRIx64, hash_bytes(key->text, n));
}

/* Returns the variant that a table names, or NULL if there is none or it is not usable. */
static const kernel_variant *find_variant(const tuning *tuning, const variants *all,
                                          const char *key) {
  tuning_row row;
  if (!tuning || !tuning_count(tuning) || !tuning_find(tuning, all->family, key, &row)) return NULL;
  for (const kernel_variant *variant = all->rows; variant < all->rows + all->n; variant++)
    if (strcmp(variant->name, row.variant) == 0)
      return variant_is_usable(all, variant) ? variant : NULL;
  return NULL;
}

static void note_choice(variant_choices *choices, const variants *all, const char *key,
                        const kernel_variant *by_rule, const kernel_variant *taken) {
  for (int i = 0; i < choices->n; i++)
    if (strcmp(choices->items[i].family, all->family) == 0 &&
        strcmp(choices->items[i].key, key) == 0)
      return;
  if (choices->n == MOST_CHOICES) return;
  variant_choice *made = &choices->items[choices->n++];
  made->n = made->by_rule = made->taken = 0;
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

const kernel_variant *tuning_choose(const tuning *tuning, variant_choices *choices,
                                    const variants *all, const tuning_key *key) {
  char wanted[TUNING_KEY];
  const kernel_variant *by_cost = variant_by_cost(all), *taken = NULL;
  if (!key->is_wanted) return by_cost;
  finish_key(key, wanted);
  if (choices) taken = find_variant(choices->first, all, wanted);
  if (!taken) taken = find_variant(tuning, all, wanted);
  if (!taken) taken = by_cost;
  if (choices) note_choice(choices, all, wanted, by_cost, taken);
  return taken;
}
