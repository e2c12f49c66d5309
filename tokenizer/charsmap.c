/* Layout: a little-endian byte count, the trie's units of 4 bytes, and NUL-terminated texts. For a
 * node at position p, the unit of its child with label c is at p ^ offset ^ c, and the value of a
 * key that ends at the node is at p ^ offset. The node's unit contains the offset. */
#include "tokenizer/charsmap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { BLOCK = 256 };

struct charsmap {
  uint32_t *units; /* (n_units), owned */
  uint32_t n_units;
  char *texts; /* (n_texts), owned; the last byte is NUL */
  uint32_t n_texts;
  bool plain[128]; /* true for an ASCII character, except space, with which no rule begins except
                      rules whose second byte is not ASCII */
};

static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
static bool charsmap_has_value(uint32_t unit) { return (unit >> 8) & 1; }
/* Returns the label of a child; a number above 255 if the unit is a value. */
static uint32_t label_of(uint32_t unit) { return unit & 0x800000FFu; }
static uint32_t charsmap_value_of(uint32_t unit) { return unit & 0x7FFFFFFFu; }

/* ---------------------------------------------------------------- lookup */

static span text_at(const charsmap *charsmap, uint32_t at) {
  return (span){charsmap->texts + at, strlen(charsmap->texts + at)};
}

static size_t charsmap_look_up(const charsmap *charsmap, span in, bool longest, span *replacement) {
  uint32_t at = offset_of(charsmap->units[0]);
  size_t found = 0;
  for (size_t i = 0; i < in.size; i++) {
    uint8_t byte = (uint8_t)in.data[i];
    at ^= byte;
    uint32_t unit = charsmap->units[at];
    if (label_of(unit) != byte) break;
    at ^= offset_of(unit);
    if (!charsmap_has_value(unit)) continue;
    found = i + 1;
    *replacement = text_at(charsmap, charsmap_value_of(charsmap->units[at]));
    if (!longest) break;
  }
  return found;
}

size_t charsmap_longest(const charsmap *charsmap, span in, span *replacement) {
  return charsmap_look_up(charsmap, in, true, replacement);
}

size_t charsmap_shortest(const charsmap *charsmap, span in, span *replacement) {
  return charsmap_look_up(charsmap, in, false, replacement);
}

size_t charsmap_unchanged(const charsmap *charsmap, span in) {
  size_t i = 0;
  while (i < in.size && (uint8_t)in.data[i] < 128 && charsmap->plain[(uint8_t)in.data[i]]) i++;
  bool goes_on = i > 0 && i < in.size && (uint8_t)in.data[i] >= 128;
  return goes_on ? i - 1 : i;
}

static bool charsmap_is_plain(const charsmap *charsmap, uint32_t byte) {
  uint32_t at = offset_of(charsmap->units[0]) ^ byte, unit = charsmap->units[at];
  if (label_of(unit) != byte) return true;
  if (charsmap_has_value(unit)) return false;
  at ^= offset_of(unit);
  for (uint32_t next = 0; next < 128; next++) {
    if (label_of(charsmap->units[at ^ next]) == next) return false;
  }
  return true;
}

/* ---------------------------------------------------------------- validation */

/* A walk that visits each node once, because a damaged trie may contain cycles. The unit of label c
 * at position p can only be a child of the base p ^ c, so units are listed by base. */
typedef struct walk {
  uint32_t *first, *next; /* (n_units): lists of the units of each base; NO_UNIT ends a list */
  uint32_t *todo;         /* (n_units) */
  uint32_t n_todo;
  uint8_t *seen; /* (n_units) */
} walk;
#define NO_UNIT UINT32_MAX

static clave_status check_value(const charsmap *charsmap, uint32_t value) {
  if (value >= charsmap->n_texts || (charsmap->texts[value] & 0xC0) == 0x80)
    return INVALID("charsmap: the text of a rule is at %u, outside the %u bytes of texts", value,
                   charsmap->n_texts);
  return NULL;
}

