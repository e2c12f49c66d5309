/* Chooses variants by tuning tables, and writes the keys of their rows. */
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

/* Returns the variant that a table names, or NULL if none exists or it is not usable. */
static const kernel_variant *find_variant(const tuning *tuning, const variants *all,
                                          const char *key) {
  tuning_row row;
  if (!tuning || !tuning_count(tuning) || !tuning_find(tuning, all->family, key, &row)) return NULL;
  for (const kernel_variant *variant = all->rows; variant < all->rows + all->n; variant++)
    if (strcmp(variant->name, row.variant) == 0)
      return variant_is_usable(all, variant) ? variant : NULL;
  return NULL;
}

static void record_choice(variant_choices *choices, const variants *all, const char *key,
                          const kernel_variant *by_rule, const kernel_variant *chosen) {
  for (int i = 0; i < choices->n; i++)
    if (strcmp(choices->items[i].family, all->family) == 0 &&
        strcmp(choices->items[i].key, key) == 0)
      return;
  if (choices->n == MAX_CHOICES) return;
  variant_choice *choice = &choices->items[choices->n++];
  choice->n = choice->by_rule = choice->chosen = 0;
  choice->changes_rounding = all->changes_rounding;
  (void)snprintf(choice->family, sizeof choice->family, "%s", all->family);
  memcpy(choice->key, key, TUNING_KEY);
  for (const kernel_variant *variant = all->rows; variant < all->rows + all->n; variant++) {
    if (choice->n == MAX_VARIANTS || !variant_is_usable(all, variant)) continue;
    if (variant == by_rule) choice->by_rule = choice->n;
    if (variant == chosen) choice->chosen = choice->n;
    choice->names[choice->n++] = variant->name;
  }
}

const kernel_variant *tuning_choose(const tuning *tuning, variant_choices *choices,
                                    const variants *all, const tuning_key *key) {
  char wanted[TUNING_KEY];
  const kernel_variant *by_cost = variant_by_cost(all), *chosen = NULL;
  if (!key->is_wanted) return by_cost;
  finish_key(key, wanted);
  if (choices) chosen = find_variant(choices->first, all, wanted);
  if (!chosen) chosen = find_variant(tuning, all, wanted);
  if (!chosen) chosen = by_cost;
  if (choices) record_choice(choices, all, wanted, by_cost, chosen);
  return chosen;
}
