/* Filters of sequences. */
#include <stdlib.h>
#include <string.h>

#include "jinja/render.h"

static clave_status make_iterator(render *r, const list *items, value *out) {
  iterator *i;
  TRY(arena_alloc(&r->arena, 1, sizeof *i, &i));
  *i = (iterator){.items = *items};
  *out = (value){VALUE_ITERATOR, {.iterator = i}};
  return NULL;
}

/* Python's iterators fail when they are read: an error is kept until then. Takes `st`. */
static clave_status make_failing(render *r, const list *items, clave_status st, value *out) {
  value message;
  if (st && status_code_of(st) != STATUS_INVALID) return st;
  clave_status made = make_iterator(r, items, out);
  if (!made && st)
    made = make_string(&r->arena, status_message(st), strlen(status_message(st)), &message);
  if (!made && st) out->u.iterator->error = message.u.text->data;
  status_free(st);
  return made;
}

static value or_none(const bound *b, size_t i) { return b->given[i] ? b->v[i] : value_none(); }
static bool is_true(const bound *b, size_t i) { return b->given[i] && value_truth(b->v[i]); }

/* The name of a filter or test among arguments, which ends in NUL. */
static clave_status name_of(render *r, value v, const char **out) {
  const string *s;
  value copy;
  TRY(want_string(v, &s));
  TRY(make_string(&r->arena, s->data, s->size, &copy));
  *out = copy.u.text->data;
  return NULL;
}

/* ---------------------------------------------------------------- map, select */

static clave_status map_attribute(render *r, const list *in, const call_args *args, list *out) {
  static const signature named = {{"attribute", "default"}, 1};
  bound b;
  TRY(bind_args("map", &named, args, &b));
  for (size_t i = 0; i < in->count; i++) {
    value v;
    clave_status st = get_path(r, in->items[i], b.v[0], &v);
    if (st) return st;
    if (b.given[1] && b.v[1].kind != VALUE_NONE && v.kind == VALUE_UNDEFINED) v = b.v[1];
    TRY(list_add(&r->arena, out, v));
  }
  return NULL;
}

static clave_status map_filter(render *r, const list *in, const call_args *args, list *out) {
  const char *name;
  if (args->count == 0) return INVALID("map requires a filter argument");
  TRY(name_of(r, args->items[0], &name));
  int index = filter_index(name);
  if (index == -2) return UNSUPPORTED("the filter '%s' is not supported", name);
  if (index < 0) return INVALID("no filter '%.100s'", name);
  call_args rest = *args;
  rest.items++;
  rest.count--;
  for (size_t i = 0; i < in->count; i++) {
    value v;
    TRY(call_filter(r, index, in->items[i], &rest, &v));
    TRY(list_add(&r->arena, out, v));
  }
  return NULL;
}

/* As Jinja2, which does not iterate over what is false. */
static clave_status items_if_true(render *r, value v, list *out) {
  *out = (list){0};
  return value_truth(v) ? value_items(&r->arena, v, out) : NULL;
}

clave_status filter_map(render *r, value v, const call_args *args, value *out) {
  list in, mapped = {0};
  TRY(items_if_true(r, v, &in));
  bool by_attribute = args->count == 0 && args->n_named &&
                      (strcmp(args->named[0].name, "attribute") == 0 || args->n_named == 2);
  clave_status st =
      by_attribute ? map_attribute(r, &in, args, &mapped) : map_filter(r, &in, args, &mapped);
  return make_failing(r, &mapped, st, out);
}

/* What `choose` looks at in each item. */
typedef struct chooser {
  bool by_attribute; /* of the item the attribute `path` */
  value path;
  int test; /* -1: its truth */
  call_args args;
  bool wanted;
} chooser;

static clave_status choose_items(render *r, const chooser *c, const list *in, list *out) {
  for (size_t i = 0; i < in->count; i++) {
    value looked_at = in->items[i];
    if (c->by_attribute) TRY(get_path(r, looked_at, c->path, &looked_at));
    bool truth = value_truth(looked_at);
    if (c->test >= 0) TRY(call_test(r, c->test, looked_at, &c->args, &truth));
    if (truth == c->wanted) TRY(list_add(&r->arena, out, in->items[i]));
  }
  return NULL;
}

/* by_attribute: the first argument is of each item what is tested. The next is the test. */
static clave_status choose(render *r, value v, const call_args *args, bool by_attribute,
                           bool wanted, value *out) {
  list in, chosen = {0};
  chooser c = {.by_attribute = by_attribute, .test = -1, .args = *args, .wanted = wanted};
  if (by_attribute && !args->count) return INVALID("missing the attribute to look at");
  size_t skip = by_attribute;
  if (by_attribute) c.path = args->items[0];
  if (args->count > skip) {
    const char *name;
    TRY(name_of(r, args->items[skip], &name));
    c.test = test_index(name);
    if (c.test < 0) return INVALID("no test '%.100s'", name);
    skip++;
  }
  c.args.items += skip;
  c.args.count -= skip;
  TRY(items_if_true(r, v, &in));
  return make_failing(r, &chosen, choose_items(r, &c, &in, &chosen), out);
}

