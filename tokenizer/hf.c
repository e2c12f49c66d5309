/* Helpers shared by the readers of tokenizer.json. */
#include "tokenizer/hf.h"

#include <string.h>

bool hf_is(const json *section, const char *type) {
  const json *named = section ? field_or_null(section, "type") : NULL;
  return named && json_kind_of(named) == JSON_STRING && strcmp(json_string(named), type) == 0;
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

clave_status hf_read_pattern(const json *section, hf_pattern *out) {
  const json *described, *source;
  TRY(field(section, "pattern", JSON_OBJECT, &described));
  source = json_member(described, "String");
  out->is_literal = source != NULL;
  if (!source) source = json_member(described, "Regex");
  if (!source) return INVALID("\"pattern\" has neither \"String\" nor \"Regex\"");
  TRY(status_while(json_expect(source, JSON_STRING), "\"pattern\""));
  out->source = json_text(source);
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
