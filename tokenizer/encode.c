/* Text to ids: the pipeline of tokenizer.h. */
#include "tokenizer/encode.h"

#include <stdlib.h>

#include "base/float_env.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "tokenizer/unicode.h"

static clave_status encode_piece(piece_sink *sink, span piece, bool first) {
  encoder *e = (encoder *)(void *)sink;
  (void)first;
  if (piece.size == 0) return NULL;
  return piece_cache_encode(e->cache, e->tokenizer->model, piece, &e->ids);
}

static clave_status encode_normalized(encoder *e, span in, bool first) {
  const pre_tokenizer *split = e->tokenizer->split;
  if (in.size == 0) return NULL;
  return split ? split->split(split, in, first, &e->sink) : encode_piece(&e->sink, in, first);
}

typedef clave_status encode_fn(encoder *e, span in, bool first);

/* Gives what lies between the tokens of `set` to `rest`. */
static clave_status cut(encoder *e, const added_set *set, span in, bool first, encode_fn *rest) {
  size_t at = 0;
  for (added_match m; added_find(set, in, at, &m); at = m.end) {
    TRY(rest(e, (span){in.data + at, m.begin - at}, first && at == 0));
    id_list_append(&e->ids, m.id);
  }
  return rest(e, (span){in.data + at, in.size - at}, first && at == 0);
}

/* What is left of a text whose first character goes does not begin it: to tokenizers' Metaspace. */
static clave_status keeps_start(const normalizer *n, span in, bool *keeps) {
  text one = {0};
  uint32_t c;
  clave_status st = n->apply(n, (span){in.data, utf8_read(in.data, &c)}, true, &one);
  if (!st) st = text_status(&one);
  *keeps = one.size > 0;
  text_free(&one);
  return st;
}

static clave_status normalize_and_cut(encoder *e, span in, bool first) {
  const normalizer *n = e->tokenizer->normalize;
  const added_set *set = added_in_normalized(e->matcher);
  if (in.size == 0) return NULL;
  if (!n) return cut(e, set, in, first, encode_normalized);
  if (first && e->tokenizer->split) TRY(keeps_start(n, in, &first));
  text normalized = {0};
  clave_status st = n->apply(n, in, first, &normalized);
  if (!st) st = text_status(&normalized);
  if (!st) st = cut(e, set, (span){normalized.data, normalized.size}, first, encode_normalized);
  text_free(&normalized);
  return st;
}

clave_status encoder_take(encoder *e, span in, bool first) {
  return cut(e, added_in_text(e->matcher), in, first, normalize_and_cut);
}

encoder encoder_of(const clave_tokenizer *t, bool match_special, piece_cache *cache) {
  return (encoder){.sink = {encode_piece},
                   .tokenizer = t,
                   .matcher = match_special ? t->matcher : t->text_matcher,
                   .cache = cache};
}

/* ---------------------------------------------------------------- a whole text */

void clave_ids_free(clave_ids *ids) {
  free(ids->items);
  *ids = (clave_ids){0};
}

static void append_ids(id_list *l, const uint32_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) id_list_append(l, ids[i]);
}

static clave_status encode_valid(encoder *e, span in, const clave_encode_options *o) {
  const clave_tokenizer *t = e->tokenizer;
  if (o->bos) append_ids(&e->ids, t->prefix, t->n_prefix);
  TRY(encoder_take(e, in, true));
  if (o->eos) append_ids(&e->ids, t->suffix, t->n_suffix);
  return e->ids.failed ? status_no_memory() : NULL;
}

clave_status clave_tokenizer_encode(const clave_tokenizer *t, const char *bytes, size_t size,
                                    const clave_encode_options *options, clave_ids *out) {
  OWN_FLOAT_ENV;
  *out = (clave_ids){0};
  clave_encode_options o;
  TRY(sized_read(options, &o, SIZED(clave_encode_options, special)));
  if ((unsigned)o.special > CLAVE_SPECIAL_TEXT) {
    return INVALID("clave_encode_options: special: expected a clave_special, got %d",
                   (int)o.special);
  }
  bool special =
      o.special == CLAVE_SPECIAL_DEFAULT ? t->match_special : o.special == CLAVE_SPECIAL_MATCH;
  encoder e = encoder_of(t, special, piece_cache_create(size));
  text repaired = {0};
  span in = {size > 0 ? bytes : "", size};
  if (!utf8_valid(in.data, size)) {
    (void)unicode_append_valid(&repaired, in, true);
    in = (span){repaired.data, repaired.size};
  }
  clave_status st = text_status(&repaired);
  if (!st) st = encode_valid(&e, in, &o);
  piece_cache_destroy(e.cache);
  text_free(&repaired);
  if (st) {
    id_list_free(&e.ids);
    return st;
  }
  *out = (clave_ids){e.ids.items, e.ids.count};
  return NULL;
}
