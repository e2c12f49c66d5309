/* The caller's inputs: converts JSON to values. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "jinja/render.h"
#include "json/json.h"

enum { NESTED = JSON_MAX_DEPTH + 1 };

typedef struct reader {
  arena *arena;
  span source;
  jinja_origin origin;
  value root;
  value open[NESTED]; /* lists and dicts that are still open */
  value key[NESTED];
  size_t depth;
} reader;

static clave_status place_value(reader *reader, value result) {
  if (reader->depth == 0) {
    reader->root = result;
    return NULL;
  }
  value in = reader->open[reader->depth - 1];
  if (in.kind == VALUE_LIST) return list_add(reader->arena, in.u.list, result);
  value key = reader->key[reader->depth - 1];
  bool added;
  TRY(dict_add(reader->arena, in.u.dict, key, result, &added));
  if (added) return NULL;
  int shown = key.u.text->size < 200 ? (int)key.u.text->size : 200;
  return INVALID("key \"%.*s\" appears twice in an object", shown, key.u.text->data);
}

/* True for names that templates print within special tokens, as in <|user|>. */
static bool is_role(const string *string) {
  static const char *const roles[] = {"system",   "user",  "assistant", "tool",       "developer",
                                      "function", "model", "ipython",   "environment"};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
    if (string_is(string, roles[i])) return true;
  }
  return false;
}

static clave_status jinja_inputs_read_text(reader *reader, span span, bool is_key, value *out) {
  bool member = !is_key && reader->depth == 2 && reader->open[1].kind == VALUE_DICT;
  const string role_text = {.data = span.data, .size = span.size};
  bool role = reader->origin == JINJA_MESSAGES && member &&
              string_is(reader->key[1].u.text, "role") && is_role(&role_text);
  bool untrusted = reader->origin != JINJA_TRUSTED && !role;
  uintptr_t at = (uintptr_t)span.data, first = (uintptr_t)reader->source.data;
  return at >= first && at - first < reader->source.size /* no escapes: part of the source */
             ? make_borrowed(reader->arena, span.data, span.size, untrusted, out)
             : make_copy(reader->arena, span.data, span.size, untrusted, out);
}

static clave_status jinja_inputs_read_number(span span, value *out) {
  char digits[JSON_MAX_NUMBER + 1];
  memcpy(digits, span.data, span.size);
  digits[span.size] = '\0';
  errno = 0;
  *out = strpbrk(digits, ".eE") ? value_float(number_read(digits, NULL))
                                : value_int(strtoll(digits, NULL, 10));
  if (out->kind == VALUE_INT && errno)
    return INVALID("an integer of more than 64 bits: %s", digits);
  return NULL;
}

static clave_status jinja_inputs_open_value(reader *reader, bool is_object) {
  value value;
  TRY(is_object ? make_dict(reader->arena, VALUE_DICT, &value)
                : make_list(reader->arena, VALUE_LIST, 0, &value));
  TRY(place_value(reader, value));
  reader->open[reader->depth++] = value;
  return NULL;
}

static clave_status jinja_inputs_receive_event(void *ctx, json_event event, span span) {
  reader *reader = ctx;
  value value = value_none();
  switch (event) {
    case JSON_EVENT_OBJECT:
    case JSON_EVENT_ARRAY:
      return jinja_inputs_open_value(reader, event == JSON_EVENT_OBJECT);
    case JSON_EVENT_END:
      reader->depth--;
      return NULL;
    case JSON_EVENT_KEY:
      return jinja_inputs_read_text(reader, span, true, &reader->key[reader->depth - 1]);
    case JSON_EVENT_STRING:
      TRY(jinja_inputs_read_text(reader, span, false, &value));
      break;
    case JSON_EVENT_NUMBER:
      TRY(jinja_inputs_read_number(span, &value));
      break;
    case JSON_EVENT_WORD:
      if (*span.data != 'n') value = value_bool(*span.data == 't');
      break;
  }
  return place_value(reader, value);
}

static clave_status jinja_inputs_read_input(render *render, const jinja_input *in, value *out) {
  reader own; /* most members are initialized later, where they are read */
  own.arena = &render->arena;
  own.source = (span){in->value, in->size};
  own.origin = in->origin;
  own.depth = 0;
  if (in->is_text) return make_borrowed(&render->arena, in->value, in->size, false, out);
  TRY(status_while(json_walk(in->value, in->size, 0, jinja_inputs_receive_event, &own), "%s",
                   in->name ? in->name : "arguments"));
  *out = own.root;
  if (!in->name && out->kind != VALUE_DICT)
    return INVALID("arguments: expected a JSON object, got '%s'", value_type(*out));
  return NULL;
}

clave_status read_inputs(render *render) {
  const jinja_options *options = render->options;
  TRY(arena_alloc(&render->arena, options->n_inputs, sizeof *render->inputs, &render->inputs));
  for (size_t i = 0; i < options->n_inputs; i++)
    TRY(jinja_inputs_read_input(render, &options->inputs[i], &render->inputs[i]));
  return NULL;
}
