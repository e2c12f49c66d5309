/* Python's properties of values: truth, equality, order, length, membership, sorting. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/value.h"

const char *value_type(value value) {
  static const char *const names[] = {"Undefined", "NoneType",  "bool",      "int",         "float",
                                      "str",       "list",      "tuple",     "dict",        "range",
                                      "dict_view", "generator", "Namespace", "LoopContext", "Macro",
                                      "method",    "function"};
  return names[value.kind];
}

bool value_number(value value) {
  return value.kind == VALUE_BOOL || value.kind == VALUE_INT || value.kind == VALUE_FLOAT;
}

static int64_t integer_of(value value) {
  return value.kind == VALUE_BOOL ? (int64_t)value.u.truth : value.u.integer;
}

double value_real(value value) {
  return value.kind == VALUE_FLOAT ? value.u.real : (double)integer_of(value);
}

bool value_truth(value value) {
  switch ((value_kind)value.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
      return false;
    case VALUE_BOOL:
      return value.u.truth != 0;
    case VALUE_INT:
      return value.u.integer != 0;
    case VALUE_FLOAT:
      return value.u.real != 0;
    case VALUE_STRING:
      return value.u.text->size > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
      return value.u.list->count > 0;
    case VALUE_DICT:
      return value.u.dict->count > 0;
    case VALUE_RANGE:
      return value.u.range->count > 0;
    case VALUE_VIEW:
      return value.u.view->dict->count > 0;
    default:
      return true;
  }
}

/* ---------------------------------------------------------------- equality */

/* Compares numbers exactly, also beyond 2^53. Returns 2 if one is NaN. */
static int order_numbers(value left, value right) {
  if (left.kind != VALUE_FLOAT && right.kind != VALUE_FLOAT) {
    int64_t a = integer_of(left), b = integer_of(right);
    return (a > b) - (a < b);
  }
  double a = value_real(left), b = value_real(right);
  if (isnan(a) || isnan(b)) return 2;
  if (a != b || left.kind == right.kind || fabs(a) >= 0x1p63) return (a > b) - (a < b);
  int64_t i = (int64_t)a, j = left.kind == VALUE_FLOAT ? integer_of(right) : integer_of(left);
  int sign = (i > j) - (i < j);
  return left.kind == VALUE_FLOAT ? sign : -sign;
}

static clave_status equal_lists(arena *arena, const list *left, const list *right, bool *out) {
  *out = left->count == right->count;
  for (size_t i = 0; i < left->count && *out; i++)
    TRY(value_equal(arena, left->items[i], right->items[i], out));
  return NULL;
}

static clave_status equal_dicts(arena *arena, const dict *left, const dict *right, bool *out) {
  *out = left->count == right->count;
  for (size_t i = 0; i < left->count && *out; i++) {
    value *other;
    TRY(dict_find(right, left->entries[i].key, &other));
    if (other) TRY(value_equal(arena, left->entries[i].value, *other, out));
    if (!other) *out = false;
  }
  return NULL;
}

static bool equal_ranges(const range_value *left, const range_value *right) {
  if (left->count != right->count) return false;
  if (left->count == 0) return true;
  return left->start == right->start && (left->count == 1 || left->step == right->step);
}

static clave_status equal_same_kind(arena *arena, value left, value right, bool *out) {
  switch ((value_kind)left.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
      *out = true;
      return NULL;
    case VALUE_STRING:
      *out = string_equal(left.u.text, right.u.text);
      return arena_charge(arena, left.u.text->size / 64);
    case VALUE_LIST:
    case VALUE_TUPLE:
      return equal_lists(arena, left.u.list, right.u.list, out);
    case VALUE_DICT:
      return equal_dicts(arena, left.u.dict, right.u.dict, out);
    case VALUE_RANGE:
      *out = equal_ranges(left.u.range, right.u.range);
      return NULL;
    case VALUE_VIEW:
      *out = left.u.view == right.u.view;
      if (left.u.view->kind == VIEW_VALUES && right.u.view->kind == VIEW_VALUES) return NULL;
      return UNSUPPORTED("the comparison of dict views is not supported");
    case VALUE_FUNCTION:
      *out = left.u.function == right.u.function;
      return NULL;
    default:
      *out = left.u.dict == right.u.dict; /* identity: the remaining kinds are all pointers */
      return NULL;
  }
}

