/* Shared by the readers of a GGUF file: names in messages, kinds of values, and keys and tensors by
 * name. */
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
static size_t file_boundary(const text *in, size_t at) {
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
    const size_t start = file_boundary(&out, SHOWN_START),
                 end = file_boundary(&out, out.size - SHOWN_END);
    shown = import_text(im, "%.*s...%s", (int)start, out.data, out.data + end);
  }
  text_free(&out);
  return shown;
}

const char *gguf_number_text(importer *im, double number) {
  const bool is_whole = fabs(number) < 1e15 && number == floor(number);
  return is_whole ? import_text(im, "%.1f", number) : import_text(im, "%g", number);
}

/* ---------------------------------------------------------------- kinds */

static const struct {
  const char *name;
  uint8_t size; /* in bytes */
} kinds[GGUF_KINDS] = {{"uint8", 1},  {"int8", 1},    {"uint16", 2}, {"int16", 2},  {"uint32", 4},
                       {"int32", 4},  {"float32", 4}, {"bool", 1},   {"string", 0}, {"array", 0},
                       {"uint64", 8}, {"int64", 8},   {"float64", 8}};

const char *gguf_kind_name(gguf_kind kind) { return kinds[kind].name; }
size_t gguf_kind_size(gguf_kind kind) { return kinds[kind].size; }

/* ---------------------------------------------------------------- by name */

int gguf_by_name(const void *left, const void *right) {
  const span *a = left, *b = right;
  const int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
  return order ? order : (a->size > b->size) - (a->size < b->size);
}

gguf_key *gguf_find_key(const gguf_file *file, const char *name) {
  const gguf_key key = {.name = {name, strlen(name)}};
  return bsearch(&key, file->keys, file->n_keys, sizeof key, gguf_by_name);
}

gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name) {
  const gguf_tensor key = {.name = {name, strlen(name)}};
  return bsearch(&key, file->tensors, file->n_tensors, sizeof key, gguf_by_name);
}
