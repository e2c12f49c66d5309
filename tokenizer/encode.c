/* Encodes text to ids by the pipeline of tokenizer.h. */
#include "tokenizer/encode.h"

#include <stdlib.h>

#include "base/float_env.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "tokenizer/unicode.h"

static clave_status encode_pretoken(pretoken_sink *sink, span pretoken, bool first) {
  encoder *coder = (encoder *)(void *)sink;
  (void)first;
  if (pretoken.size == 0) return NULL;
  return pretoken_cache_encode(coder->cache, coder->tokenizer->model, pretoken, &coder->ids);
}

static clave_status encode_normalized(encoder *encoder, span in, bool first) {
  const pre_tokenizer *split = encoder->tokenizer->split;
  if (in.size == 0) return NULL;
  return split ? split->split(split, in, first, &encoder->sink)
               : encode_pretoken(&encoder->sink, in, first);
}

typedef clave_status encode_fn(encoder *encoder, span in, bool first);

/* Passes the text between the tokens of `set` to `rest`, and appends the tokens' ids. */
static clave_status encode_cut(encoder *encoder, const added_set *set, span in, bool first,
                               encode_fn *rest) {
  size_t at = 0;
  for (added_match m; added_find(set, in, at, &m); at = m.end) {
    TRY(rest(encoder, (span){in.data + at, m.begin - at}, first && at == 0));
    id_list_append(&encoder->ids, m.id);
  }
  return rest(encoder, (span){in.data + at, in.size - at}, first && at == 0);
}

/* Sets *keeps to true if the normalizer keeps the first character. Otherwise the remaining text
 * does not count as the beginning of the text, as in tokenizers' Metaspace. */
static clave_status keeps_start(const normalizer *normalizer, span in, bool *keeps) {
  text one = {0};
  uint32_t c;
  clave_status st =
      normalizer->apply(normalizer, (span){in.data, utf8_read(in.data, &c)}, true, &one);
  if (!st) st = text_status(&one);
  *keeps = one.size > 0;
  text_free(&one);
  return st;
}

static clave_status normalize_and_cut(encoder *encoder, span in, bool first) {
  const normalizer *normalizer = encoder->tokenizer->normalize;
  const added_set *set = added_in_normalized(encoder->matcher);
  if (in.size == 0) return NULL;
  if (!normalizer) return encode_cut(encoder, set, in, first, encode_normalized);
  if (first && encoder->tokenizer->split) TRY(keeps_start(normalizer, in, &first));
  text normalized = {0};
  clave_status st = normalizer->apply(normalizer, in, first, &normalized);
  if (!st) st = text_status(&normalized);
  if (!st)
    st = encode_cut(encoder, set, (span){normalized.data, normalized.size}, first,
                    encode_normalized);
  text_free(&normalized);
  return st;
}

clave_status encoder_add(encoder *encoder, span in, bool first) {
  return encode_cut(encoder, added_in_text(encoder->matcher), in, first, normalize_and_cut);
}

encoder encoder_of(const clave_tokenizer *tokenizer, bool match_special, pretoken_cache *cache) {
  return (encoder){.sink = {encode_pretoken},
                   .tokenizer = tokenizer,
                   .matcher = match_special ? tokenizer->matcher : tokenizer->text_matcher,
                   .cache = cache};
}

/* ---------------------------------------------------------------- a whole text */

void clave_ids_free(clave_ids *ids) {
  free(ids->items);
  *ids = (clave_ids){0};
}

static void append_ids(id_list *list, const uint32_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) id_list_append(list, ids[i]);
}

static clave_status encode_valid(encoder *encoder, span in, const clave_encode_options *options) {
  const clave_tokenizer *tokenizer = encoder->tokenizer;
  if (options->bos) append_ids(&encoder->ids, tokenizer->prefix, tokenizer->n_prefix);
  TRY(encoder_add(encoder, in, true));
  if (options->eos) append_ids(&encoder->ids, tokenizer->suffix, tokenizer->n_suffix);
  return encoder->ids.failed ? status_no_memory() : NULL;
}

clave_status clave_tokenizer_encode(const clave_tokenizer *tokenizer, const char *bytes,
                                    size_t size, const clave_encode_options *options,
                                    clave_ids *out) {
  OWN_FLOAT_ENV;
  *out = (clave_ids){0};
  clave_encode_options known;
  TRY(sized_read(options, &known, SIZED(clave_encode_options, special)));
  if ((unsigned)known.special > CLAVE_SPECIAL_TEXT) {
    return INVALID("clave_encode_options: special: expected a clave_special, got %d",
                   (int)known.special);
  }
  bool special = known.special == CLAVE_SPECIAL_DEFAULT ? tokenizer->match_special
                                                        : known.special == CLAVE_SPECIAL_MATCH;
  encoder encoder = encoder_of(tokenizer, special, pretoken_cache_create(size));
  text repaired = {0};
  span in = {size > 0 ? bytes : "", size};
  if (!utf8_valid(in.data, size)) {
    (void)unicode_append_valid(&repaired, in, true);
    in = (span){repaired.data, repaired.size};
  }
  clave_status st = text_status(&repaired);
  if (!st) st = encode_valid(&encoder, in, &known);
  pretoken_cache_destroy(encoder.cache);
  text_free(&repaired);
  if (st) {
    id_list_free(&encoder.ids);
    return st;
  }
  *out = (clave_ids){encoder.ids.items, encoder.ids.count};
  return NULL;
}
