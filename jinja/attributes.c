/* x.name, x[key], x[a:b:c], with the rules of Jinja2's immutable sandbox: attributes are methods,
 * and failed lookups are undefined. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/render.h"

/* ---------------------------------------------------------------- loop */

static const char *const loop_names[] = {"index",  "index0",   "first",     "last",
                                         "length", "revindex", "revindex0", "depth",
                                         "depth0", "previtem", "nextitem"};
enum {
  LOOP_INDEX,
  LOOP_INDEX0,
  LOOP_FIRST,
  LOOP_LAST,
  LOOP_LENGTH,
  LOOP_REVINDEX,
  LOOP_REVINDEX0,
  LOOP_DEPTH,
  LOOP_DEPTH0,
  LOOP_PREVITEM,
  LOOP_NEXTITEM
};

int find_loop_name(const string *name) {
  for (size_t i = 0; i < sizeof loop_names / sizeof *loop_names; i++) {
    if (string_is(name, loop_names[i])) return (int)i;
  }
  return -1;
}

value get_loop(const loop_state *state, int number) {
  int64_t at = (int64_t)state->at, n = (int64_t)state->items.count;
  switch (number) {
    case LOOP_INDEX:
      return value_int(at + 1);
    case LOOP_INDEX0:
      return value_int(at);
    case LOOP_FIRST:
      return value_bool(at == 0);
    case LOOP_LAST:
      return value_bool(at + 1 == n);
    case LOOP_LENGTH:
      return value_int(n);
    case LOOP_REVINDEX:
      return value_int(n - at);
    case LOOP_REVINDEX0:
      return value_int(n - at - 1);
    case LOOP_DEPTH:
      return value_int(state->depth);
    case LOOP_DEPTH0:
      return value_int(state->depth - 1);
    case LOOP_PREVITEM:
      return at > 0 ? state->items.items[at - 1] : value_undefined("there is no previous item");
    case LOOP_NEXTITEM:
      return at + 1 < n ? state->items.items[at + 1] : value_undefined("there is no next item");
    default:
      return value_undefined(NULL);
  }
}

/* ---------------------------------------------------------------- attributes */

static clave_status bind_method(render *render, value object, int index, value *out) {
  method *own_method;
  TRY(arena_alloc(&render->arena, 1, sizeof *own_method, &own_method));
  *own_method = (method){object, method_name(index), index};
  *out = (value){VALUE_METHOD, {.method = own_method}};
  return NULL;
}

/* Returns attributes of macros, as in Jinja2. */
static clave_status get_of_macro(render *render, const macro *macro, const string *name,
                                 value *out) {
  const node *op_node = macro->node;
  value value;
  if (string_is(name, "name")) return make_text(&render->arena, op_node->name, out);
  if (string_is(name, "catch_kwargs")) *out = value_bool(op_node->kwargs != SLOT_NONE);
  if (string_is(name, "catch_varargs")) *out = value_bool(op_node->varargs != SLOT_NONE);
  if (string_is(name, "caller")) *out = value_bool(op_node->caller != SLOT_NONE);
  if (string_is(name, "explicit_caller"))
    return UNSUPPORTED("the attribute 'explicit_caller' of a macro is not supported");
  if (!string_is(name, "arguments")) return NULL;
  TRY(make_list(&render->arena, VALUE_TUPLE, 0, out));
  for (const node *p = op_node->a; p; p = p->next) {
    TRY(make_text(&render->arena, p->name, &value));
    TRY(list_add(&render->arena, out->u.list, value));
  }
  return NULL;
}

/* Looks up an attribute. Sets *found if the object has the attribute, even if the sandbox makes it
 * undefined. */
static clave_status own_attribute(render *render, value object, const string *name, value *out,
                                  bool *found) {
  *found = true;
  *out = value_undefined(NULL);
  if (object.kind == VALUE_LOOP) *out = get_loop(object.u.loop, find_loop_name(name));
  if (out->kind != VALUE_UNDEFINED) return NULL;
  if (object.kind == VALUE_MACRO) TRY(get_of_macro(render, object.u.macro, name, out));
  if (out->kind != VALUE_UNDEFINED) return NULL;
  if (object.kind == VALUE_FUNCTION && name->size && *name->data != '_')
    return UNSUPPORTED("attributes of functions are not supported");
  if (object.kind == VALUE_NAMESPACE) {
    const value *value = dict_find_text(object.u.dict, name);
    if (value) *out = *value;
    *found = value != NULL;
    return NULL;
  }
  int index = find_method((value_kind)object.kind, name);
  if (index >= 0) return bind_method(render, object, index, out);
  if (index == -2)
    return UNSUPPORTED("the attribute '%.*s' of '%s' is not supported", (int)name->size, name->data,
                       value_type(object));
  *found = index == -3;
  return NULL;
}

