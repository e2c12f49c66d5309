/* Parts of a tokenizer.json. */
#include <string.h>

#include "import/gguf/vocabulary.h"

void tokenizer_json_added(json_writer *out, const vocabulary *vocabulary, int64_t id, bool strips) {
  const span token = vocabulary->tokens[id];
  emit_object(out, NULL);
  emit_integer(out, "id", id);
  emit_text(out, "content", token.data, token.size);
  emit_bool(out, "special", vocabulary->types[id] == TOKEN_CONTROL);
  emit_bool(out, "single_word", false);
  emit_bool(out, "lstrip", false);
  emit_bool(out, "rstrip", strips);
  emit_bool(out, "normalized", false);
  emit_end_object(out);
}

static void put_special(json_writer *out, const char *token) {
  emit_object(out, NULL);
  emit_object(out, "SpecialToken");
  emit_string(out, "id", token);
  emit_integer(out, "type_id", 0);
  emit_end_object(out);
  emit_end_object(out);
}

static void put_sequence(json_writer *out, const char *name, int64_t type) {
  emit_object(out, NULL);
  emit_object(out, "Sequence");
  emit_string(out, "id", name);
  emit_integer(out, "type_id", type);
  emit_end_object(out);
  emit_end_object(out);
}

void tokenizer_json_frame(json_writer *out, const vocabulary *vocabulary, int64_t bos,
                          void (*otherwise)(json_writer *out, const char *key)) {
  const char *key = "post_processor";
  if (bos < 0) {
    otherwise(out, key);
    return;
  }
  const char *token = vocabulary->tokens[bos].data;
  emit_object(out, key);
  emit_string(out, "type", "TemplateProcessing");
  emit_array(out, "single");
  put_special(out, token);
  put_sequence(out, "A", 0);
  emit_end_array(out);
  emit_array(out, "pair");
  put_special(out, token);
  put_sequence(out, "A", 0);
  put_sequence(out, "B", 1);
  emit_end_array(out);
  emit_object(out, "special_tokens");
  emit_object(out, token);
  emit_string(out, "id", token);
  emit_array(out, "ids");
  emit_integer(out, NULL, bos);
  emit_end_array(out);
  emit_array(out, "tokens");
  emit_string(out, NULL, token);
  emit_end_array(out);
  emit_end_object(out);
  emit_end_object(out);
  emit_end_object(out);
}

void tokenizer_json_vocabulary(json_writer *out, const vocabulary *vocabulary) {
  emit_object(out, "vocab");
  for (int64_t i = 0; i < vocabulary->count; i++) emit_integer(out, vocabulary->tokens[i].data, i);
  emit_end_object(out);
}
