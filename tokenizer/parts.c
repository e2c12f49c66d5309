/* Encoding of texts composed of several sources. Untrusted text never produces special tokens. */
#include "tokenizer/parts.h"

#include <string.h>

#include "tokenizer/encode.h"
#include "tokenizer/unicode.h"

/* Finds the first added token in a text, special or not, without regard to the text after `in`. */
static bool find_next_added(const clave_tokenizer *tokenizer, span in, size_t at,
                            added_match *out) {
  added_match other;
  bool found = added_find(added_in_text(tokenizer->matcher), in, at, out);
  if (!added_find(added_in_normalized(tokenizer->matcher), in, at, &other)) return found;
  if (!found || other.begin < out->begin) *out = other;
  return true;
}

/* Encodes the text between special tokens. If the normalizer adds a space before this text, the
 * text's own first space is dropped. */
static clave_status encode_between(encoder *encoder, span in, size_t begin, size_t end,
                                   bool first) {
  bool starts = first && begin == 0;
  if (encoder->tokenizer->dummy_space && !starts && begin < end && in.data[begin] == ' ') begin++;
  return encoder_add(encoder, (span){in.data + begin, end - begin}, starts);
}

/* Encodes the parts so that special tokens are found only in TEXT_TRUSTED. */
static clave_status encode_guarded(encoder *encoder, span in, const text_part *parts, size_t n,
                                   bool first) {
  size_t done = 0, begin = 0;
  for (size_t i = 0; i < n; begin = parts[i++].end) {
    span trusted = {in.data, parts[i].kind == TEXT_TRUSTED ? parts[i].end : 0};
    size_t at = begin > done ? begin : done;
    for (added_match m; at < trusted.size && find_next_added(encoder->tokenizer, trusted, at, &m);
         at = done) {
      TRY(encode_between(encoder, in, done, m.begin, first));
      id_list_append(&encoder->ids, m.id);
      done = m.strips_right ? unicode_skip_space(in, m.end) : m.end;
      first = false;
    }
    if (parts[i].kind != TEXT_ID) continue;
    TRY(encode_between(encoder, in, done, begin > done ? begin : done, first));
    id_list_append(&encoder->ids, parts[i].id);
    done = begin > done ? begin : done;
    first = false;
  }
  return encode_between(encoder, in, done, in.size, first);
}

static const added_token *find_added(const clave_tokenizer *tokenizer, uint32_t id) {
  for (size_t i = 0; i < tokenizer->n_added; i++) {
    if (tokenizer->added[i].id == id) return &tokenizer->added[i];
  }
  return NULL;
}

static bool holds_special(const clave_tokenizer *tokenizer, span in) {
  added_match match;
  for (size_t at = 0; find_next_added(tokenizer, in, at, &match); at = match.end) {
    const added_token *token = find_added(tokenizer, match.id);
    if (token && token->special) return true;
  }
  return false;
}

/* Joins the parts into one text, in which tokens given by id are spelled out. Returns false if this
 * would change which special tokens are found. */
static bool join_parts(const clave_tokenizer *tokenizer, span in, const text_part *parts, size_t n,
                       text *out) {
  size_t begin = 0;
  for (size_t i = 0; i < n; begin = parts[i++].end) {
    span part = {in.data + begin, parts[i].end - begin};
    const added_token *token = parts[i].kind == TEXT_ID ? find_added(tokenizer, parts[i].id) : NULL;
    if (parts[i].kind == TEXT_ID && !token) return false;
    if (parts[i].kind == TEXT_UNTRUSTED && holds_special(tokenizer, part)) return false;
    if (token) part = token->text;
    text_append(out, part.data, part.size);
  }
  return true;
}

/* Returns the size of a part in the joined text. */
static size_t joined_size(const clave_tokenizer *tokenizer, const text_part *part, size_t begin) {
  return part->kind == TEXT_ID ? find_added(tokenizer, part->id)->text.size : part->end - begin;
}

/* True if TEXT_UNTRUSTED overlaps [at, end) of the joined text. */
static bool tokenizer_parts_is_untrusted(const clave_tokenizer *tokenizer, const text_part *parts,
                                         size_t n, size_t at, size_t end) {
  size_t begin = 0, from = 0;
  for (size_t i = 0; i < n && from < end; begin = parts[i++].end) {
    size_t to = from + joined_size(tokenizer, &parts[i], begin);
    if (parts[i].kind == TEXT_UNTRUSTED && from < to && at < to) return true;
    from = to;
  }
  return false;
}

/* True if a special token of the joined text overlaps TEXT_UNTRUSTED. White space that the token
 * strips is ignored. */
static bool special_crosses(const clave_tokenizer *tokenizer, span whole, const text_part *parts,
                            size_t n) {
  added_match match;
  for (size_t at = 0; find_next_added(tokenizer, whole, at, &match); at = match.end) {
    const added_token *token = find_added(tokenizer, match.id);
    if (!token || !token->special) continue;
    const char *core = memmem(whole.data + match.begin, match.end - match.begin, token->text.data,
                              token->text.size);
    size_t begin = core ? (size_t)(core - whole.data) : match.begin;
    if (tokenizer_parts_is_untrusted(tokenizer, parts, n, begin,
                                     core ? begin + token->text.size : match.end))
      return true;
  }
  return false;
}

clave_status tokenizer_encode_parts(const clave_tokenizer *tokenizer, span in,
                                    const text_part *parts, size_t n, bool first, id_list *out) {
  text whole = {0};
  bool joined =
      tokenizer->match_special && join_parts(tokenizer, in, parts, n, &whole) && !whole.failed &&
      !special_crosses(tokenizer, (span){whole.data ? whole.data : "", whole.size}, parts, n);
  encoder encoder = encoder_of(tokenizer, joined, NULL);
  encoder.ids = *out;
  clave_status st = text_status(&whole);
  if (!st && joined)
    st = encode_between(&encoder, (span){whole.data, whole.size}, 0, whole.size, first);
  if (!st && !joined) st = encode_guarded(&encoder, in, parts, n, first);
  text_free(&whole);
  *out = encoder.ids;
  return !st && out->failed ? status_no_memory() : st;
}
