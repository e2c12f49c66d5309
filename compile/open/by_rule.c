/* Chooses kernel variants by their cost, because an emitted program has no tuning table. */
#include "base/tuning.h"

tuning_key tuning_key_begin(const tuning *tuning, const variant_choices *choices) {
  (void)tuning;
  (void)choices;
  return (tuning_key){0};
}

void tuning_key_text(tuning_key *key, const char *name, const char *value) {
  (void)key;
  (void)name;
  (void)value;
}

void tuning_key_int(tuning_key *key, const char *name, int64_t v) {
  (void)key;
  (void)name;
  (void)v;
}

void tuning_key_encoding(tuning_key *key, const char *name, const encoding *encoding) {
  (void)key;
  (void)name;
  (void)encoding;
}

const kernel_variant *tuning_choose(const tuning *tuning, variant_choices *choices,
                                    const variants *all, const tuning_key *key) {
  (void)tuning;
  (void)choices;
  (void)key;
  return variant_by_cost(all);
}
