/* Finding added tokens: the texts are sorted; at a byte that begins one, the range of texts that
 * agree with what follows is narrowed byte by byte. */
#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

typedef struct entry {
  span text;
  const added_token *token;
} entry;

struct added_set {
  entry *entries; /* owned, sorted by text */
  size_t n;
  uint32_t begin[257]; /* entries whose first byte is b: [begin[b], begin[b + 1]) */
};

struct added_matcher {
  added_set text, normalized;
  text texts; /* of the normalized ones */
  size_t n_texts;
};

static int compare_entries(const void *a, const void *b) {
  const entry *x = a, *y = b;
  size_t n = x->text.size < y->text.size ? x->text.size : y->text.size;
  int order = memcmp(x->text.data, y->text.data, n);
  if (order != 0) return order;
  if (x->text.size != y->text.size) return x->text.size < y->text.size ? -1 : 1;
  return x->token < y->token ? -1 : x->token > y->token; /* of equals the first given counts */
}

static void finish_set(added_set *s) {
  size_t kept = 0;
  qsort(s->entries, s->n, sizeof *s->entries, compare_entries);
  for (size_t i = 0; i < s->n; i++) {
    const span *last = kept > 0 ? &s->entries[kept - 1].text : NULL;
    span now = s->entries[i].text;
    if (last && last->size == now.size && memcmp(last->data, now.data, now.size) == 0) continue;
    s->entries[kept++] = s->entries[i];
  }
  s->n = kept;
  for (size_t i = 0; i < s->n; i++) s->begin[(uint8_t)s->entries[i].text.data[0] + 1]++;
  for (size_t b = 0; b < 256; b++) s->begin[b + 1] += s->begin[b];
}

/* Appends the normalized text to m->texts, which must not move afterwards: data is filled in at the
 * end. */
static clave_status add_normalized(added_matcher *m, const added_token *t, const normalizer *n) {
  size_t begin = m->texts.size;
  if (n) {
    TRY(n->apply(n, t->text, true, &m->texts));
  } else {
    text_append(&m->texts, t->text.data, t->text.size);
  }
  TRY(text_status(&m->texts));
  size_t size = m->texts.size - begin;
  if (size == 0) return NULL;
  m->normalized.entries[m->normalized.n++] = (entry){{NULL, size}, t};
  return NULL;
}

static clave_status fill_sets(added_matcher *m, const added_token *tokens, size_t n,
                              bool with_special, const normalizer *normalize) {
  for (size_t i = 0; i < n; i++) {
    const added_token *t = &tokens[i];
    if ((t->special && !with_special) || t->text.size == 0) continue;
    if (t->text.size > ADDED_MAX_TEXT) {
      return INVALID("added token %u is %zu bytes long, at most %d are possible", t->id,
                     t->text.size, ADDED_MAX_TEXT);
    }
    if (t->normalized) {
      TRY(add_normalized(m, t, normalize));
    } else {
      m->text.entries[m->text.n++] = (entry){t->text, t};
    }
  }
  const char *data = m->texts.data;
  for (size_t i = 0; i < m->normalized.n; data += m->normalized.entries[i++].text.size) {
    m->normalized.entries[i].text.data = data;
  }
  finish_set(&m->text);
  finish_set(&m->normalized);
  return NULL;
}

clave_status added_matcher_create(const added_token *tokens, size_t n, bool with_special,
                                  const normalizer *normalize, added_matcher **out) {
  *out = NULL;
  added_matcher *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  m->text.entries = calloc(n + 1, sizeof(entry));
  m->normalized.entries = calloc(n + 1, sizeof(entry));
  clave_status st = m->text.entries && m->normalized.entries
                        ? fill_sets(m, tokens, n, with_special, normalize)
                        : status_no_memory();
  if (st) {
    added_matcher_destroy(m);
    return st;
  }
  *out = m;
  return NULL;
}

void added_matcher_destroy(added_matcher *m) {
  if (!m) return;
  free(m->text.entries);
  free(m->normalized.entries);
  text_free(&m->texts);
  free(m);
}

const added_set *added_in_text(const added_matcher *m) { return &m->text; }
const added_set *added_in_normalized(const added_matcher *m) { return &m->normalized; }

/* The first entry in [low, high), which agree in `depth` bytes, whose next byte is >= b. */
static size_t lower_bound(const added_set *s, size_t low, size_t high, size_t depth, unsigned b) {
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    span t = s->entries[middle].text;
    bool less = t.size <= depth || (uint8_t)t.data[depth] < b;
    if (less) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* The longest entry that begins at text[at]. */
static const entry *longest_at(const added_set *s, span in, size_t at) {
  unsigned b = (uint8_t)in.data[at];
  size_t low = s->begin[b], high = s->begin[b + 1];
  const entry *best = NULL;
  for (size_t depth = 1; low < high; depth++) {
    if (s->entries[low].text.size == depth) best = &s->entries[low];
    if (at + depth == in.size) break;
    b = (uint8_t)in.data[at + depth];
    low = lower_bound(s, low, high, depth, b);
    high = lower_bound(s, low, high, depth, b + 1);
  }
  return best;
}

static bool is_single_word(span in, size_t begin, size_t end) {
  uint32_t before = unicode_before(in.data, begin), after = 0;
  if (end < in.size) (void)utf8_read(in.data + end, &after);
  return !(begin > 0 && unicode_is_word(before)) && !(end < in.size && unicode_is_word(after));
}

bool added_find(const added_set *s, span in, size_t at, added_match *out) {
  if (s->n == 0) return false;
  for (size_t i = at; i < in.size; i++) {
    unsigned b = (uint8_t)in.data[i];
    if (s->begin[b] == s->begin[b + 1]) continue;
    const entry *e = longest_at(s, in, i);
    if (!e) continue;
    size_t end = i + e->text.size;
    const added_token *t = e->token;
    if (t->single_word && !is_single_word(in, i, end)) {
      i = end - 1; /* as the library: what it covers begins no other token */
      continue;
    }
    *out = (added_match){.begin = t->strip_left ? unicode_skip_space_before(in, i, at) : i,
                         .end = t->strip_right ? unicode_skip_space(in, end) : end,
                         .id = t->id,
                         .strips_right = t->strip_right};
    return true;
  }
  return false;
}
