/* What Python says of values: truth, equality, order, length, membership. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/value.h"

const char *value_type(value v) {
  static const char *const names[] = {"Undefined", "NoneType",  "bool",      "int",         "float",
                                      "str",       "list",      "tuple",     "dict",        "range",
                                      "dict_view", "generator", "Namespace", "LoopContext", "Macro",
                                      "method",    "function"};
  return names[v.kind];
}

bool value_number(value v) {
  return v.kind == VALUE_BOOL || v.kind == VALUE_INT || v.kind == VALUE_FLOAT;
}

static int64_t integer_of(value v) {
  return v.kind == VALUE_BOOL ? (int64_t)v.u.truth : v.u.integer;
}

double value_real(value v) { return v.kind == VALUE_FLOAT ? v.u.real : (double)integer_of(v); }

bool value_truth(value v) {
  switch ((value_kind)v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
      return false;
    case VALUE_BOOL:
      return v.u.truth != 0;
    case VALUE_INT:
      return v.u.integer != 0;
    case VALUE_FLOAT:
      return v.u.real != 0;
    case VALUE_STRING:
      return v.u.text->size > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
      return v.u.list->count > 0;
    case VALUE_DICT:
      return v.u.dict->count > 0;
    case VALUE_RANGE:
      return v.u.range->count > 0;
    case VALUE_VIEW:
      return v.u.view->of->count > 0;
    default:
      return true;
  }
}

/* ---------------------------------------------------------------- equality */

/* Exactly, also beyond 2^53. */
static int order_numbers(value x, value y) {
  if (x.kind != VALUE_FLOAT && y.kind != VALUE_FLOAT) {
    int64_t a = integer_of(x), b = integer_of(y);
    return (a > b) - (a < b);
  }
  double a = value_real(x), b = value_real(y);
  if (isnan(a) || isnan(b)) return 2;
  if (a != b || x.kind == y.kind || fabs(a) >= 0x1p63) return (a > b) - (a < b);
  int64_t i = (int64_t)a, j = x.kind == VALUE_FLOAT ? integer_of(y) : integer_of(x);
  int sign = (i > j) - (i < j);
  return x.kind == VALUE_FLOAT ? sign : -sign;
}

static clave_status equal_lists(arena *a, const list *x, const list *y, bool *out) {
  *out = x->count == y->count;
  for (size_t i = 0; i < x->count && *out; i++) TRY(value_equal(a, x->items[i], y->items[i], out));
  return NULL;
}

static clave_status equal_dicts(arena *a, const dict *x, const dict *y, bool *out) {
  *out = x->count == y->count;
  for (size_t i = 0; i < x->count && *out; i++) {
    value *other;
    TRY(dict_find(y, x->entries[i].key, &other));
    if (other) TRY(value_equal(a, x->entries[i].value, *other, out));
    if (!other) *out = false;
  }
  return NULL;
}

static bool equal_ranges(const range_value *x, const range_value *y) {
  if (x->count != y->count) return false;
  if (x->count == 0) return true;
  return x->start == y->start && (x->count == 1 || x->step == y->step);
}

static clave_status equal_same_kind(arena *a, value x, value y, bool *out) {
  switch ((value_kind)x.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
      *out = true;
      return NULL;
    case VALUE_STRING:
      *out = string_equal(x.u.text, y.u.text);
      return arena_charge(a, x.u.text->size / 64);
    case VALUE_LIST:
    case VALUE_TUPLE:
      return equal_lists(a, x.u.list, y.u.list, out);
    case VALUE_DICT:
      return equal_dicts(a, x.u.dict, y.u.dict, out);
    case VALUE_RANGE:
      *out = equal_ranges(x.u.range, y.u.range);
      return NULL;
    case VALUE_VIEW:
      *out = x.u.view == y.u.view;
      if (x.u.view->kind == VIEW_VALUES && y.u.view->kind == VIEW_VALUES) return NULL;
      return UNSUPPORTED("views of dicts are not compared");
    case VALUE_FUNCTION:
      *out = x.u.function == y.u.function;
      return NULL;
    default:
      *out = x.u.dict == y.u.dict; /* the same object: all of them are pointers */
      return NULL;
  }
}