clave_status filter_select(render *r, value v, const call_args *args, value *out) {
  return choose(r, v, args, false, true, out);
}
clave_status filter_reject(render *r, value v, const call_args *args, value *out) {
  return choose(r, v, args, false, false, out);
}
clave_status filter_selectattr(render *r, value v, const call_args *args, value *out) {
  return choose(r, v, args, true, true, out);
}
clave_status filter_rejectattr(render *r, value v, const call_args *args, value *out) {
  return choose(r, v, args, true, false, out);
}

/* ---------------------------------------------------------------- order */

static clave_status lower_text(render *r, value v, value *out) {
  *out = v;
  return v.kind == VALUE_STRING ? string_case(r, v.u.text, CHANGE_LOWER, out) : NULL;
}

/* What `item` is compared by. */
static clave_status key_of(render *r, value item, value path, bool case_sensitive, value *out) {
  *out = item;
  if (path.kind != VALUE_NONE) TRY(get_path(r, item, path, out));
  return case_sensitive ? NULL : lower_text(r, *out, out);
}

/* Of several paths between commas a list of keys. */
static clave_status keys_of(render *r, value item, value paths, bool case_sensitive, value *out) {
  value comma, split;
  TRY(make_puts(&r->arena, ",", &comma));
  if (paths.kind != VALUE_STRING) return key_of(r, item, paths, case_sensitive, out);
  TRY(string_split(r, paths.u.text, comma.u.text, -1, false, &split));
  TRY(make_list(&r->arena, VALUE_LIST, split.u.list->count, out));
  for (size_t i = 0; i < split.u.list->count; i++) {
    value key;
    TRY(key_of(r, item, split.u.list->items[i], case_sensitive, &key));
    TRY(list_add(&r->arena, out->u.list, key));
  }
  return NULL;
}

static clave_status copy_items(render *r, value v, value *out) {
  list items;
  TRY(value_items(&r->arena, v, &items));
  TRY(make_list(&r->arena, VALUE_LIST, items.count, out));
  for (size_t i = 0; i < items.count; i++) TRY(list_add(&r->arena, out->u.list, items.items[i]));
  return NULL;
}

/* reverse, case_sensitive, attribute */
clave_status filter_sort(render *r, value v, const bound *b, value *out) {
  list keys = {0};
  TRY(copy_items(r, v, out));
  for (size_t i = 0; i < out->u.list->count; i++) {
    value key;
    TRY(keys_of(r, out->u.list->items[i], or_none(b, 2), is_true(b, 1), &key));
    TRY(list_add(&r->arena, &keys, key));
  }
  return sort_values(&r->arena, out->u.list, &keys, is_true(b, 0));
}

/* case_sensitive, attribute */
clave_status filter_unique(render *r, value v, const bound *b, value *out) {
  list in, kept = {0};
  value seen;
  TRY(value_items(&r->arena, v, &in));
  TRY(make_dict(&r->arena, VALUE_DICT, &seen));
  for (size_t i = 0; i < in.count; i++) {
    value key, *found;
    TRY(key_of(r, in.items[i], or_none(b, 1), is_true(b, 0), &key));
    TRY(dict_find(seen.u.dict, key, &found));
    if (found) continue;
    TRY(dict_set(&r->arena, seen.u.dict, key, value_none()));
    TRY(list_add(&r->arena, &kept, in.items[i]));
  }
  return make_iterator(r, &kept, out);
}

static clave_status extreme(render *r, value v, const bound *b, int way, value *out) {
  list in;
  value best;
  TRY(value_items(&r->arena, v, &in));
  *out = value_undefined("no aggregated item, the sequence is empty");
  for (size_t i = 0; i < in.count; i++) {
    value key;
    int order = way;
    TRY(key_of(r, in.items[i], or_none(b, 1), is_true(b, 0), &key));
    if (i) TRY(value_order(&r->arena, key, best, way < 0 ? "<" : ">", &order));
    if (order != way) continue;
    best = key;
    *out = in.items[i];
  }
  return NULL;
}
clave_status filter_min(render *r, value v, const bound *b, value *out) {
  return extreme(r, v, b, -1, out);
}
clave_status filter_max(render *r, value v, const bound *b, value *out) {
  return extreme(r, v, b, 1, out);
}

