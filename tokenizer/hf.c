/* Helpers shared by the readers of tokenizer.json. */
#include "tokenizer/hf.h"

#include <string.h>

bool hf_is(const json *value, const char *type) {
  const json *json = value ? field_or_null(value, "type") : NULL;
  return json && json_kind_of(json) == JSON_STRING && strcmp(json_string(json), type) == 0;
}

clave_status hf_find(const json *json, const void *table, size_t stride, size_t n, size_t *index) {
  span type;
  TRY(json_expect(json, JSON_OBJECT));
  TRY(field_text(json, "type", NULL, &type));
  for (size_t i = 0; i < n; i++) {
    const char *name;
    memcpy(&name, (const char *)table + i * stride, sizeof name);
    *index = i;
    if (strcmp(name, type.data) == 0) return NULL;
  }
  return UNSUPPORTED("the type \"%.60s\" is not supported", type.data);
}

clave_status hf_read_pattern(const json *value, hf_pattern *out) {
  const json *json, *s;
  TRY(field(value, "pattern", JSON_OBJECT, &json));
  s = json_member(json, "String");
  out->is_literal = s != NULL;
  if (!s) s = json_member(json, "Regex");
  if (!s) return INVALID("\"pattern\" has neither \"String\" nor \"Regex\"");
  TRY(status_while(json_expect(s, JSON_STRING), "\"pattern\""));
  out->source = json_text(s);
  if (out->is_literal && out->source.size == 0) {
    return UNSUPPORTED("an empty \"pattern\" is not supported");
  }
  return NULL;
}

void hf_replace_text(span in, span what, span with, text *out) {
  for (size_t at = 0;;) {
    const char *hit =
        what.size > 0 ? memmem(in.data + at, in.size - at, what.data, what.size) : NULL;
    size_t end = hit ? (size_t)(hit - in.data) : in.size;
    text_append(out, in.data + at, end - at);
    if (!hit) return;
    text_append(out, with.data, with.size);
    at = end + what.size;
  }
}
