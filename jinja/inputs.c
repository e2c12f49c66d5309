/* What the caller gives, from JSON to values. */
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
  value open[NESTED]; /* lists and dicts that are not closed yet */
  value key[NESTED];
  size_t depth;
} reader;

static clave_status place_value(reader *r, value v) {
  if (r->depth == 0) {
    r->root = v;
    return NULL;
  }
  value in = r->open[r->depth - 1];
  if (in.kind == VALUE_LIST) return list_add(r->arena, in.u.list, v);
  value key = r->key[r->depth - 1];
  bool added;
  TRY(dict_add(r->arena, in.u.dict, key, v, &added));
  if (added) return NULL;
  int shown = key.u.text->size < 200 ? (int)key.u.text->size : 200;
  return INVALID("key \"%.*s\" twice in an object", shown, key.u.text->data);
}

/* Names that templates print within tokens of their own: <|user|>. */
static bool is_role(const string *s) {
  static const char *const roles[] = {"system",   "user",  "assistant", "tool",       "developer",
                                      "function", "model", "ipython",   "environment"};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
    if (string_is(s, roles[i])) return true;
  }
  return false;
}

static clave_status read_text(reader *r, span s, bool is_key, value *out) {
  bool member = !is_key && r->depth == 2 && r->open[1].kind == VALUE_DICT;
  const string said = {.data = s.data, .size = s.size};
  bool role = r->origin == JINJA_MESSAGES && member && string_is(r->key[1].u.text, "role") &&
              is_role(&said);
  bool written = r->origin != JINJA_TRUSTED && !role;
  uintptr_t at = (uintptr_t)s.data, first = (uintptr_t)r->source.data;
  return at >= first && at - first < r->source.size /* it has no escapes */
             ? make_borrowed(r->arena, s.data, s.size, written, out)
             : make_written(r->arena, s.data, s.size, written, out);
}

static clave_status read_number(span s, value *out) {
  char digits[JSON_MAX_NUMBER + 1];
  memcpy(digits, s.data, s.size);
  digits[s.size] = '\0';
  errno = 0;
  *out = strpbrk(digits, ".eE") ? value_float(number_read(digits, NULL))
                                : value_int(strtoll(digits, NULL, 10));
  if (out->kind == VALUE_INT && errno)
    return INVALID("an integer of more than 64 bits: %s", digits);
  return NULL;
}

static clave_status open_value(reader *r, bool is_object) {
  value v;
  TRY(is_object ? make_dict(r->arena, VALUE_DICT, &v) : make_list(r->arena, VALUE_LIST, 0, &v));
  TRY(place_value(r, v));
  r->open[r->depth++] = v;
  return NULL;
}

static clave_status take_event(void *ctx, json_event event, span s) {
  reader *r = ctx;
  value v = value_none();
  switch (event) {
    case JSON_EVENT_OBJECT:
    case JSON_EVENT_ARRAY:
      return open_value(r, event == JSON_EVENT_OBJECT);
    case JSON_EVENT_END:
      r->depth--;
      return NULL;
    case JSON_EVENT_KEY:
      return read_text(r, s, true, &r->key[r->depth - 1]);
    case JSON_EVENT_STRING:
      TRY(read_text(r, s, false, &v));
      break;
    case JSON_EVENT_NUMBER:
      TRY(read_number(s, &v));
      break;
    case JSON_EVENT_WORD:
      if (*s.data != 'n') v = value_bool(*s.data == 't');
      break;
  }
  return place_value(r, v);
}

static clave_status read_input(render *r, const jinja_input *in, value *out) {
  reader own; /* most of it is set where it is read */
  own.arena = &r->arena;
  own.source = (span){in->value, in->size};
  own.origin = in->origin;
  own.depth = 0;
  if (in->is_text) return make_borrowed(&r->arena, in->value, in->size, false, out);
  TRY(status_while(json_walk(in->value, in->size, 0, take_event, &own), "%s",
                   in->name ? in->name : "arguments"));
  *out = own.root;
  if (!in->name && out->kind != VALUE_DICT)
    return INVALID("arguments: expected a JSON object, got '%s'", value_type(*out));
  return NULL;
}

clave_status read_inputs(render *r) {
  const jinja_options *o = r->options;
  TRY(arena_alloc(&r->arena, o->n_inputs, sizeof *r->inputs, &r->inputs));
  for (size_t i = 0; i < o->n_inputs; i++) TRY(read_input(r, &o->inputs[i], &r->inputs[i]));
  return NULL;
}