clave_status value_equal(arena *arena, value left, value right, bool *out) {
  *out = false;
  TRY(arena_charge(arena, 1));
  if (value_number(left) && value_number(right)) {
    *out = order_numbers(left, right) == 0;
    return NULL;
  }
  if (left.kind != right.kind) return NULL;
  if (left.kind == VALUE_STRING) return equal_same_kind(arena, left, right, out);
  TRY(arena_enter(arena));
  TRY(equal_same_kind(arena, left, right, out));
  arena_leave(arena);
  return NULL;
}

/* ---------------------------------------------------------------- order */

static clave_status order_lists(arena *arena, const list *left, const list *right, const char *name,
                                int *out) {
  for (size_t i = 0; i < left->count && i < right->count; i++) {
    bool equal;
    TRY(value_equal(arena, left->items[i], right->items[i], &equal));
    if (!equal) return value_order(arena, left->items[i], right->items[i], name, out);
  }
  *out = (left->count > right->count) - (left->count < right->count);
  return NULL;
}

/* Compares by bytes, because UTF-8 preserves the order of code points. */
static int order_strings(const string *left, const string *right) {
  size_t n = left->size < right->size ? left->size : right->size;
  int order = n ? memcmp(left->data, right->data, n) : 0;
  return order ? (order > 0) - (order < 0)
               : (left->size > right->size) - (left->size < right->size);
}

clave_status value_order(arena *arena, value left, value right, const char *name, int *out) {
  TRY(arena_charge(arena, 1));
  if (value_number(left) && value_number(right)) {
    *out = order_numbers(left, right);
    return NULL;
  }
  if (left.kind == VALUE_STRING && right.kind == VALUE_STRING) {
    *out = order_strings(left.u.text, right.u.text);
    return NULL;
  }
  if (left.kind != right.kind || (left.kind != VALUE_LIST && left.kind != VALUE_TUPLE))
    return INVALID("'%s' between instances of '%s' and '%s'", name, value_type(left),
                   value_type(right));
  TRY(arena_enter(arena));
  TRY(order_lists(arena, left.u.list, right.u.list, name, out));
  arena_leave(arena);
  return NULL;
}

/* ---------------------------------------------------------------- containers */

static clave_status list_view(arena *arena, const view *view, list *out) {
  for (size_t i = 0; i < view->dict->count; i++) {
    const dict_entry *entry = &view->dict->entries[i];
    value item = view->kind == VIEW_KEYS ? entry->key : entry->value;
    if (view->kind == VIEW_ITEMS) TRY(make_pair(arena, entry->key, entry->value, &item));
    TRY(list_add(arena, out, item));
  }
  return NULL;
}

static clave_status list_characters(arena *arena, const string *string, list *out) {
  for (size_t at = 0, n; at < string->size; at += n) {
    value item;
    n = utf8_sequence(string->data + at, string->size - at);
    TRY(make_part(arena, string, at, n, &item));
    TRY(list_add(arena, out, item));
  }
  return NULL;
}

clave_status value_items(arena *arena, value value, list *out) {
  *out = (list){0};
  switch ((value_kind)value.kind) {
    case VALUE_UNDEFINED:
      return NULL;
    case VALUE_LIST:
    case VALUE_TUPLE:
      *out = *value.u.list;
      return NULL;
    case VALUE_STRING:
      return list_characters(arena, value.u.text, out);
    case VALUE_DICT:
      return list_view(arena, &(view){value.u.dict, VIEW_KEYS}, out);
    case VALUE_VIEW:
      return list_view(arena, value.u.view, out);
    case VALUE_RANGE:
      for (uint64_t i = 0; i < value.u.range->count; i++)
        TRY(list_add(arena, out,
                     value_int(value.u.range->start + (int64_t)i * value.u.range->step)));
      return NULL;
    case VALUE_ITERATOR:
      *out = value.u.iterator->items;
      out->items += value.u.iterator->at;
      out->count -= value.u.iterator->at;
      value.u.iterator->at = value.u.iterator->items.count;
      return value.u.iterator->error ? INVALID("%s", value.u.iterator->error) : NULL;
    default:
      return INVALID("'%s' object is not iterable", value_type(value));
  }
}

