#ifndef TOKENIZER_HF_H
#define TOKENIZER_HF_H
/* The sections of a tokenizer.json, each read by one file: hf_normalizer.c (normalizer),
 * hf_pre_tokenizer.c (pre_tokenizer), hf_model.c (model and its vocabulary), hf_added.c
 * (added_tokens), hf_post_processor.c (post_processor), hf_decoder.c (decoder). Each file has a
 * table of the supported types and their readers; others are rejected by name. */
#include "json/fields.h"
#include "tokenizer/tokenizer.h"

/* Each reads a section; json: the section's value. If a section is absent or null, *out is NULL,
 * except that the decoder joins tokens with spaces. */
clave_status hf_read_normalizer(const json *json, normalizer **out) STATUS_CHECK;
/* byte_level: pre-tokens remain bytes; the last ByteLevel does not write them as characters. */
clave_status hf_read_pre_tokenizer(const json *json, bool byte_level,
                                   pre_tokenizer **out) STATUS_CHECK;
/* Reads the vocabulary, then the added tokens, which may be part of it, then the model over both.
 * tokenizer->byte_level must be set before: pieces are then converted to bytes. kinds: piece_kind
 * by id, in tokenizer->pool. */
clave_status hf_read_vocab(const json *model, clave_tokenizer *tokenizer) STATUS_CHECK;
clave_status hf_read_added(const json *json, clave_tokenizer *tokenizer,
                           uint8_t **kinds) STATUS_CHECK;
clave_status hf_read_model(const json *model, uint8_t *kinds,
                           clave_tokenizer *tokenizer) STATUS_CHECK;
/* Sets the texts that decoding shows for `normalized` tokens: their normalized form. Needs all
 * sections except the decoder. */
clave_status hf_read_shown(clave_tokenizer *tokenizer) STATUS_CHECK;
/* Adds a piece spelled as in the file. */
clave_status hf_add_piece(clave_tokenizer *tokenizer, uint32_t id, span spelling) STATUS_CHECK;
clave_status hf_read_post_processor(const json *json, clave_tokenizer *tokenizer) STATUS_CHECK;
clave_status hf_read_decoder(const json *json, const clave_tokenizer *tokenizer,
                             token_decoder **out) STATUS_CHECK;

/* True if the section's "type" is this one. */
bool hf_is(const json *section, const char *type);
/* Finds the row of a table that "type" names. Rows have `stride` bytes and begin with a name. */
clave_status hf_find(const json *json, const void *table, size_t stride, size_t n,
                     size_t *index) STATUS_CHECK;

enum { HF_MAX_DEPTH = 8 }; /* nesting of sequences */

/* Appends `in` with each occurrence of `what` replaced. An empty `what` never occurs. */
void hf_replace_text(span in, span what, span with, text *out);

/* The pattern of a Replace or Split: {"String": ...} or {"Regex": ...}. */
typedef struct hf_pattern {
  span source;
  bool is_literal;
} hf_pattern;
clave_status hf_read_pattern(const json *section, hf_pattern *out) STATUS_CHECK;

#endif
