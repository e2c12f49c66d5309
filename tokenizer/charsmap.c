/* The layout: a little-endian count of bytes, the trie's units of 4 bytes, texts that end in NUL.
 * A unit over label c lies at its parent's position ^ offset ^ c; the value of a key that ends here
 * lies at position ^ offset. */
#include "tokenizer/charsmap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { BLOCK = 256 };

struct charsmap {
  uint32_t *units; /* (n_units), owned */
  uint32_t n_units;
  char *texts; /* (n_texts) the last one is NUL, owned */
  uint32_t n_texts;
  bool plain[128]; /* ASCII but spaces that no rule begins with, unless it goes on beyond ASCII */
};

static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
static bool has_value(uint32_t unit) { return (unit >> 8) & 1; }
static uint32_t label_of(uint32_t unit) { return unit & 0x800000FFu; } /* a value's is no byte */
static uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFu; }

/* ---------------------------------------------------------------- looking up */

static span text_at(const charsmap *c, uint32_t at) {
  return (span){c->texts + at, strlen(c->texts + at)};
}

static size_t look_up(const charsmap *c, span in, bool longest, span *replacement) {
  uint32_t at = offset_of(c->units[0]);
  size_t found = 0;
  for (size_t i = 0; i < in.size; i++) {
    uint8_t byte = (uint8_t)in.data[i];
    at ^= byte;
    uint32_t unit = c->units[at];
    if (label_of(unit) != byte) break;
    at ^= offset_of(unit);
    if (!has_value(unit)) continue;
    found = i + 1;
    *replacement = text_at(c, value_of(c->units[at]));
    if (!longest) break;
  }
  return found;
}

size_t charsmap_longest(const charsmap *c, span in, span *replacement) {
  return look_up(c, in, true, replacement);
}

size_t charsmap_shortest(const charsmap *c, span in, span *replacement) {
  return look_up(c, in, false, replacement);
}

size_t charsmap_unchanged(const charsmap *c, span in) {
  size_t i = 0;
  while (i < in.size && (uint8_t)in.data[i] < 128 && c->plain[(uint8_t)in.data[i]]) i++;
  bool goes_on = i > 0 && i < in.size && (uint8_t)in.data[i] >= 128;
  return goes_on ? i - 1 : i;
}

static bool is_plain(const charsmap *c, uint32_t byte) {
  uint32_t at = offset_of(c->units[0]) ^ byte, unit = c->units[at];
  if (label_of(unit) != byte) return true;
  if (has_value(unit)) return false;
  at ^= offset_of(unit);
  for (uint32_t next = 0; next < 128; next++) {
    if (label_of(c->units[at ^ next]) == next) return false;
  }
  return true;
}

/* ---------------------------------------------------------------- checking */

/* Each node once, as a damaged trie may lead in circles. A unit over label c can be a child only of
 * a base at its own position ^ c: units are listed by that. */
typedef struct walk {
  uint32_t *first, *next; /* (n_units) the units of a base; NO_UNIT ends a list */
  uint32_t *todo;         /* (n_units) */
  uint32_t n_todo;
  uint8_t *seen; /* (n_units) */
} walk;
#define NO_UNIT UINT32_MAX

static clave_status check_value(const charsmap *c, uint32_t value) {
  if (value >= c->n_texts || (c->texts[value] & 0xC0) == 0x80)
    return INVALID("charsmap: a rule's text at %u of %u bytes", value, c->n_texts);
  return NULL;
}

static clave_status check_node(const charsmap *c, uint32_t node, walk *w) {
  uint32_t unit = c->units[node], base = node ^ offset_of(unit);
  if ((base | (BLOCK - 1)) >= c->n_units)
    return INVALID("charsmap: node %u leads to %u of %u units", node, base, c->n_units);
  if (has_value(unit)) TRY(check_value(c, value_of(c->units[base])));
  for (uint32_t child = w->first[base]; child != NO_UNIT; child = w->next[child]) {
    if (w->seen[child]) continue;
    w->seen[child] = 1;
    w->todo[w->n_todo++] = child;
  }
  return NULL;
}

static clave_status walk_nodes(const charsmap *c, walk *w) {
  if (!w->first || !w->next || !w->todo || !w->seen) return status_no_memory();
  memset(w->first, 0xFF, c->n_units * sizeof *w->first);
  for (uint32_t i = 0; i < c->n_units; i++) {
    uint32_t base = i ^ (c->units[i] & (BLOCK - 1));
    if (label_of(c->units[i]) >= BLOCK) continue; /* a value */
    w->next[i] = w->first[base];
    w->first[base] = i;
  }
  w->todo[w->n_todo++] = 0;
  w->seen[0] = 1;
  while (w->n_todo > 0) TRY(check_node(c, w->todo[--w->n_todo], w));
  return NULL;
}

static clave_status check_trie(const charsmap *c) {
  size_t n = c->n_units;
  walk w = {malloc(n * sizeof *w.first), malloc(n * sizeof *w.next), malloc(n * sizeof *w.todo), 0,
            calloc(n, 1)};
  clave_status st = walk_nodes(c, &w);
  free(w.first);
  free(w.next);
  free(w.todo);
  free(w.seen);
  return st;
}

static clave_status read_blob(charsmap *c, span blob) {
  const uint8_t *b = (const uint8_t *)blob.data;
  if (blob.size < 5) return INVALID("charsmap: %zu bytes, at least 5 expected", blob.size);
  if (blob.size > UINT32_MAX) return INVALID("charsmap: %zu bytes are too many", blob.size);
  uint32_t n = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
  if (n >= blob.size - 4 || n == 0 || n % (4 * BLOCK) != 0)
    return INVALID("charsmap: a trie of %u bytes in %zu, a multiple of 1024 expected", n,
                   blob.size);
  c->n_units = n / 4;
  c->n_texts = (uint32_t)(blob.size - 4 - n);
  c->units = malloc(n);
  c->texts = malloc(c->n_texts);
  if (!c->units || !c->texts) return status_no_memory();
  for (uint32_t i = 0; i < c->n_units; i++) {
    const uint8_t *u = b + 4 + (size_t)i * 4;
    c->units[i] =
        (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
  }
  memcpy(c->texts, b + 4 + n, c->n_texts);
  if (c->texts[c->n_texts - 1] != 0 || !utf8_valid(c->texts, c->n_texts))
    return INVALID("charsmap: the texts are not UTF-8 that ends in NUL");
  TRY(check_trie(c));
  for (uint32_t byte = 0; byte < 128; byte++) c->plain[byte] = byte != ' ' && is_plain(c, byte);
  return NULL;
}

clave_status charsmap_create(span blob, charsmap **out) {
  charsmap *c = *out = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  clave_status st = read_blob(c, blob);
  if (st) {
    charsmap_destroy(c);
    *out = NULL;
  }
  return st;
}

void charsmap_destroy(charsmap *c) {
  if (!c) return;
  free(c->units);
  free(c->texts);
  free(c);
}