clave_status value_length(arena *arena, value value, int64_t *out) {
  switch ((value_kind)value.kind) {
    case VALUE_UNDEFINED:
      *out = 0;
      return NULL;
    case VALUE_STRING:
      *out = (int64_t)string_length(value.u.text);
      return arena_charge(arena, value.u.text->size / 64);
    case VALUE_LIST:
    case VALUE_TUPLE:
      *out = (int64_t)value.u.list->count;
      return NULL;
    case VALUE_DICT:
      *out = (int64_t)value.u.dict->count;
      return NULL;
    case VALUE_VIEW:
      *out = (int64_t)value.u.view->dict->count;
      return NULL;
    case VALUE_RANGE:
      *out = (int64_t)value.u.range->count;
      return NULL;
    default:
      return INVALID("object of type '%s' has no len()", value_type(value));
  }
}

static clave_status contains_text(arena *arena, value item, const string *in, bool *out) {
  if (item.kind != VALUE_STRING)
    return INVALID("'in <string>' requires string as left operand, not %s", value_type(item));
  TRY(arena_charge(arena, in->size / 64));
  *out = item.u.text->size == 0 ||
         memmem(in->data, in->size, item.u.text->data, item.u.text->size) != NULL;
  return NULL;
}

/* An iterator is consumed up to the item. */
static clave_status contains_item(arena *arena, value item, value in, bool *out) {
  list items;
  size_t at = in.kind == VALUE_ITERATOR ? in.u.iterator->at : 0;
  TRY(value_items(arena, in, &items));
  *out = false;
  for (size_t i = 0; i < items.count && !*out; i++) {
    TRY(value_equal(arena, items.items[i], item, out));
    if (*out && in.kind == VALUE_ITERATOR) in.u.iterator->at = at + i + 1;
  }
  return NULL;
}

clave_status value_contains(arena *arena, value item, value in, bool *out) {
  value *found;
  if (in.kind == VALUE_STRING) return contains_text(arena, item, in.u.text, out);
  if (in.kind == VALUE_VIEW && in.u.view->kind == VIEW_KEYS)
    TRY(dict_find(in.u.view->dict, item, &found)); /* a key that is not hashable is an error */
  if (in.kind != VALUE_DICT) return contains_item(arena, item, in, out);
  TRY(dict_find(in.u.dict, item, &found));
  *out = found != NULL;
  return NULL;
}

/* ---------------------------------------------------------------- sorting */

/* Merges the sorted halves of `at`, which indexes `by`, into `to`. */
static clave_status merge_halves(arena *arena, const value *by, bool reverse, const size_t *at,
                                 size_t half, size_t n, size_t *to) {
  for (size_t i = 0, j = half, k = 0; k < n; k++) {
    int order = 0;
    bool both = i < half && j < n;
    /* Like Python's sort, uses only "less than". */
    if (both && reverse) TRY(value_order(arena, by[at[i]], by[at[j]], "<", &order));
    if (both && !reverse) TRY(value_order(arena, by[at[j]], by[at[i]], "<", &order));
    bool second = both ? order == -1 : i == half;
    to[k] = at[second ? j++ : i++];
  }
  return NULL;
}

static clave_status sort_indices(arena *arena, const value *by, bool reverse, size_t *at, size_t n,
                                 size_t *scratch) {
  if (n < 2) return NULL;
  TRY(sort_indices(arena, by, reverse, at, n / 2, scratch));
  TRY(sort_indices(arena, by, reverse, at + n / 2, n - n / 2, scratch));
  TRY(merge_halves(arena, by, reverse, at, n / 2, n, scratch));
  memcpy(at, scratch, n * sizeof *at);
  return NULL;
}

clave_status sort_values(arena *arena, list *left, list *by, bool reverse) {
  size_t *at, *scratch, n = left->count;
  value *sorted;
  const value *keys = by ? by->items : left->items;
  TRY(arena_alloc(arena, n, sizeof *at, &at));
  TRY(arena_alloc(arena, n, sizeof *scratch, &scratch));
  TRY(arena_alloc(arena, n, sizeof *sorted, &sorted));
  for (size_t i = 0; i < n; i++) at[i] = i;
  TRY(sort_indices(arena, keys, reverse, at, n, scratch));
  for (size_t i = 0; i < n; i++) sorted[i] = left->items[at[i]];
  left->items = sorted;
  left->capacity = n;
  return NULL;
}