static value missing(render *render, const string *name) {
  char *copy;
  clave_status st = arena_alloc(&render->arena, name->size + 1, 1, &copy);
  if (st) {
    status_free(st);
    return value_undefined("an attribute");
  }
  memcpy(copy, name->data, name->size);
  return value_undefined(copy);
}

static const value *attributes_find_key(value object, const string *key) {
  return object.kind == VALUE_DICT ? dict_find_text(object.u.dict, key) : NULL;
}

clave_status get_attribute(render *render, value object, const string *name, value *out) {
  bool found;
  TRY(own_attribute(render, object, name, out, &found));
  if (out->kind != VALUE_UNDEFINED) return NULL;
  const value *item = found ? NULL : attributes_find_key(object, name);
  *out = item ? *item : found && object.kind == VALUE_NAMESPACE ? *out : missing(render, name);
  return NULL;
}

/* ---------------------------------------------------------------- items */

static bool whole_key(value key, int64_t *out) {
  if (key.kind != VALUE_INT && key.kind != VALUE_BOOL) return false;
  *out = key.kind == VALUE_INT ? key.u.integer : (int64_t)key.u.truth;
  return true;
}

static clave_status nth_character(render *render, const string *string, int64_t i, value *out) {
  int64_t n = (int64_t)string_length(string);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return NULL;
  TRY(arena_charge(&render->arena, string->size / 64));
  size_t at = string_at(string, (size_t)i), next = at + 1;
  while (next < string->size && ((unsigned char)string->data[next] & 0xC0) == 0x80) next++;
  return make_part(&render->arena, string, at, next - at, out);
}

static clave_status nth_item(render *render, value object, int64_t i, value *out) {
  if (object.kind == VALUE_STRING) return nth_character(render, object.u.text, i, out);
  bool is_range = object.kind == VALUE_RANGE;
  if (!is_range && object.kind != VALUE_LIST && object.kind != VALUE_TUPLE) return NULL;
  int64_t n = is_range ? (int64_t)object.u.range->count : (int64_t)object.u.list->count;
  if (i < 0) i += n;
  if (i < 0 || i >= n) return NULL;
  *out = is_range ? value_int(object.u.range->start + i * object.u.range->step)
                  : object.u.list->items[i];
  return NULL;
}

static clave_status refuse_escaped(value value) {
  if (value.kind != VALUE_STRING || !value.u.text->escaped) return NULL;
  return UNSUPPORTED("parts of escaped text are not supported");
}

clave_status get_item(render *render, value object, value key, value *out) {
  int64_t i;
  bool found;
  *out = value_undefined(NULL);
  TRY(refuse_escaped(object));
  if (object.kind == VALUE_DICT) {
    value *item = NULL;
    if (key.kind == VALUE_STRING) {
      item = dict_find_text(object.u.dict, key.u.text);
    } else {
      status_free(dict_find(object.u.dict, key, &item)); /* unhashable keys count as absent */
    }
    if (item) {
      *out = *item;
      return NULL;
    }
  } else if (whole_key(key, &i)) {
    TRY(nth_item(render, object, i, out));
  }
  if (out->kind == VALUE_UNDEFINED && !out->u.name && key.kind == VALUE_STRING) {
    TRY(own_attribute(render, object, key.u.text, out, &found));
    if (out->kind == VALUE_UNDEFINED && !out->u.name) *out = missing(render, key.u.text);
  }
  if (out->kind == VALUE_UNDEFINED && !out->u.name) *out = value_undefined("an item");
  return NULL;
}

