/* The global functions. */
#include <string.h>

#include "jinja/render.h"

/* ---------------------------------------------------------------- dict, namespace */

static clave_status add_pairs(render *render, value from, dict *to) {
  list items, pair;
  if (from.kind == VALUE_DICT) {
    for (size_t i = 0; i < from.u.dict->count; i++)
      TRY(dict_set(&render->arena, to, from.u.dict->entries[i].key, from.u.dict->entries[i].value));
    return NULL;
  }
  TRY(refuse_undefined(from));
  TRY(value_items(&render->arena, from, &items));
  for (size_t i = 0; i < items.count; i++) {
    TRY(value_items(&render->arena, items.items[i], &pair));
    if (pair.count != 2)
      return INVALID("item %zu of a dict: expected 2 parts, got %zu", i, pair.count);
    TRY(dict_set(&render->arena, to, pair.items[0], pair.items[1]));
  }
  return NULL;
}

static clave_status fill_dict(render *render, value_kind kind, const call_args *args, value *out) {
  TRY(make_dict(&render->arena, kind, out));
  if (args->count > 1) return INVALID("dict accepts at most 1 argument, got %zu", args->count);
  if (args->count) TRY(add_pairs(render, args->items[0], out->u.dict));
  for (size_t i = 0; i < args->n_named; i++) {
    value key;
    TRY(make_text(&render->arena, args->named[i].name, &key));
    TRY(dict_set(&render->arena, out->u.dict, key, args->named[i].v));
  }
  return NULL;
}

static clave_status call_dict(render *render, const call_args *args, value *out) {
  return fill_dict(render, VALUE_DICT, args, out);
}

static clave_status call_namespace(render *render, const call_args *args, value *out) {
  TRY(fill_dict(render, VALUE_NAMESPACE, args, out));
  for (size_t i = 0; i < out->u.dict->count; i++) {
    value key = out->u.dict->entries[i].key;
    if (key.kind == VALUE_STRING && key.u.text->size && *key.u.text->data == '_')
      return INVALID("a namespace has no attribute that begins with _");
  }
  return NULL;
}

/* ---------------------------------------------------------------- range */

static clave_status call_range(render *render, const call_args *args, value *out) {
  enum { MAX_RANGE = 100000 };
  int64_t v[3] = {0, 0, 1};
  if (args->n_named || args->count < 1 || args->count > 3)
    return INVALID("range accepts 1 to 3 arguments");
  for (size_t i = 0; i < args->count; i++) {
    TRY(refuse_undefined(args->items[i]));
    TRY(want_integer(args->items[i], &v[args->count == 1 ? 1 : i]));
  }
  if (v[2] == 0) return INVALID("the step of range must not be zero");
  TRY(make_range(&render->arena, v[0], v[1], v[2], out));
  if (out->u.range->count > MAX_RANGE)
    return INVALID("the range has more than %d numbers", MAX_RANGE);
  return NULL;
}

/* ---------------------------------------------------------------- transformers' extensions */

/* Raises an error that consists of the message alone, as Python would print it. */
static clave_status call_raise(render *render, const call_args *args, value *out) {
  static const signature one = {{"message"}, 1};
  bound bound;
  value message;
  TRY(bind_args("raise_exception", &one, args, &bound));
  TRY(make_str(&render->arena, bound.v[0], &message));
  (void)out;
  render->has_position = true;
  const string *string = message.u.text;
  return INVALID("%.*s", (int)(string->size < 10000 ? string->size : 10000), string->data);
}

static clave_status call_strftime(render *render, const call_args *args, value *out) {
  static const signature one = {{"format"}, 1};
  bound bound;
  const string *format;
  TRY(bind_args("strftime_now", &one, args, &bound));
  TRY(want_string(bound.v[0], &format));
  return format_date(render, format, out);
}

/* ---------------------------------------------------------------- table */

static const struct {
  const char *name;
  clave_status (*call)(render *render, const call_args *args, value *out); /* NULL: unsupported */
} functions[] = {{"raise_exception", call_raise},
                 {"strftime_now", call_strftime},
                 {"namespace", call_namespace},
                 {"range", call_range},
                 {"dict", call_dict},
                 {"lipsum", NULL},
                 {"cycler", NULL},
                 {"joiner", NULL},
                 {"self", NULL}}; /* the template itself, whose only attributes are its blocks */

bool find_global(const char *name, value *out) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (*functions[i].name != *name || strcmp(functions[i].name, name) != 0) continue;
    *out = (value){VALUE_FUNCTION, {.function = (int)i}};
    return true;
  }
  return false;
}

bool is_template_itself(value value) {
  return value.kind == VALUE_FUNCTION && strcmp(functions[value.u.function].name, "self") == 0;
}

clave_status call_function(render *render, int index, const call_args *args, value *out) {
  if (!functions[index].call)
    return UNSUPPORTED("the function '%s' is not supported", functions[index].name);
  return functions[index].call(render, args, out);
}
