/* Filters on sequences. */
#include <stdlib.h>
#include <string.h>

#include "jinja/render.h"

static clave_status make_iterator(render *render, const list *items, value *out) {
  iterator *it;
  TRY(arena_alloc(&render->arena, 1, sizeof *it, &it));
  *it = (iterator){.items = *items};
  *out = (value){VALUE_ITERATOR, {.iterator = it}};
  return NULL;
}

/* Makes an iterator whose error is raised when it is read, as in Python. Takes ownership of `st`.
 */
static clave_status make_failing(render *render, const list *items, clave_status st, value *out) {
  value message;
  if (st && status_code_of(st) != STATUS_INVALID) return st;
  clave_status made = make_iterator(render, items, out);
  if (!made && st)
    made = make_string(&render->arena, status_message(st), strlen(status_message(st)), &message);
  if (!made && st) out->u.iterator->error = message.u.text->data;
  status_free(st);
  return made;
}

static value or_none(const bound *bound, size_t i) {
  return bound->given[i] ? bound->v[i] : value_none();
}
static bool sequences_is_true(const bound *bound, size_t i) {
  return bound->given[i] && value_truth(bound->v[i]);
}

/* Stores the name of a filter or test from an argument, NUL-terminated. */
static clave_status sequences_name_of(render *render, value result, const char **out) {
  const string *string;
  value copy;
  TRY(want_string(result, &string));
  TRY(make_string(&render->arena, string->data, string->size, &copy));
  *out = copy.u.text->data;
  return NULL;
}

/* ---------------------------------------------------------------- map, select */

static clave_status map_attribute(render *render, const list *in, const call_args *args,
                                  list *out) {
  static const signature named = {{"attribute", "default"}, 1};
  bound bound;
  TRY(bind_args("map", &named, args, &bound));
  for (size_t i = 0; i < in->count; i++) {
    value value;
    clave_status st = get_path(render, in->items[i], bound.v[0], &value);
    if (st) return st;
    if (bound.given[1] && bound.v[1].kind != VALUE_NONE && value.kind == VALUE_UNDEFINED)
      value = bound.v[1];
    TRY(list_add(&render->arena, out, value));
  }
  return NULL;
}

static clave_status map_filter(render *render, const list *in, const call_args *args, list *out) {
  const char *name;
  if (args->count == 0) return INVALID("map requires a filter argument");
  TRY(sequences_name_of(render, args->items[0], &name));
  int index = filter_index(name);
  if (index == -2) return UNSUPPORTED("the filter '%s' is not supported", name);
  if (index < 0) return INVALID("unknown filter '%.100s'", name);
  call_args rest = *args;
  rest.items++;
  rest.count--;
  for (size_t i = 0; i < in->count; i++) {
    value value;
    TRY(call_filter(render, index, in->items[i], &rest, &value));
    TRY(list_add(&render->arena, out, value));
  }
  return NULL;
}

/* Sets *out to the items of a value; to none if the value is false, as in Jinja2. */
static clave_status items_if_true(render *render, value value, list *out) {
  *out = (list){0};
  return value_truth(value) ? value_items(&render->arena, value, out) : NULL;
}

clave_status filter_map(render *render, value values, const call_args *args, value *out) {
  list in, mapped = {0};
  TRY(items_if_true(render, values, &in));
  bool by_attribute = args->count == 0 && args->n_named &&
                      (strcmp(args->named[0].name, "attribute") == 0 || args->n_named == 2);
  clave_status st = by_attribute ? map_attribute(render, &in, args, &mapped)
                                 : map_filter(render, &in, args, &mapped);
  return make_failing(render, &mapped, st, out);
}

/* A condition on items. */
typedef struct condition {
  bool by_attribute; /* the item's attribute `path` is tested */
  value path;
  int test; /* index of a test; -1 tests for truth */
  call_args args;
  bool wanted;
} condition;

static clave_status choose_items(render *render, const condition *condition, const list *in,
                                 list *out) {
  for (size_t i = 0; i < in->count; i++) {
    value looked_at = in->items[i];
    if (condition->by_attribute) TRY(get_path(render, looked_at, condition->path, &looked_at));
    bool truth = value_truth(looked_at);
    if (condition->test >= 0)
      TRY(call_test(render, condition->test, looked_at, &condition->args, &truth));
    if (truth == condition->wanted) TRY(list_add(&render->arena, out, in->items[i]));
  }
  return NULL;
}

/* Keeps the items that pass a test or, if `wanted` is false, that fail it. by_attribute: the first
 * argument is the attribute to test; the next one names the test. */
