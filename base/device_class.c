/* The words of CLAVE_DEVICE_CLASS. */
#include "base/device_class.h"

#include <stdlib.h>
#include <string.h>

static clave_status device_class_add_word(const char *word, size_t n, device_class *class) {
  const struct {
    const char *name;
    bool *is_given;
  } words[] = {{"cpu", &class->cpu},          {"gpu", &class->gpu},       {"wide", &class->wide},
               {"slow", &class->slow},        {"avx512", &class->avx512}, {"avx2", &class->avx2},
               {"portable", &class->portable}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strlen(words[i].name) != n || memcmp(word, words[i].name, n) != 0) continue;
    if (words[i].is_given == &class->cpu || words[i].is_given == &class->gpu)
      class->cpu = class->gpu = false;
    *words[i].is_given = true;
    return NULL;
  }
  return INVALID(
      "CLAVE_DEVICE_CLASS: expected cpu, gpu, wide, slow, avx512, avx2 or portable, got '%.*s'",
      (int)(n < 32 ? n : 32), word);
}

clave_status device_class_read(device_class *out) {
  const char *words = getenv("CLAVE_DEVICE_CLASS");
  *out = (device_class){0};
  for (const char *at = words ? words : ""; *at;) {
    size_t n = strcspn(at, ",");
    TRY(device_class_add_word(at, n, out));
    at += n + (at[n] == ',');
  }
  return NULL;
}
