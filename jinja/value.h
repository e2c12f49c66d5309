#ifndef JINJA_VALUE_H
#define JINJA_VALUE_H
/* The values of templates: Python's, as small tagged unions over an arena that is freed at once. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

typedef enum value_kind {
  VALUE_UNDEFINED, /* text: what is missing, for errors; NULL: nothing is known */
  VALUE_NONE,
  VALUE_BOOL,
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_STRING,
  VALUE_LIST,
  VALUE_TUPLE,
  VALUE_DICT,
  VALUE_RANGE,
  VALUE_VIEW,     /* a dict's keys(), values() or items() */
  VALUE_ITERATOR, /* what map, select, reverse and their like give: read once */
  VALUE_NAMESPACE,
  VALUE_LOOP,
  VALUE_MACRO,
  VALUE_METHOD,  /* a method of a value */
  VALUE_FUNCTION /* a function that every template has */
} value_kind;

typedef struct value value;
typedef struct string string;
typedef struct list list;
typedef struct dict dict;
typedef struct view view;
typedef struct iterator iterator;
typedef struct range_value range_value;
typedef struct loop_state loop_state;
typedef struct macro macro;
typedef struct method method;

struct value {
  uint64_t kind; /* a value_kind; as wide as what follows, so that both are written at once */
  union {
    uint64_t truth; /* 0 or 1: as wide as what is copied, for what is read right after */
    int64_t integer;
    double real;
    const char *name;   /* UNDEFINED */
    const string *text; /* STRING */
    list *list;         /* LIST, TUPLE */
    dict *dict;         /* DICT, NAMESPACE */
    const range_value *range;
    const view *view;
    iterator *iterator;
    loop_state *loop;
    const macro *macro;
    const method *method;
    int function;
  } u;
};

/* Valid UTF-8 that may hold NUL. */
struct string {
  const char *data;
  size_t size;
  const char *mask; /* (size) 1 where the byte was written by people; NULL: all of it, or none */
  bool written;     /* without a mask */
  bool escaped;     /* HTML, as the filters safe and escape make it */
};

struct list {
  value *items;
  size_t count, capacity;
};

typedef struct dict_entry {
  value key, value;
  uint64_t hash; /* where there is an index */
} dict_entry;

struct dict {
  dict_entry *entries; /* in the order of insertion */
  size_t count, capacity;
  uint32_t *index; /* (index_size) 1 + entry by hash, 0: free; NULL while there are few */
  size_t index_size;
};

struct range_value {
  int64_t start, stop, step;
  uint64_t count;
};

typedef enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } view_kind;
struct view {
  const dict *of;
  view_kind kind;
};

struct iterator {
  list items;
  size_t at;
  const char *error; /* what is raised behind the items, once they are read; NULL: nothing */
};

struct method {
  value self;
  const char *name; /* in a table of methods */
  int index;
};

static inline value value_undefined(const char *name) {
  return (value){VALUE_UNDEFINED, {.name = name}};
}
static inline value value_none(void) { return (value){VALUE_NONE, {0}}; }
static inline value value_bool(bool b) { return (value){VALUE_BOOL, {.truth = b}}; }
static inline value value_int(int64_t i) { return (value){VALUE_INT, {.integer = i}}; }
static inline value value_float(double d) { return (value){VALUE_FLOAT, {.real = d}}; }
static inline value value_string(const string *s) { return (value){VALUE_STRING, {.text = s}}; }
static inline value value_list(list *l) { return (value){VALUE_LIST, {.list = l}}; }