static clave_status sequences_choose(render *render, value values, const call_args *args,
                                     bool by_attribute, bool wanted, value *out) {
  list in, chosen = {0};
  condition condition = {.by_attribute = by_attribute, .test = -1, .args = *args, .wanted = wanted};
  if (by_attribute && !args->count) return INVALID("the name of the attribute is missing");
  size_t skip = by_attribute;
  if (by_attribute) condition.path = args->items[0];
  if (args->count > skip) {
    const char *name;
    TRY(sequences_name_of(render, args->items[skip], &name));
    condition.test = test_index(name);
    if (condition.test < 0) return INVALID("unknown test '%.100s'", name);
    skip++;
  }
  condition.args.items += skip;
  condition.args.count -= skip;
  TRY(items_if_true(render, values, &in));
  return make_failing(render, &chosen, choose_items(render, &condition, &in, &chosen), out);
}

clave_status filter_select(render *render, value values, const call_args *args, value *out) {
  return sequences_choose(render, values, args, false, true, out);
}
clave_status filter_reject(render *render, value values, const call_args *args, value *out) {
  return sequences_choose(render, values, args, false, false, out);
}
clave_status filter_selectattr(render *render, value values, const call_args *args, value *out) {
  return sequences_choose(render, values, args, true, true, out);
}
clave_status filter_rejectattr(render *render, value values, const call_args *args, value *out) {
  return sequences_choose(render, values, args, true, false, out);
}

/* ---------------------------------------------------------------- order */

static clave_status lower_text(render *render, value subject, value *out) {
  *out = subject;
  return subject.kind == VALUE_STRING ? string_case(render, subject.u.text, CHANGE_LOWER, out)
                                      : NULL;
}

/* Computes the sort key of `item`. */
static clave_status sequences_key_of(render *render, value item, value path, bool case_sensitive,
                                     value *out) {
  *out = item;
  if (path.kind != VALUE_NONE) TRY(get_path(render, item, path, out));
  return case_sensitive ? NULL : lower_text(render, *out, out);
}

/* Computes a list of keys if there are several paths, separated by commas. */
static clave_status keys_of(render *render, value item, value paths, bool case_sensitive,
                            value *out) {
  value comma, split;
  TRY(make_text(&render->arena, ",", &comma));
  if (paths.kind != VALUE_STRING) return sequences_key_of(render, item, paths, case_sensitive, out);
  TRY(string_split(render, paths.u.text, comma.u.text, -1, false, &split));
  TRY(make_list(&render->arena, VALUE_LIST, split.u.list->count, out));
  for (size_t i = 0; i < split.u.list->count; i++) {
    value key;
    TRY(sequences_key_of(render, item, split.u.list->items[i], case_sensitive, &key));
    TRY(list_add(&render->arena, out->u.list, key));
  }
  return NULL;
}

static clave_status copy_items(render *render, value values, value *out) {
  list items;
  TRY(value_items(&render->arena, values, &items));
  TRY(make_list(&render->arena, VALUE_LIST, items.count, out));
  for (size_t i = 0; i < items.count; i++)
    TRY(list_add(&render->arena, out->u.list, items.items[i]));
  return NULL;
}

/* arguments: reverse, case_sensitive, attribute */
clave_status filter_sort(render *render, value values, const bound *bound, value *out) {
  list keys = {0};
  TRY(copy_items(render, values, out));
  for (size_t i = 0; i < out->u.list->count; i++) {
    value key;
    TRY(keys_of(render, out->u.list->items[i], or_none(bound, 2), sequences_is_true(bound, 1),
                &key));
    TRY(list_add(&render->arena, &keys, key));
  }
  return sort_values(&render->arena, out->u.list, &keys, sequences_is_true(bound, 0));
}

/* arguments: case_sensitive, attribute */
clave_status filter_unique(render *render, value values, const bound *bound, value *out) {
  list in, kept = {0};
  value seen;
  TRY(value_items(&render->arena, values, &in));
  TRY(make_dict(&render->arena, VALUE_DICT, &seen));
  for (size_t i = 0; i < in.count; i++) {
    value key, *found;
    TRY(sequences_key_of(render, in.items[i], or_none(bound, 1), sequences_is_true(bound, 0),
                         &key));
    TRY(dict_find(seen.u.dict, key, &found));
    if (found) continue;
    TRY(dict_set(&render->arena, seen.u.dict, key, value_none()));
    TRY(list_add(&render->arena, &kept, in.items[i]));
  }
  return make_iterator(render, &kept, out);
}

static clave_status extreme(render *render, value values, const bound *bound, int wanted_order,
                            value *out) {
  list in;
  value best;
  TRY(value_items(&render->arena, values, &in));
  *out = value_undefined("no aggregated item, the sequence is empty");
  for (size_t i = 0; i < in.count; i++) {
    value key;
    int order = wanted_order;
    TRY(sequences_key_of(render, in.items[i], or_none(bound, 1), sequences_is_true(bound, 0),
                         &key));
    if (i) TRY(value_order(&render->arena, key, best, wanted_order < 0 ? "<" : ">", &order));
    if (order != wanted_order) continue;
    best = key;
    *out = in.items[i];
  }
  return NULL;
}
clave_status filter_min(render *render, value values, const bound *bound, value *out) {
  return extreme(render, values, bound, -1, out);
}
clave_status filter_max(render *render, value values, const bound *bound, value *out) {
  return extreme(render, values, bound, 1, out);
}

