/* Searches for added tokens. Their texts are sorted. At a byte that begins a token, binary searches
 * narrow the range of texts that match the following bytes, byte by byte. */
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
  text texts; /* texts of the normalized tokens */
  size_t n_texts;
};

static int compare_entries(const void *left, const void *right) {
  const entry *a = left, *b = right;
  size_t n = a->text.size < b->text.size ? a->text.size : b->text.size;
  int order = memcmp(a->text.data, b->text.data, n);
  if (order != 0) return order;
  if (a->text.size != b->text.size) return a->text.size < b->text.size ? -1 : 1;
  return a->token < b->token ? -1 : a->token > b->token; /* the first of equal texts is found */
}

static void finish_set(added_set *set) {
  size_t kept = 0;
  qsort(set->entries, set->n, sizeof *set->entries, compare_entries);
  for (size_t i = 0; i < set->n; i++) {
    const span *last = kept > 0 ? &set->entries[kept - 1].text : NULL;
    span now = set->entries[i].text;
    if (last && last->size == now.size && memcmp(last->data, now.data, now.size) == 0) continue;
    set->entries[kept++] = set->entries[i];
  }
  set->n = kept;
  for (size_t i = 0; i < set->n; i++) set->begin[(uint8_t)set->entries[i].text.data[0] + 1]++;
  for (size_t b = 0; b < 256; b++) set->begin[b + 1] += set->begin[b];
}

/* Appends the normalized text to matcher->texts. Spans into the buffer are set after the last
 * token, because the buffer may move while it grows. */
static clave_status add_normalized(added_matcher *matcher, const added_token *token,
                                   const normalizer *normalizer) {
  size_t begin = matcher->texts.size;
  if (normalizer) {
    TRY(normalizer->apply(normalizer, token->text, true, &matcher->texts));
  } else {
    text_append(&matcher->texts, token->text.data, token->text.size);
  }
  TRY(text_status(&matcher->texts));
  size_t size = matcher->texts.size - begin;
  if (size == 0) return NULL;
  matcher->normalized.entries[matcher->normalized.n++] = (entry){{NULL, size}, token};
  return NULL;
}

static clave_status fill_sets(added_matcher *matcher, const added_token *tokens, size_t n,
                              bool with_special, const normalizer *normalize) {
  for (size_t i = 0; i < n; i++) {
    const added_token *token = &tokens[i];
    if ((token->special && !with_special) || token->text.size == 0) continue;
    if (token->text.size > ADDED_MAX_TEXT) {
      return INVALID("added token %u has %zu bytes: expected at most %d", token->id,
                     token->text.size, ADDED_MAX_TEXT);
    }
    if (token->normalized) {
      TRY(add_normalized(matcher, token, normalize));
    } else {
      matcher->text.entries[matcher->text.n++] = (entry){token->text, token};
    }
  }
  const char *data = matcher->texts.data;
  for (size_t i = 0; i < matcher->normalized.n;
       data += matcher->normalized.entries[i++].text.size) {
    matcher->normalized.entries[i].text.data = data;
  }
  finish_set(&matcher->text);
  finish_set(&matcher->normalized);
  return NULL;
}

clave_status added_matcher_create(const added_token *tokens, size_t n, bool with_special,
                                  const normalizer *normalize, added_matcher **out) {
  *out = NULL;
  added_matcher *matcher = calloc(1, sizeof *matcher);
  if (!matcher) return status_no_memory();
  matcher->text.entries = calloc(n + 1, sizeof(entry));
  matcher->normalized.entries = calloc(n + 1, sizeof(entry));
  clave_status st = matcher->text.entries && matcher->normalized.entries
                        ? fill_sets(matcher, tokens, n, with_special, normalize)
                        : status_no_memory();
  if (st) {
    added_matcher_destroy(matcher);
    return st;
  }
  *out = matcher;
  return NULL;
}

void added_matcher_destroy(added_matcher *matcher) {
  if (!matcher) return;
  free(matcher->text.entries);
  free(matcher->normalized.entries);
  text_free(&matcher->texts);
  free(matcher);
}

const added_set *added_in_text(const added_matcher *matcher) { return &matcher->text; }
const added_set *added_in_normalized(const added_matcher *matcher) { return &matcher->normalized; }

/* Returns the first entry in [low, high) whose byte number `depth` is >= b. All entries of the
 * range agree in the first `depth` bytes. */
static size_t lower_bound(const added_set *set, size_t low, size_t high, size_t depth, unsigned b) {
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    span span = set->entries[middle].text;
    bool less = span.size <= depth || (uint8_t)span.data[depth] < b;
    if (less) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* Returns the longest entry that begins at in[at], NULL if none exists. */
static const entry *longest_at(const added_set *set, span in, size_t at) {
  unsigned b = (uint8_t)in.data[at];
  size_t low = set->begin[b], high = set->begin[b + 1];
  const entry *best = NULL;
  for (size_t depth = 1; low < high; depth++) {
    if (set->entries[low].text.size == depth) best = &set->entries[low];
    if (at + depth == in.size) break;
    b = (uint8_t)in.data[at + depth];
    low = lower_bound(set, low, high, depth, b);
    high = lower_bound(set, low, high, depth, b + 1);
  }
  return best;
}

static bool is_single_word(span in, size_t begin, size_t end) {
  uint32_t before = unicode_before(in.data, begin), after = 0;
  if (end < in.size) (void)utf8_read(in.data + end, &after);
  return !(begin > 0 && unicode_is_word(before)) && !(end < in.size && unicode_is_word(after));
}

bool added_find(const added_set *set, span in, size_t at, added_match *out) {
  if (set->n == 0) return false;
  for (size_t i = at; i < in.size; i++) {
    unsigned b = (uint8_t)in.data[i];
    if (set->begin[b] == set->begin[b + 1]) continue;
    const entry *entry = longest_at(set, in, i);
    if (!entry) continue;
    size_t end = i + entry->text.size;
    const added_token *token = entry->token;
    if (token->single_word && !is_single_word(in, i, end)) {
      i = end - 1; /* as in the library, no other token begins within a rejected match */
      continue;
    }
    *out = (added_match){.begin = token->strip_left ? unicode_skip_space_before(in, i, at) : i,
                         .end = token->strip_right ? unicode_skip_space(in, end) : end,
                         .id = token->id,
                         .strips_right = token->strip_right};
    return true;
  }
  return false;
}