/* The arena of one rendering, or of a template's constants. */
typedef struct arena {
  mem_pool *pool;
  unsigned char *at, *end; /* what is left of a block for small things; 16-byte aligned */
  size_t limit;            /* of bytes */
  int64_t steps;           /* that are left */
  int depth;               /* of values within values that are being compared or written */
} arena;
enum { ARENA_ALIGNMENT = 16, ARENA_SMALL = 512, ARENA_BYTES_PER_STEP = 64 };
/* A new block, or what is too large for one. */
clave_status arena_alloc_more(arena *a, size_t count, size_t size, void *out) STATUS_CHECK;
/* Zeroed, 16-byte aligned. */
static inline STATUS_CHECK clave_status arena_alloc(arena *a, size_t count, size_t size,
                                                    void *out) {
  size_t bytes = (count * size + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
  if (count > ARENA_SMALL || size > ARENA_SMALL || !bytes || bytes > (size_t)(a->end - a->at))
    return arena_alloc_more(a, count, size, out);
  memset(a->at, 0, bytes);
  memcpy(out, &a->at, sizeof a->at);
  a->at += bytes;
  a->steps -= (int64_t)(bytes / ARENA_BYTES_PER_STEP);
  return NULL;
}
clave_status arena_refuse_steps(void) STATUS_CHECK STATUS_NEVER_NULL;
/* Pays for n steps. */
static inline STATUS_CHECK clave_status arena_charge(arena *a, size_t n) {
  a->steps -= (int64_t)n;
  return a->steps < 0 ? arena_refuse_steps() : NULL;
}
/* One value deeper; arena_leave on the way out, unless there was an error. */
clave_status arena_enter(arena *a) STATUS_CHECK;
static inline void arena_leave(arena *a) { a->depth--; }

/* ---- strings */
/* Growing text with its mask. */
typedef struct builder {
  text data, mask;
  bool written; /* while there is no mask */
} builder;
void builder_add(builder *b, const string *s);
void builder_bytes(builder *b, const char *bytes, size_t size); /* of the template's */
/* As builder_bytes, of people's if `like` is. */
void builder_like(builder *b, const char *bytes, size_t size, const string *like);
void builder_puts(builder *b, const char *s);
void builder_free(builder *b);
clave_status builder_string(arena *a, builder *b, value *out) STATUS_CHECK; /* frees the builder */

clave_status make_string(arena *a, const char *bytes, size_t size, value *out) STATUS_CHECK;
clave_status make_written(arena *a, const char *bytes, size_t size, bool written,
                          value *out) STATUS_CHECK;
/* Of bytes that outlive the arena. */
clave_status make_borrowed(arena *a, const char *bytes, size_t size, bool written,
                           value *out) STATUS_CHECK;
clave_status concat_strings(arena *a, const string *x, const string *y, value *out) STATUS_CHECK;
/* A string that outlives the arena. */
clave_status make_puts(arena *a, const char *s, value *out) STATUS_CHECK;
/* Bytes `at` to `at + size` of s, which are not copied. */
clave_status make_part(arena *a, const string *s, size_t at, size_t size, value *out) STATUS_CHECK;
bool string_equal(const string *a, const string *b);
static inline bool string_is(const string *s, const char *literal) {
  if (!s->size || *s->data != *literal) return !s->size && !*literal;
  return s->size == strlen(literal) && memcmp(s->data, literal, s->size) == 0;
}
size_t string_length(const string *s); /* in code points */

/* ---- containers */
clave_status make_list(arena *a, value_kind kind, size_t capacity, value *out) STATUS_CHECK;
clave_status list_add(arena *a, list *l, value v) STATUS_CHECK;
clave_status make_pair(arena *a, value first, value second, value *out) STATUS_CHECK;
clave_status make_dict(arena *a, value_kind kind, value *out) STATUS_CHECK;
/* CLAVE_INVALID: a key that cannot be hashed. */
clave_status dict_set(arena *a, dict *d, value key, value v) STATUS_CHECK;
/* Only where the key is not there yet. */
clave_status dict_add(arena *a, dict *d, value key, value v, bool *added) STATUS_CHECK;
/* *out: NULL if it is not there. */
clave_status dict_find(const dict *d, value key, value **out) STATUS_CHECK;
value *dict_find_text(const dict *d, const string *key);
clave_status make_range(arena *a, int64_t start, int64_t stop, int64_t step,
                        value *out) STATUS_CHECK;

/* ---- what Python says of them */
const char *value_type(value v); /* "str", as in Python's errors */
bool value_truth(value v);
bool value_number(value v); /* bool, int or float */
double value_real(value number);
clave_status value_equal(arena *a, value x, value y, bool *out) STATUS_CHECK;
/* <0, 0, >0; 2: not ordered (NaN). CLAVE_INVALID: types that have no order. */
clave_status value_order(arena *a, value x, value y, const char *operator_name,
                         int *out) STATUS_CHECK;
/* Stable; `by` NULL, or what each item is ordered by, which is sorted with them. */
clave_status sort_values(arena *a, list *l, list *by, bool reverse) STATUS_CHECK;
/* The items that iteration gives, as a list that is not to be changed. CLAVE_INVALID: not iterable.
 * An iterator is empty afterwards. */
clave_status value_items(arena *a, value v, list *out) STATUS_CHECK;
/* CLAVE_INVALID: it has no length. */
clave_status value_length(arena *a, value v, int64_t *out) STATUS_CHECK;
clave_status value_contains(arena *a, value item, value in, bool *out) STATUS_CHECK;

/* ---- text.c: as str(), repr() and json.dumps() write them */
clave_status append_str(arena *a, builder *b, value v) STATUS_CHECK; /* str(v) */
clave_status append_repr(arena *a, builder *b, value v) STATUS_CHECK;
clave_status make_str(arena *a, value v, value *out) STATUS_CHECK;
void format_real(double d, char out[64]); /* the shortest that reads as d */
typedef struct json_style {
  bool ascii, sort;
  bool has_indent;
  const string *indent; /* of one level */
  const string *item, *key;
} json_style;
clave_status append_json(arena *a, builder *b, value v, const json_style *style,
                         int depth) STATUS_CHECK;

#endif
