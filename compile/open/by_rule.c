/* Variants of kernels by their cost: a program that is written out has no tuning table. */
#include "base/tuning.h"

tuning_key tuning_key_begin(const tuning *t, const variant_choices *c) {
  (void)t;
  (void)c;
  return (tuning_key){0};
}

void tuning_key_text(tuning_key *k, const char *name, const char *v) {
  (void)k;
  (void)name;
  (void)v;
}

void tuning_key_int(tuning_key *k, const char *name, int64_t v) {
  (void)k;
  (void)name;
  (void)v;
}

void tuning_key_encoding(tuning_key *k, const char *name, const encoding *e) {
  (void)k;
  (void)name;
  (void)e;
}

const kernel_variant *tuning_choose(const tuning *t, variant_choices *c, const variants *all,
                                    const tuning_key *key) {
  (void)t;
  (void)c;
  (void)key;
  return variant_by_cost(all);
}
