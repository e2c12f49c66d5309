/* Values of a GGUF file's keys. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "import/gguf/file.h"

/* ---------------------------------------------------------------- classes */

static const struct {
  const char *one, *many;
} classes[] = {{"an integer", "integer"},
               {"a number", "number"},
               {"true or false", "flag"},
               {"a text", "text"}};

static bool is_of(gguf_kind kind, gguf_class of) {
  const bool is_float = kind == GGUF_F32 || kind == GGUF_F64;
  if (of == GGUF_FLAGS) return kind == GGUF_BOOL;
  if (of == GGUF_TEXTS) return kind == GGUF_TEXT;
  return kind != GGUF_BOOL && kind != GGUF_TEXT && (of == GGUF_NUMBERS || !is_float);
}

/* Sets *out to a value that is not an array; to NULL if the key is missing. */
static clave_status keys_read_one(gguf_file *file, const char *key, gguf_class of, gguf_key **out) {
  *out = gguf_find_key(file, key);
  if (!*out) return NULL;
  (*out)->is_read = true;
  if (!(*out)->is_array && is_of((*out)->kind, of)) return NULL;
  return INVALID("key '%s': expected %s, got %s", key, classes[of].one,
                 gguf_kind_name((*out)->is_array ? GGUF_ARRAY : (*out)->kind));
}

/* ---------------------------------------------------------------- single values */

bool gguf_has(gguf_file *file, const char *key) { return gguf_find_key(file, key) != NULL; }

bool gguf_is_array(gguf_file *file, const char *key) {
  const gguf_key *found = gguf_find_key(file, key);
  return found && found->is_array;
}

clave_status gguf_need(gguf_file *file, const char *key) {
  return gguf_has(file, key) ? NULL : INVALID("has no key '%s'", key);
}

const char *gguf_own(gguf_file *file, const char *key) {
  return import_text(file->im, "%s.%s", file->architecture, key);
}

/* Reads an integer of 64 bits at most; a larger one is INT64_MAX. */
static int64_t integer_at(gguf_kind kind, const void *at) {
  uint64_t bits = 0;
  memcpy(&bits, at, gguf_kind_size(kind));
  switch (kind) {
    case GGUF_I8:
      return (int8_t)bits;
    case GGUF_I16:
      return (int16_t)bits;
    case GGUF_I32:
      return (int32_t)bits;
    case GGUF_U64:
      return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    case GGUF_BOOL:
      return bits != 0;
    default:
      return (int64_t)bits;
  }
}

static double number_at(gguf_kind kind, const void *at) {
  float single;
  double number;
  if (kind == GGUF_F32) {
    memcpy(&single, at, sizeof single);
    return (double)single;
  }
  if (kind != GGUF_F64) return (double)integer_at(kind, at);
  memcpy(&number, at, sizeof number);
  return number;
}

clave_status gguf_read_integer(gguf_file *file, const char *key, int64_t least, int64_t most,
                               int64_t *value) {
  gguf_key *found;
  TRY(keys_read_one(file, key, GGUF_INTEGERS, &found));
  if (!found) return NULL;
  *value = integer_at(found->kind, found->data);
  if (*value >= least && *value <= most) return NULL;
  return INVALID("key '%s': expected %lld to %lld, got %lld", key, (long long)least,
                 (long long)most, (long long)*value);
}

clave_status gguf_read_number(gguf_file *file, const char *key, double *value) {
  static const double largest = 1e30;
  gguf_key *found;
  TRY(keys_read_one(file, key, GGUF_NUMBERS, &found));
  if (!found) return NULL;
  *value = number_at(found->kind, found->data);
  if (*value >= 1 / largest && *value <= largest) return NULL;
  return INVALID("key '%s': expected a positive finite number, got %s", key,
                 gguf_number_text(file->im, *value));
}

clave_status gguf_read_flag(gguf_file *file, const char *key, bool *value) {
  gguf_key *found;
  TRY(keys_read_one(file, key, GGUF_FLAGS, &found));
  if (found) *value = integer_at(found->kind, found->data) != 0;
  return NULL;
}