clave_status value_equal(arena *a, value x, value y, bool *out) {
  *out = false;
  TRY(arena_charge(a, 1));
  if (value_number(x) && value_number(y)) {
    *out = order_numbers(x, y) == 0;
    return NULL;
  }
  if (x.kind != y.kind) return NULL;
  if (x.kind == VALUE_STRING) return equal_same_kind(a, x, y, out);
  TRY(arena_enter(a));
  TRY(equal_same_kind(a, x, y, out));
  arena_leave(a);
  return NULL;
}

/* ---------------------------------------------------------------- order */

static clave_status order_lists(arena *a, const list *x, const list *y, const char *name,
                                int *out) {
  for (size_t i = 0; i < x->count && i < y->count; i++) {
    bool equal;
    TRY(value_equal(a, x->items[i], y->items[i], &equal));
    if (!equal) return value_order(a, x->items[i], y->items[i], name, out);
  }
  *out = (x->count > y->count) - (x->count < y->count);
  return NULL;
}

/* Code points are in the order of their UTF-8. */
static int order_strings(const string *x, const string *y) {
  size_t n = x->size < y->size ? x->size : y->size;
  int order = n ? memcmp(x->data, y->data, n) : 0;
  return order ? (order > 0) - (order < 0) : (x->size > y->size) - (x->size < y->size);
}

clave_status value_order(arena *a, value x, value y, const char *name, int *out) {
  TRY(arena_charge(a, 1));
  if (value_number(x) && value_number(y)) {
    *out = order_numbers(x, y);
    return NULL;
  }
  if (x.kind == VALUE_STRING && y.kind == VALUE_STRING) {
    *out = order_strings(x.u.text, y.u.text);
    return NULL;
  }
  if (x.kind != y.kind || (x.kind != VALUE_LIST && x.kind != VALUE_TUPLE))
    return INVALID("'%s' between instances of '%s' and '%s'", name, value_type(x), value_type(y));
  TRY(arena_enter(a));
  TRY(order_lists(a, x.u.list, y.u.list, name, out));
  arena_leave(a);
  return NULL;
}

/* ---------------------------------------------------------------- containers */

static clave_status list_view(arena *a, const view *v, list *out) {
  for (size_t i = 0; i < v->of->count; i++) {
    const dict_entry *e = &v->of->entries[i];
    value item = v->kind == VIEW_KEYS ? e->key : e->value;
    if (v->kind == VIEW_ITEMS) TRY(make_pair(a, e->key, e->value, &item));
    TRY(list_add(a, out, item));
  }
  return NULL;
}

static clave_status list_characters(arena *a, const string *s, list *out) {
  for (size_t at = 0, n; at < s->size; at += n) {
    value item;
    n = utf8_sequence(s->data + at, s->size - at);
    TRY(make_part(a, s, at, n, &item));
    TRY(list_add(a, out, item));
  }
  return NULL;
}

clave_status value_items(arena *a, value v, list *out) {
  *out = (list){0};
  switch ((value_kind)v.kind) {
    case VALUE_UNDEFINED:
      return NULL;
    case VALUE_LIST:
    case VALUE_TUPLE:
      *out = *v.u.list;
      return NULL;
    case VALUE_STRING:
      return list_characters(a, v.u.text, out);
    case VALUE_DICT:
      return list_view(a, &(view){v.u.dict, VIEW_KEYS}, out);
    case VALUE_VIEW:
      return list_view(a, v.u.view, out);
    case VALUE_RANGE:
      for (uint64_t i = 0; i < v.u.range->count; i++)
        TRY(list_add(a, out, value_int(v.u.range->start + (int64_t)i * v.u.range->step)));
      return NULL;
    case VALUE_ITERATOR:
      *out = v.u.iterator->items;
      out->items += v.u.iterator->at;
      out->count -= v.u.iterator->at;
      v.u.iterator->at = v.u.iterator->items.count;
      return v.u.iterator->error ? INVALID("%s", v.u.iterator->error) : NULL;
    default:
      return INVALID("'%s' object is not iterable", value_type(v));
  }
}

