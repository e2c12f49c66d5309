#ifndef TOKENIZER_HF_H
#define TOKENIZER_HF_H
/* The parts of a tokenizer.json, each read by a file of its own: hf_normalizer.c,
 * hf_pre_tokenizer.c (pre_tokenizer), hf_model.c (with the vocabulary), hf_added.c (added_tokens),
 * hf_post_processor.c (post_processor), hf_decoder.c. The parts of one kind are a table of names
 * and readers; others are refused by name.
 */
#include "json/fields.h"
#include "tokenizer/tokenizer.h"

/* json: the part's value; NULL or null: *out is NULL, but for decoders, where tokens are joined
 * with blanks then. */
clave_status hf_read_normalizer(const json *json, normalizer **out) STATUS_CHECK;
/* byte_level: pieces stay bytes, where the last ByteLevel would write them as characters. */
clave_status hf_read_pre_tokenizer(const json *json, bool byte_level,
                                   pre_tokenizer **out) STATUS_CHECK;
/* The vocabulary, then the added tokens, which may be in it, then the model over both.
 * tokenizer->byte_level is set before: pieces are turned into bytes. kinds: piece_kind by id, in
 * tokenizer->pool.
 */
clave_status hf_read_vocab(const json *model, clave_tokenizer *tokenizer) STATUS_CHECK;
clave_status hf_read_added(const json *json, clave_tokenizer *tokenizer,
                           uint8_t **kinds) STATUS_CHECK;
clave_status hf_read_model(const json *model, uint8_t *kinds,
                           clave_tokenizer *tokenizer) STATUS_CHECK;
/* Decoding shows `normalized` tokens as the normalizer leaves them; after all but the decoder. */
clave_status hf_read_shown(clave_tokenizer *tokenizer) STATUS_CHECK;
/* Adds a piece as the file writes it. */
clave_status hf_add_piece(clave_tokenizer *tokenizer, uint32_t id, span written) STATUS_CHECK;
clave_status hf_read_post_processor(const json *json, clave_tokenizer *tokenizer) STATUS_CHECK;
clave_status hf_read_decoder(const json *json, const clave_tokenizer *tokenizer,
                             token_decoder **out) STATUS_CHECK;

/* Is a part's "type" this? */
bool hf_is(const json *json, const char *type);
/* The row of a table of `stride` bytes a row, each of which begins with a name, that "type" names.
 */
clave_status hf_find(const json *json, const void *table, size_t stride, size_t n,
                     size_t *index) STATUS_CHECK;

enum { HF_MAX_DEPTH = 8 }; /* of sequences within sequences */

/* Appends `in` with each `what` replaced; an empty one is nowhere. */
void hf_replace_text(span in, span what, span with, text *out);

/* A Replace's or Split's pattern: {"String": ...} or {"Regex": ...}. */
typedef struct hf_pattern {
  span source;
  bool is_literal;
} hf_pattern;
clave_status hf_read_pattern(const json *json, hf_pattern *out) STATUS_CHECK;

#endif
