/* Values of a GGUF file's keys. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "import/gguf/file.h"

/* ---------------------------------------------------------------- messages */

enum { SHOWN = 100, SHOWN_START = 80, SHOWN_END = 10 };

static void put_escaped(text *out, const char *at, size_t n) {
  const unsigned char c = (unsigned char)*at;
  if (c == '\n')
    text_puts(out, "\\n");
  else if (c == '\t')
    text_puts(out, "\\t");
  else if (c == '\r')
    text_puts(out, "\\r");
  else if (c == '\'' || c == '\\')
    text_printf(out, "\\%c", c);
  else if (c < 0x20 || c == 0x7F || n == 0)
    text_printf(out, "\\x%02x", c);
  else
    text_append(out, at, n);
}

/* Returns the first place at or after `at` where a sequence of UTF-8 begins. */
static size_t keys_boundary(const text *in, size_t at) {
  while (at < in->size && ((unsigned char)in->data[at] & 0xC0) == 0x80) at++;
  return at;
}

const char *gguf_shown(importer *im, span name) {
  text out = {0};
  const char *shown;
  text_puts(&out, "'");
  for (size_t i = 0; i < name.size && out.size < 4 * SHOWN;) {
    const size_t n = utf8_sequence(name.data + i, name.size - i);
    put_escaped(&out, name.data + i, n);
    i += n ? n : 1;
  }
  text_puts(&out, "'");
  if (out.failed || out.size <= SHOWN) {
    shown = import_text(im, "%s", out.data ? out.data : "");
  } else {
    const size_t start = keys_boundary(&out, SHOWN_START),
                 end = keys_boundary(&out, out.size - SHOWN_END);
    shown = import_text(im, "%.*s...%s", (int)start, out.data, out.data + end);
  }
  text_free(&out);
  return shown;
}

void gguf_fail(gguf_file *file, clave_status st) {
  if (!st) return;
  if (file->im->fatal)
    status_free(st);
  else
    file->im->fatal = st;
}

/* ---------------------------------------------------------------- kinds */

static const char *const kind_names[GGUF_KINDS] = {
    "uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
    "bool",  "string", "array",  "uint64", "int64",  "float64"};

const char *gguf_kind_name(const gguf_key *key) {
  return kind_names[key->is_array ? GGUF_ARRAY : key->kind];
}

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

static int compare_key(const void *name, const void *key) {
  const span a = *(const span *)name, b = ((const gguf_key *)key)->name;
  const int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
  return order ? order : (a.size > b.size) - (a.size < b.size);
}

static gguf_key *keys_find(gguf_file *file, const char *key) {
  const span name = {key, strlen(key)};
  return bsearch(&name, file->keys, file->n_keys, sizeof *file->keys, compare_key);
}

/* Sets *out to a value that is not an array; to NULL if the key is missing. */
static clave_status keys_read_one(gguf_file *file, const char *key, gguf_class of, gguf_key **out) {
  *out = keys_find(file, key);
  if (!*out) return NULL;
  (*out)->is_read = true;
  if (!(*out)->is_array && is_of((*out)->kind, of)) return NULL;
  return INVALID("key '%s': expected %s, got %s", key, classes[of].one, gguf_kind_name(*out));
}

/* ---------------------------------------------------------------- single values */

bool gguf_has(gguf_file *file, const char *key) { return keys_find(file, key) != NULL; }

bool gguf_is_array(gguf_file *file, const char *key) {
  const gguf_key *found = keys_find(file, key);
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
  static const uint8_t sizes[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0};
  memcpy(&bits, at, sizes[kind]);
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

const char *gguf_number_text(importer *im, double number) {
  const bool is_whole = fabs(number) < 1e15 && number == floor(number);
  return is_whole ? import_text(im, "%.1f", number) : import_text(im, "%g", number);
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
  gguf_key *found = keys_find(file, key);
  *out = found;
  if (!found) return NULL;
  found->is_read = true;
  if (!found->is_array)
    return INVALID("key '%s': expected an array (%s), got %s", key, classes[of].many,
                   kind_names[found->kind]);
  if (found->count && !is_of(found->kind, of))
    return INVALID("key '%s': expected an array of kind %s, got one of %s", key, classes[of].many,
                   kind_names[found->kind]);
  if (count >= 0 && (uint64_t)count != found->count)
    return INVALID("key '%s': expected %lld elements, got %llu", key, (long long)count,
                   (unsigned long long)found->count);
  for (uint64_t i = 0; of == GGUF_NUMBERS && i < found->count; i++)
    if (!isfinite(gguf_element(found, i)))
      return INVALID("key '%s' has elements that are not finite", key);
  return NULL;
}

double gguf_element(const gguf_key *array, uint64_t i) {
  static const uint8_t sizes[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return number_at(array->kind, (const uint8_t *)array->data + i * sizes[array->kind]);
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
  static const char *const ignored[] = {"vocab_size", "expert_used_count", "rope.scaling.finetuned",
                                        "tensor_data_layout", "pooling_type"};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    if (strlen(ignored[i]) == name.size && memcmp(ignored[i], name.data, name.size) == 0)
      return true;
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
