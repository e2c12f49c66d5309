/* Hugging Face's tokenizer.json; hf_*.c read its sections. */
#include "tokenizer/format.h"
#include "tokenizer/hf.h"

static bool recognises_json(span file) {
  size_t i = 0;
  while (i < file.size && (file.data[i] == ' ' || file.data[i] == '\n' || file.data[i] == '\r' ||
                           file.data[i] == '\t')) {
    i++;
  }
  return i < file.size && file.data[i] == '{';
}

static const json *last_of(const json *sequence, const char *key) {
  const json *list = field_or_null(sequence, key), *last = NULL;
  if (!list || json_kind_of(list) != JSON_ARRAY) return NULL;
  for (const json *v = json_first(list); v; v = json_next(v)) last = v;
  return last;
}

static bool is_bpe(const json *model) {
  return hf_is(model, "BPE") || (!field_or_null(model, "type") && json_member(model, "merges"));
}

static bool has_text(const json *model, const char *key) {
  const json *json = field_or_null(model, key);
  return json && (json_kind_of(json) != JSON_STRING || *json_string(json));
}

/* True if pieces can be stored as the bytes that they represent. The model then reads text
 * directly. */
static bool is_byte_level(const json *root, const json *model) {
  const json *split = field_or_null(root, "pre_tokenizer");
  const json *fallback = field_or_null(model, "byte_fallback");
  if (split && hf_is(split, "Sequence")) split = last_of(split, "pretokenizers");
  if (has_text(model, "continuing_subword_prefix") || has_text(model, "end_of_word_suffix")) {
    return false;
  }
  if (fallback && json_is_true(fallback)) return false;
  return is_bpe(model) && hf_is(split, "ByteLevel") &&
         hf_is(field_or_null(root, "decoder"), "ByteLevel");
}

static clave_status read_root(const json *root, clave_tokenizer *tokenizer) {
  const json *model;
  uint8_t *kinds;
  TRY(field(root, "model", JSON_OBJECT, &model));
  tokenizer->byte_level = is_byte_level(root, model);
  TRY(status_while(hf_read_vocab(model, tokenizer), "\"model\""));
  TRY(hf_read_added(field_or_null(root, "added_tokens"), tokenizer, &kinds));
  TRY(status_while(hf_read_model(model, kinds, tokenizer), "\"model\""));
  TRY(status_while(hf_read_normalizer(field_or_null(root, "normalizer"), &tokenizer->normalize),
                   "\"normalizer\""));
  TRY(status_while(hf_read_pre_tokenizer(field_or_null(root, "pre_tokenizer"),
                                         tokenizer->byte_level, &tokenizer->split),
                   "\"pre_tokenizer\""));
  TRY(status_while(hf_read_post_processor(field_or_null(root, "post_processor"), tokenizer),
                   "\"post_processor\""));
  TRY(hf_read_shown(tokenizer));
  return status_while(
      hf_read_decoder(field_or_null(root, "decoder"), tokenizer, &tokenizer->decode),
      "\"decoder\"");
}

/* Ignores "truncation" and "padding", which are the caller's concern. */
static clave_status read_json(clave_tokenizer *tokenizer, span file,
                              const clave_tokenizer_options *options) {
  json *root;
  (void)options;
  tokenizer->match_special = true;
  TRY(json_parse(file.data, file.size, &root));
  clave_status st = read_root(root, tokenizer);
  json_free(root);
  return st;
}

const tokenizer_format tokenizer_json_format = {"tokenizer.json", recognises_json, read_json};