/* Looks up the components between dots one after the other; those of digits are numbers. */
clave_status get_path(render *render, value object, value path, value *out) {
  *out = object;
  if (path.kind == VALUE_INT) return get_item(render, object, path, out);
  if (path.kind != VALUE_STRING)
    return INVALID("attribute: expected a str or an int, got '%s'", value_type(path));
  const string *string = path.u.text;
  for (size_t at = 0; at <= string->size;) {
    const char *dot = memchr(string->data + at, '.', string->size - at);
    size_t n = dot ? (size_t)(dot - string->data) - at : string->size - at;
    value key;
    TRY(make_string(&render->arena, string->data + at, n, &key));
    bool digits = n > 0 && n < 18 && strspn(key.u.text->data, "0123456789") == n;
    if (digits) key = value_int(strtoll(key.u.text->data, NULL, 10));
    TRY(refuse_undefined(*out));
    TRY(get_item(render, *out, key, out));
    at += n + 1;
  }
  return NULL;
}

/* ---------------------------------------------------------------- slices */

static clave_status slice_bound(value value, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  return value.kind == VALUE_NONE ? NULL : want_integer(value, out);
}

static int64_t clamp(int64_t i, int64_t n, int64_t least, int64_t most) {
  if (i < 0) i = i < -n ? least : i + n;
  return i < least ? least : i > most ? most : i;
}

/* Computes Python's slice.indices: the first index, the end, the step and the number of items. */
static clave_status slice_indices(const value bounds[3], int64_t n, int64_t *start, int64_t *end,
                                  int64_t *step, int64_t *count) {
  int64_t stop;
  TRY(slice_bound(bounds[2], 1, step));
  if (*step == 0) return INVALID("slice step cannot be zero");
  if (*step < -INT64_MAX) *step = -INT64_MAX;
  int64_t least = *step < 0 ? -1 : 0, most = *step < 0 ? n - 1 : n;
  TRY(slice_bound(bounds[0], *step < 0 ? INT64_MAX : 0, start));
  TRY(slice_bound(bounds[1], *step < 0 ? INT64_MIN : INT64_MAX, &stop));
  *start = clamp(*start, n, least, most);
  *end = stop = clamp(stop, n, least, most);
  int64_t distance = *step < 0 ? *start - stop : stop - *start;
  uint64_t size = *step < 0 ? 0 - (uint64_t)*step : (uint64_t)*step;
  *count = distance > 0 ? (int64_t)(((uint64_t)distance - 1) / size) + 1 : 0;
  return NULL;
}

static clave_status slice_string(render *render, const string *string, const value bounds[3],
                                 value *out) {
  int64_t start, stop, step, count;
  builder builder = {0};
  TRY(arena_charge(&render->arena, string->size / 16));
  TRY(slice_indices(bounds, (int64_t)string_length(string), &start, &stop, &step, &count));
  if (count == 0) return make_text(&render->arena, "", out);
  if (step == 1) {
    size_t from = string_at(string, (size_t)start), to = string_at(string, (size_t)(start + count));
    return make_part(&render->arena, string, from, to - from, out);
  }
  list characters;
  TRY(value_items(&render->arena, value_string(string), &characters));
  for (int64_t i = 0; i < count; i++)
    builder_add(&builder, characters.items[start + i * step].u.text);
  return builder_string(&render->arena, &builder, out);
}

static clave_status slice_list(render *render, value object, const value bounds[3], value *out) {
  int64_t start, stop, step, count;
  TRY(slice_indices(bounds, (int64_t)object.u.list->count, &start, &stop, &step, &count));
  TRY(make_list(&render->arena, (value_kind)object.kind, (size_t)count, out));
  for (int64_t i = 0; i < count; i++)
    TRY(list_add(&render->arena, out->u.list, object.u.list->items[start + i * step]));
  return NULL;
}

static clave_status slice_range(render *render, const range_value *object, const value bounds[3],
                                value *out) {
  int64_t start, stop, step, count;
  TRY(slice_indices(bounds, (int64_t)object->count, &start, &stop, &step, &count));
  range_value *range;
  TRY(arena_alloc(&render->arena, 1, sizeof *range, &range));
  *range = (range_value){object->start + start * object->step, object->start + stop * object->step,
                         object->step * step, (uint64_t)count};
  *out = (value){VALUE_RANGE, {.range = range}};
  return NULL;
}

clave_status get_slice(render *render, value object, const value bounds[3], value *out) {
  TRY(refuse_escaped(object));
  if (object.kind == VALUE_STRING) return slice_string(render, object.u.text, bounds, out);
  if (object.kind == VALUE_LIST || object.kind == VALUE_TUPLE)
    return slice_list(render, object, bounds, out);
  if (object.kind == VALUE_RANGE) return slice_range(render, object.u.range, bounds, out);
  return INVALID("'%s' object is not subscriptable", value_type(object));
}
