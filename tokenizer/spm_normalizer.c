/* SentencePiece's normalization: replacement by the longest rule, then white space. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/trie.h"

typedef struct spm_normalizer {
  normalizer base;
  spm_spec spec; /* without the bytes of the charsmap */
  bool suffix;
  charsmap *map; /* owned; NULL: no replacements */
  trie user;     /* user-defined pieces; without units if there are none */
} spm_normalizer;

static void append_space(const spm_normalizer *normalizer, text *out) {
  if (normalizer->spec.escape_spaces) {
    text_append(out, SPM_SPACE, strlen(SPM_SPACE));
  } else {
    text_append(out, " ", 1);
  }
}

/* Returns the number of bytes at the start of `in` (not empty) that `out` replaces as a unit. */
static size_t next_rule(const spm_normalizer *normalizer, span in, span *out) {
  uint32_t id;
  size_t size = normalizer->user.units ? trie_longest(&normalizer->user, in, &id) : 0;
  if (size == 0 && normalizer->map) {
    size = charsmap_longest(normalizer->map, in, out);
    if (size > 0) return size;
  }
  if (size == 0) size = utf8_sequence(in.data, in.size);
  *out = (span){in.data, size};
  if (size > 0) return size;
  *out = (span){"\xEF\xBF\xBD", 3};
  return 1;
}

/* Returns a number of bytes, without spaces, at the start that no rule changes; there may be
 * more. */
static size_t unchanged(const spm_normalizer *normalizer, span in) {
  if (normalizer->user.units) return 0;
  if (normalizer->map) return charsmap_unchanged(normalizer->map, in);
  const char *end = memchr(in.data, ' ', in.size);
  size_t size = end ? (size_t)(end - in.data) : in.size;
  return utf8_valid(in.data, size) ? size : 0;
}

static void append_escaped(const spm_normalizer *normalizer, span span, text *out) {
  for (size_t at = 0; at < span.size;) {
    const char *space = memchr(span.data + at, ' ', span.size - at);
    size_t end = space ? (size_t)(space - span.data) : span.size;
    text_append(out, span.data + at, end - at);
    if (space) append_space(normalizer, out);
    at = end + (space != NULL);
  }
}

static size_t skip_leading(const spm_normalizer *normalizer, span in) {
  size_t at = 0, size;
  span range;
  while (normalizer->spec.remove_extra_spaces && at < in.size) {
    size = next_rule(normalizer, (span){in.data + at, in.size - at}, &range);
    if (range.size != 1 || range.data[0] != ' ') break;
    at += size;
  }
  return at;
}

static void strip_trailing(const spm_normalizer *normalizer, size_t begin, text *out) {
  const char *space = normalizer->spec.escape_spaces ? SPM_SPACE : " ";
  size_t size = strlen(space);
  while (out->size - begin >= size && memcmp(out->data + out->size - size, space, size) == 0)
    out->size -= size;
}

static void append_rest(const spm_normalizer *normalizer, span in, text *out) {
  bool after_space = normalizer->spec.remove_extra_spaces;
  for (size_t at = 0; at < in.size;) {
    span rest = {in.data + at, in.size - at}, range;
    size_t size = unchanged(normalizer, rest);
    if (size > 0) {
      range = (span){rest.data, size};
    } else {
      size = next_rule(normalizer, rest, &range);
    }
    at += size;
    while (after_space && range.size > 0 && range.data[0] == ' ')
      range = (span){range.data + 1, range.size - 1};
    if (range.size == 0) continue;
    append_escaped(normalizer, range, out);
    after_space = normalizer->spec.remove_extra_spaces && range.data[range.size - 1] == ' ';
  }
}

/* `first` is ignored: the text between two special tokens is normalized like a whole text. */
static clave_status apply_spm(const normalizer *self, span in, bool first, text *out) {
  const spm_normalizer *n = (const spm_normalizer *)self;
  size_t begin = out->size, at = skip_leading(n, in);
  (void)first;
  if (at == in.size) return NULL;
  if (n->spec.dummy_prefix && !n->suffix) append_space(n, out);
  append_rest(n, (span){in.data + at, in.size - at}, out);
  if (n->spec.remove_extra_spaces) strip_trailing(n, begin, out);
  if (n->spec.dummy_prefix && n->suffix) append_space(n, out);
  return text_status(out);
}

static void spm_normalizer_destroy(normalizer *self) {
  spm_normalizer *n = (spm_normalizer *)self;
  if (!n) return;
  charsmap_destroy(n->map);
  trie_destroy(&n->user);
  free(n);
}

clave_status spm_normalizer_create(const spm_spec *spec, bool suffix, const vocab *vocab,
                                   const uint8_t *user, normalizer **out) {
  *out = NULL;
  spm_normalizer *spm_normalizer = calloc(1, sizeof *spm_normalizer);
  if (!spm_normalizer) return status_no_memory();
  spm_normalizer->base = (normalizer){apply_spm, spm_normalizer_destroy};
  spm_normalizer->spec = *spec;
  spm_normalizer->suffix = suffix;
  clave_status st =
      spec->charsmap.size > 0 ? charsmap_create(spec->charsmap, &spm_normalizer->map) : NULL;
  if (!st && user) st = user_trie_create(vocab, user, &spm_normalizer->user);
  if (st) {
    spm_normalizer_destroy(&spm_normalizer->base);
    return st;
  }
  *out = &spm_normalizer->base;
  return NULL;
}