clave_status value_length(arena *a, value v, int64_t *out) {
  switch ((value_kind)v.kind) {
    case VALUE_UNDEFINED:
      *out = 0;
      return NULL;
    case VALUE_STRING:
      *out = (int64_t)string_length(v.u.text);
      return arena_charge(a, v.u.text->size / 64);
    case VALUE_LIST:
    case VALUE_TUPLE:
      *out = (int64_t)v.u.list->count;
      return NULL;
    case VALUE_DICT:
      *out = (int64_t)v.u.dict->count;
      return NULL;
    case VALUE_VIEW:
      *out = (int64_t)v.u.view->of->count;
      return NULL;
    case VALUE_RANGE:
      *out = (int64_t)v.u.range->count;
      return NULL;
    default:
      return INVALID("object of type '%s' has no len()", value_type(v));
  }
}

static clave_status contains_text(arena *a, value item, const string *in, bool *out) {
  if (item.kind != VALUE_STRING)
    return INVALID("'in <string>' requires string as left operand, not %s", value_type(item));
  TRY(arena_charge(a, in->size / 64));
  *out = item.u.text->size == 0 ||
         memmem(in->data, in->size, item.u.text->data, item.u.text->size) != NULL;
  return NULL;
}

/* An iterator is read up to the item. */
static clave_status contains_item(arena *a, value item, value in, bool *out) {
  list items;
  size_t at = in.kind == VALUE_ITERATOR ? in.u.iterator->at : 0;
  TRY(value_items(a, in, &items));
  *out = false;
  for (size_t i = 0; i < items.count && !*out; i++) {
    TRY(value_equal(a, items.items[i], item, out));
    if (*out && in.kind == VALUE_ITERATOR) in.u.iterator->at = at + i + 1;
  }
  return NULL;
}

clave_status value_contains(arena *a, value item, value in, bool *out) {
  value *found;
  if (in.kind == VALUE_STRING) return contains_text(a, item, in.u.text, out);
  if (in.kind == VALUE_VIEW && in.u.view->kind == VIEW_KEYS)
    TRY(dict_find(in.u.view->of, item, &found)); /* a key that cannot be hashed is an error */
  if (in.kind != VALUE_DICT) return contains_item(a, item, in, out);
  TRY(dict_find(in.u.dict, item, &found));
  *out = found != NULL;
  return NULL;
}

/* ---------------------------------------------------------------- sorting */

/* Merges the sorted halves of `at`, which indexes `by`, into `to`. */
static clave_status merge(arena *a, const value *by, bool reverse, const size_t *at, size_t half,
                          size_t n, size_t *to) {
  for (size_t i = 0, j = half, k = 0; k < n; k++) {
    int order = 0;
    bool both = i < half && j < n;
    /* Python's sort asks only whether one is less than the other. */
    if (both && reverse) TRY(value_order(a, by[at[i]], by[at[j]], "<", &order));
    if (both && !reverse) TRY(value_order(a, by[at[j]], by[at[i]], "<", &order));
    bool second = both ? order == -1 : i == half;
    to[k] = at[second ? j++ : i++];
  }
  return NULL;
}

static clave_status merge_sort(arena *a, const value *by, bool reverse, size_t *at, size_t n,
                               size_t *scratch) {
  if (n < 2) return NULL;
  TRY(merge_sort(a, by, reverse, at, n / 2, scratch));
  TRY(merge_sort(a, by, reverse, at + n / 2, n - n / 2, scratch));
  TRY(merge(a, by, reverse, at, n / 2, n, scratch));
  memcpy(at, scratch, n * sizeof *at);
  return NULL;
}

clave_status sort_values(arena *a, list *l, list *by, bool reverse) {
  size_t *at, *scratch, n = l->count;
  value *sorted;
  const value *keys = by ? by->items : l->items;
  TRY(arena_alloc(a, n, sizeof *at, &at));
  TRY(arena_alloc(a, n, sizeof *scratch, &scratch));
  TRY(arena_alloc(a, n, sizeof *sorted, &sorted));
  for (size_t i = 0; i < n; i++) at[i] = i;
  TRY(merge_sort(a, keys, reverse, at, n, scratch));
  for (size_t i = 0; i < n; i++) sorted[i] = l->items[at[i]];
  l->items = sorted;
  l->capacity = n;
  return NULL;
}