clave_status gguf_read_text(gguf_file *file, const char *key, span *value) {
  gguf_key *found;
  TRY(keys_read_one(file, key, GGUF_TEXTS, &found));
  const uint8_t *at = found ? found->data : NULL;
  return found ? gguf_next_text(file, found, 0, &at, value) : NULL;
}

/* ---------------------------------------------------------------- arrays */

clave_status gguf_read_array(gguf_file *file, const char *key, gguf_class of, int64_t count,
                             const gguf_key **out) {
  gguf_key *found = gguf_find_key(file, key);
  *out = found;
  if (!found) return NULL;
  found->is_read = true;
  if (!found->is_array)
    return INVALID("key '%s': expected an array (%s), got %s", key, classes[of].many,
                   gguf_kind_name(found->kind));
  if (found->count && !is_of(found->kind, of))
    return INVALID("key '%s': expected an array of kind %s, got one of %s", key, classes[of].many,
                   gguf_kind_name(found->kind));
  if (count >= 0 && (uint64_t)count != found->count)
    return INVALID("key '%s': expected %lld elements, got %llu", key, (long long)count,
                   (unsigned long long)found->count);
  for (uint64_t i = 0; of == GGUF_NUMBERS && i < found->count; i++)
    if (!isfinite(gguf_element(found, i)))
      return INVALID("key '%s' has elements that are not finite", key);
  return NULL;
}

double gguf_element(const gguf_key *array, uint64_t i) {
  return number_at(array->kind, (const uint8_t *)array->data + i * gguf_kind_size(array->kind));
}

clave_status gguf_next_text(gguf_file *file, const gguf_key *array, uint64_t index,
                            const uint8_t **at, span *out) {
  uint64_t n;
  memcpy(&n, *at, sizeof n); /* the header's reader checked it */
  *out = (span){(const char *)*at + sizeof n, (size_t)n};
  *at += sizeof n + n;
  const bool is_valid = utf8_valid(out->data, out->size);
  if (is_valid && !memchr(out->data, 0, out->size)) return NULL;
  const char *name = gguf_shown(file->im, array->name),
             *what = is_valid ? "contains NUL" : "is not UTF-8";
  return array->is_array ? INVALID("key %s, element %llu %s", name, (unsigned long long)index, what)
                         : INVALID("key %s %s", name, what);
}

/* ---------------------------------------------------------------- keys that were not read */

/* True if a key does not affect the results, or belongs to a feature that is refused elsewhere. */
static bool is_ignored(span name) {
  static const char *const ignored[] = {
      "vocab_size",
      "expert_used_count",
      "rope.scaling.finetuned",
      "expert_feed_forward_length",
      "expert_shared_feed_forward_length",
      "expert_shared_count",
      "leading_dense_block_count",
      "interleave_moe_layer_step",
      "expert_group_used_count",
      "tensor_data_layout",
      "pooling_type",
      "rope.scaling.yarn_attn_factor", /* llama.cpp reads it for Grok only */
      "ssm.conv_kernel",               /* in files of Granite without scans */
      "ssm.inner_size",
      "ssm.state_size",
      "ssm.time_step_rank",
      "ssm.group_count"};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    if (span_is(name, ignored[i])) return true;
  return false;
}

clave_status gguf_check_keys(gguf_file *file) {
  const char *prefix = import_text(file->im, "%s.", file->architecture), *names = "";
  const size_t size = strlen(prefix);
  int n = 0;
  for (size_t i = 0; i < file->n_keys && n < 3; i++) {
    const span name = file->keys[i].name;
    if (file->keys[i].is_read || name.size < size || memcmp(name.data, prefix, size) != 0) continue;
    if (is_ignored((span){name.data + size, name.size - size})) continue;
    names = import_text(file->im, "%s%s%s", names, n++ ? ", " : "", gguf_shown(file->im, name));
  }
  return n ? UNSUPPORTED("has keys that are not supported: %s", names) : NULL;
}