static clave_status charsmap_check_node(const charsmap *charsmap, uint32_t node, walk *walk) {
  uint32_t unit = charsmap->units[node], base = node ^ offset_of(unit);
  if ((base | (BLOCK - 1)) >= charsmap->n_units)
    return INVALID("charsmap: node %u points to unit %u, outside the %u units", node, base,
                   charsmap->n_units);
  if (charsmap_has_value(unit))
    TRY(check_value(charsmap, charsmap_value_of(charsmap->units[base])));
  for (uint32_t child = walk->first[base]; child != NO_UNIT; child = walk->next[child]) {
    if (walk->seen[child]) continue;
    walk->seen[child] = 1;
    walk->todo[walk->n_todo++] = child;
  }
  return NULL;
}

static clave_status walk_nodes(const charsmap *charsmap, walk *walk) {
  if (!walk->first || !walk->next || !walk->todo || !walk->seen) return status_no_memory();
  memset(walk->first, 0xFF, charsmap->n_units * sizeof *walk->first);
  for (uint32_t i = 0; i < charsmap->n_units; i++) {
    uint32_t base = i ^ (charsmap->units[i] & (BLOCK - 1));
    if (label_of(charsmap->units[i]) >= BLOCK) continue; /* a value, not a child */
    walk->next[i] = walk->first[base];
    walk->first[base] = i;
  }
  walk->todo[walk->n_todo++] = 0;
  walk->seen[0] = 1;
  while (walk->n_todo > 0) TRY(charsmap_check_node(charsmap, walk->todo[--walk->n_todo], walk));
  return NULL;
}

static clave_status check_trie(const charsmap *charsmap) {
  size_t n = charsmap->n_units;
  walk w = {malloc(n * sizeof *w.first), malloc(n * sizeof *w.next), malloc(n * sizeof *w.todo), 0,
            calloc(n, 1)};
  clave_status st = walk_nodes(charsmap, &w);
  free(w.first);
  free(w.next);
  free(w.todo);
  free(w.seen);
  return st;
}

static clave_status read_blob(charsmap *charsmap, span blob) {
  const uint8_t *bytes = (const uint8_t *)blob.data;
  if (blob.size < 5) return INVALID("charsmap: expected at least 5 bytes, got %zu", blob.size);
  if (blob.size > UINT32_MAX)
    return INVALID("charsmap: %zu bytes are too many: expected less than 4 GiB", blob.size);
  uint32_t n = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
               (uint32_t)bytes[3] << 24;
  if (n >= blob.size - 4 || n == 0 || n % (4 * BLOCK) != 0)
    return INVALID("charsmap: a trie of %u bytes in %zu bytes: expected a multiple of 1024", n,
                   blob.size);
  charsmap->n_units = n / 4;
  charsmap->n_texts = (uint32_t)(blob.size - 4 - n);
  charsmap->units = malloc(n);
  charsmap->texts = malloc(charsmap->n_texts);
  if (!charsmap->units || !charsmap->texts) return status_no_memory();
  for (uint32_t i = 0; i < charsmap->n_units; i++) {
    const uint8_t *values = bytes + 4 + (size_t)i * 4;
    charsmap->units[i] = (uint32_t)values[0] | (uint32_t)values[1] << 8 |
                         (uint32_t)values[2] << 16 | (uint32_t)values[3] << 24;
  }
  memcpy(charsmap->texts, bytes + 4 + n, charsmap->n_texts);
  if (charsmap->texts[charsmap->n_texts - 1] != 0 ||
      !utf8_valid(charsmap->texts, charsmap->n_texts))
    return INVALID("charsmap: expected texts in UTF-8 that end in NUL");
  TRY(check_trie(charsmap));
  for (uint32_t byte = 0; byte < 128; byte++)
    charsmap->plain[byte] = byte != ' ' && charsmap_is_plain(charsmap, byte);
  return NULL;
}

clave_status charsmap_create(span blob, charsmap **out) {
  charsmap *charsmap = *out = calloc(1, sizeof *charsmap);
  if (!charsmap) return status_no_memory();
  clave_status st = read_blob(charsmap, blob);
  if (st) {
    charsmap_destroy(charsmap);
    *out = NULL;
  }
  return st;
}

void charsmap_destroy(charsmap *charsmap) {
  if (!charsmap) return;
  free(charsmap->units);
  free(charsmap->texts);
  free(charsmap);
}