/* attribute, start */
clave_status filter_sum(render *r, value v, const bound *b, value *out) {
  list in;
  TRY(value_items(&r->arena, v, &in));
  *out = b->given[1] ? b->v[1] : value_int(0);
  if (out->kind == VALUE_STRING) return INVALID("sum() can't sum strings");
  for (size_t i = 0; i < in.count; i++) {
    value item;
    TRY(key_of(r, in.items[i], or_none(b, 0), true, &item));
    TRY(arithmetic(r, OP_ADD, *out, item, out));
  }
  return NULL;
}

/* case_sensitive, by, reverse */
clave_status filter_dictsort(render *r, value v, const bound *b, value *out) {
  list keys = {0};
  value by = or_none(b, 1);
  bool by_value = by.kind == VALUE_STRING && string_is(by.u.text, "value");
  if (b->given[1] && !by_value && (by.kind != VALUE_STRING || !string_is(by.u.text, "key")))
    return INVALID("dictsort is by 'key' or 'value'");
  TRY(refuse_undefined(v));
  if (v.kind != VALUE_DICT) return INVALID("'%s' object has no items", value_type(v));
  TRY(make_list(&r->arena, VALUE_LIST, v.u.dict->count, out));
  for (size_t i = 0; i < v.u.dict->count; i++) {
    const dict_entry *e = &v.u.dict->entries[i];
    value pair, key = by_value ? e->value : e->key;
    TRY(make_pair(&r->arena, e->key, e->value, &pair));
    TRY(list_add(&r->arena, out->u.list, pair));
    if (!is_true(b, 0)) TRY(lower_text(r, key, &key));
    TRY(list_add(&r->arena, &keys, key));
  }
  return sort_values(&r->arena, out->u.list, &keys, is_true(b, 2));
}

/* ---------------------------------------------------------------- others */

/* d, attribute */
clave_status filter_join(render *r, value v, const bound *b, value *out) {
  list in, mapped = {0};
  value separator;
  TRY(make_puts(&r->arena, "", &separator));
  if (b->given[0]) TRY(make_str(&r->arena, b->v[0], &separator));
  TRY(value_items(&r->arena, v, &in));
  value path = or_none(b, 1);
  for (size_t i = 0; i < in.count && path.kind != VALUE_NONE; i++) {
    value item;
    TRY(get_path(r, in.items[i], path, &item));
    TRY(list_add(&r->arena, &mapped, item));
  }
  return string_join(r, separator.u.text, path.kind == VALUE_NONE ? &in : &mapped, true, out);
}

clave_status filter_first(render *r, value v, const bound *b, value *out) {
  list in;
  iterator before = {0};
  (void)b;
  if (v.kind == VALUE_ITERATOR) before = *v.u.iterator;
  if (before.at < before.items.count) {
    *out = before.items.items[v.u.iterator->at++];
    return NULL;
  }
  TRY(value_items(&r->arena, v, &in));
  if (v.kind == VALUE_ITERATOR) v.u.iterator->at = before.at + (in.count > 0);
  *out = in.count ? in.items[0] : value_undefined("no first item, the sequence is empty");
  return NULL;
}

clave_status filter_last(render *r, value v, const bound *b, value *out) {
  list in;
  (void)b;
  if (v.kind == VALUE_ITERATOR) return INVALID("'generator' object is not reversible");
  TRY(value_items(&r->arena, v, &in));
  *out = in.count ? in.items[in.count - 1] : value_undefined("no last item, the sequence is empty");
  return NULL;
}

clave_status filter_reverse(render *r, value v, const bound *b, value *out) {
  list in, reversed = {0};
  (void)b;
  TRY(value_items(&r->arena, v, &in));
  for (size_t i = in.count; i-- > 0;) TRY(list_add(&r->arena, &reversed, in.items[i]));
  if (v.kind == VALUE_STRING) {
    value none;
    TRY(make_puts(&r->arena, "", &none));
    return string_join(r, none.u.text, &reversed, true, out);
  }
  if (v.kind != VALUE_ITERATOR) return make_iterator(r, &reversed, out);
  TRY(make_list(&r->arena, VALUE_LIST, 0, out));
  *out->u.list = reversed;
  return NULL;
}

clave_status filter_items(render *r, value v, const bound *b, value *out) {
  list pairs = {0};
  (void)b;
  if (v.kind != VALUE_DICT && v.kind != VALUE_UNDEFINED)
    return INVALID("can only get item pairs from a mapping");
  if (v.kind == VALUE_DICT)
    TRY(value_items(&r->arena, (value){VALUE_VIEW, {.view = &(view){v.u.dict, VIEW_ITEMS}}},
                    &pairs));
  return make_iterator(r, &pairs, out);
}

clave_status filter_list(render *r, value v, const bound *b, value *out) {
  (void)b;
  return copy_items(r, v, out);
}