/* arguments: attribute, start */
clave_status filter_sum(render *render, value values, const bound *bound, value *out) {
  list in;
  TRY(value_items(&render->arena, values, &in));
  *out = bound->given[1] ? bound->v[1] : value_int(0);
  if (out->kind == VALUE_STRING) return INVALID("sum() can't sum strings");
  for (size_t i = 0; i < in.count; i++) {
    value item;
    TRY(sequences_key_of(render, in.items[i], or_none(bound, 0), true, &item));
    TRY(arithmetic(render, OP_ADD, *out, item, out));
  }
  return NULL;
}

/* arguments: case_sensitive, by, reverse */
clave_status filter_dictsort(render *render, value values, const bound *bound, value *out) {
  list keys = {0};
  value by = or_none(bound, 1);
  bool by_value = by.kind == VALUE_STRING && string_is(by.u.text, "value");
  if (bound->given[1] && !by_value && (by.kind != VALUE_STRING || !string_is(by.u.text, "key")))
    return INVALID("dictsort: expected by='key' or by='value'");
  TRY(refuse_undefined(values));
  if (values.kind != VALUE_DICT) return INVALID("'%s' object has no items", value_type(values));
  TRY(make_list(&render->arena, VALUE_LIST, values.u.dict->count, out));
  for (size_t i = 0; i < values.u.dict->count; i++) {
    const dict_entry *entry = &values.u.dict->entries[i];
    value pair, key = by_value ? entry->value : entry->key;
    TRY(make_pair(&render->arena, entry->key, entry->value, &pair));
    TRY(list_add(&render->arena, out->u.list, pair));
    if (!sequences_is_true(bound, 0)) TRY(lower_text(render, key, &key));
    TRY(list_add(&render->arena, &keys, key));
  }
  return sort_values(&render->arena, out->u.list, &keys, sequences_is_true(bound, 2));
}

/* ---------------------------------------------------------------- other filters */

/* arguments: d, attribute */
clave_status filter_join(render *render, value values, const bound *bound, value *out) {
  list in, mapped = {0};
  value separator;
  TRY(make_text(&render->arena, "", &separator));
  if (bound->given[0]) TRY(make_str(&render->arena, bound->v[0], &separator));
  TRY(value_items(&render->arena, values, &in));
  value path = or_none(bound, 1);
  for (size_t i = 0; i < in.count && path.kind != VALUE_NONE; i++) {
    value item;
    TRY(get_path(render, in.items[i], path, &item));
    TRY(list_add(&render->arena, &mapped, item));
  }
  return string_join(render, separator.u.text, path.kind == VALUE_NONE ? &in : &mapped, true, out);
}

clave_status filter_first(render *render, value values, const bound *bound, value *out) {
  list in;
  iterator before = {0};
  (void)bound;
  if (values.kind == VALUE_ITERATOR) before = *values.u.iterator;
  if (before.at < before.items.count) {
    *out = before.items.items[values.u.iterator->at++];
    return NULL;
  }
  TRY(value_items(&render->arena, values, &in));
  if (values.kind == VALUE_ITERATOR) values.u.iterator->at = before.at + (in.count > 0);
  *out = in.count ? in.items[0] : value_undefined("no first item, the sequence is empty");
  return NULL;
}

clave_status filter_last(render *render, value values, const bound *bound, value *out) {
  list in;
  (void)bound;
  if (values.kind == VALUE_ITERATOR) return INVALID("'generator' object is not reversible");
  TRY(value_items(&render->arena, values, &in));
  *out = in.count ? in.items[in.count - 1] : value_undefined("no last item, the sequence is empty");
  return NULL;
}

clave_status filter_reverse(render *render, value values, const bound *bound, value *out) {
  list in, reversed = {0};
  (void)bound;
  TRY(value_items(&render->arena, values, &in));
  for (size_t i = in.count; i-- > 0;) TRY(list_add(&render->arena, &reversed, in.items[i]));
  if (values.kind == VALUE_STRING) {
    value none;
    TRY(make_text(&render->arena, "", &none));
    return string_join(render, none.u.text, &reversed, true, out);
  }
  if (values.kind != VALUE_ITERATOR) return make_iterator(render, &reversed, out);
  TRY(make_list(&render->arena, VALUE_LIST, 0, out));
  *out->u.list = reversed;
  return NULL;
}

clave_status filter_items(render *render, value subject, const bound *bound, value *out) {
  list pairs = {0};
  (void)bound;
  if (subject.kind != VALUE_DICT && subject.kind != VALUE_UNDEFINED)
    return INVALID("can only get item pairs from a mapping");
  if (subject.kind == VALUE_DICT)
    TRY(value_items(&render->arena,
                    (value){VALUE_VIEW, {.view = &(view){subject.u.dict, VIEW_ITEMS}}}, &pairs));
  return make_iterator(render, &pairs, out);
}

clave_status filter_list(render *render, value values, const bound *bound, value *out) {
  (void)bound;
  return copy_items(render, values, out);
}
