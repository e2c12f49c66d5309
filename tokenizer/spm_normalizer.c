/* SentencePiece's normalization: replacements by the longest rule, then white space. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/trie.h"

typedef struct spm_normalizer {
  normalizer base;
  spm_spec spec; /* without the bytes of the charsmap */
  bool suffix;
  charsmap *map; /* owned; NULL: nothing is replaced */
  trie user;     /* of user-defined pieces; no units: there are none */
} spm_normalizer;

static void append_space(const spm_normalizer *n, text *out) {
  if (n->spec.escape_spaces) {
    text_append(out, SPM_SPACE, strlen(SPM_SPACE));
  } else {
    text_append(out, " ", 1);
  }
}

/* Bytes at the start of `in`, which is not empty, that become `out` as one. */
static size_t next_rule(const spm_normalizer *n, span in, span *out) {
  uint32_t id;
  size_t size = n->user.units ? trie_longest(&n->user, in, &id) : 0;
  if (size == 0 && n->map) {
    size = charsmap_longest(n->map, in, out);
    if (size > 0) return size;
  }
  if (size == 0) size = utf8_sequence(in.data, in.size);
  *out = (span){in.data, size};
  if (size > 0) return size;
  *out = (span){"\xEF\xBF\xBD", 3};
  return 1;
}

/* Bytes up to a space that stay as they are, as far as is quickly told. */
static size_t unchanged(const spm_normalizer *n, span in) {
  if (n->user.units) return 0;
  if (n->map) return charsmap_unchanged(n->map, in);
  const char *end = memchr(in.data, ' ', in.size);
  size_t size = end ? (size_t)(end - in.data) : in.size;
  return utf8_valid(in.data, size) ? size : 0;
}

static void append_escaped(const spm_normalizer *n, span s, text *out) {
  for (size_t at = 0; at < s.size;) {
    const char *space = memchr(s.data + at, ' ', s.size - at);
    size_t end = space ? (size_t)(space - s.data) : s.size;
    text_append(out, s.data + at, end - at);
    if (space) append_space(n, out);
    at = end + (space != NULL);
  }
}

static size_t skip_leading(const spm_normalizer *n, span in) {
  size_t at = 0, size;
  span s;
  while (n->spec.remove_extra_spaces && at < in.size) {
    size = next_rule(n, (span){in.data + at, in.size - at}, &s);
    if (s.size != 1 || s.data[0] != ' ') break;
    at += size;
  }
  return at;
}

static void strip_trailing(const spm_normalizer *n, size_t begin, text *out) {
  const char *space = n->spec.escape_spaces ? SPM_SPACE : " ";
  size_t size = strlen(space);
  while (out->size - begin >= size && memcmp(out->data + out->size - size, space, size) == 0)
    out->size -= size;
}

static void append_rest(const spm_normalizer *n, span in, text *out) {
  bool after_space = n->spec.remove_extra_spaces;
  for (size_t at = 0; at < in.size;) {
    span rest = {in.data + at, in.size - at}, s;
    size_t size = unchanged(n, rest);
    if (size > 0) {
      s = (span){rest.data, size};
    } else {
      size = next_rule(n, rest, &s);
    }
    at += size;
    while (after_space && s.size > 0 && s.data[0] == ' ') s = (span){s.data + 1, s.size - 1};
    if (s.size == 0) continue;
    append_escaped(n, s, out);
    after_space = n->spec.remove_extra_spaces && s.data[s.size - 1] == ' ';
  }
}

/* `first` does not matter: the text between two special tokens is one of its own. */
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

static void destroy_spm(normalizer *self) {
  spm_normalizer *n = (spm_normalizer *)self;
  if (!n) return;
  charsmap_destroy(n->map);
  trie_destroy(&n->user);
  free(n);
}

clave_status spm_normalizer_create(const spm_spec *spec, bool suffix, const vocab *v,
                                   const uint8_t *user, normalizer **out) {
  *out = NULL;
  spm_normalizer *n = calloc(1, sizeof *n);
  if (!n) return status_no_memory();
  n->base = (normalizer){apply_spm, destroy_spm};
  n->spec = *spec;
  n->suffix = suffix;
  clave_status st = spec->charsmap.size > 0 ? charsmap_create(spec->charsmap, &n->map) : NULL;
  if (!st && user) st = user_trie_create(v, user, &n->user);
  if (st) {
    destroy_spm(&n->base);
    return st;
  }
  *out = &n->base;
  return NULL;
}
