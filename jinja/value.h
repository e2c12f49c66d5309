#ifndef JINJA_VALUE_H
#define JINJA_VALUE_H
/* The values of templates: Python's values, as small tagged unions in an arena that is freed as a
 * whole. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

typedef enum value_kind {
  VALUE_UNDEFINED, /* u.name: what is missing, for errors; NULL if unknown */
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
  VALUE_ITERATOR, /* result of map, select, reverse and the like; read once */
  VALUE_NAMESPACE,
  VALUE_LOOP,
  VALUE_MACRO,
  VALUE_METHOD,  /* a method bound to a value */
  VALUE_FUNCTION /* a global function */
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
  uint64_t kind; /* a value_kind; as wide as the union, so that both are written at once */
  union {
    uint64_t truth; /* 0 or 1; 64 bits wide because reading a value right after a narrower write
                       stalls */
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

/* Valid UTF-8, which may contain NUL. */
struct string {
  const char *data;
  size_t size;
  const char *mask; /* (size): 1 for untrusted bytes; NULL if all or none are */
  bool untrusted;   /* used if there is no mask */
  bool escaped;     /* HTML, as made by the filters safe and escape */
};

struct list {
  value *items;
  size_t count, capacity;
};

typedef struct dict_entry {
  value key, value;
  uint64_t hash; /* set if there is an index */
} dict_entry;

struct dict {
  dict_entry *entries; /* in insertion order */
  size_t count, capacity;
  uint32_t *index; /* (index_size): hash table of entry + 1, 0: free; NULL for few entries */
  size_t index_size;
};

struct range_value {
  int64_t start, stop, step;
  uint64_t count;
};

typedef enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } view_kind;
struct view {
  const dict *dict;
  view_kind kind;
};

struct iterator {
  list items;
  size_t at;
  const char *error; /* raised after the items were read; NULL for no error */
};

struct method {
  value self;
  const char *name; /* in the table of methods */
  int index;
};

static inline value value_undefined(const char *name) {
  return (value){VALUE_UNDEFINED, {.name = name}};
}
static inline value value_none(void) { return (value){VALUE_NONE, {0}}; }
static inline value value_bool(bool b) { return (value){VALUE_BOOL, {.truth = b}}; }
static inline value value_int(int64_t i) { return (value){VALUE_INT, {.integer = i}}; }
static inline value value_float(double d) { return (value){VALUE_FLOAT, {.real = d}}; }
static inline value value_string(const string *string) {
  return (value){VALUE_STRING, {.text = string}};
}
static inline value value_list(list *list) { return (value){VALUE_LIST, {.list = list}}; }

/* The arena of one rendering, or of a template's constants. */
typedef struct arena {
  mem_pool *pool;
  unsigned char *at, *end; /* rest of the block for small allocations; 16-byte aligned */
  size_t limit;            /* in bytes */
  int64_t steps;           /* remaining steps */
  int depth;               /* nesting of the values being compared or written */
} arena;
enum { ARENA_ALIGNMENT = 16, ARENA_SMALL = 512, ARENA_BYTES_PER_STEP = 64 };
/* Allocates from a new block, or separately if it is too large for one. */
clave_status arena_alloc_more(arena *arena, size_t count, size_t size, void *out) STATUS_CHECK;
/* Allocates zeroed memory, 16-byte aligned, and charges its steps. */
static inline STATUS_CHECK clave_status arena_alloc(arena *arena, size_t count, size_t size,
                                                    void *out) {
  size_t bytes = (count * size + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
  if (count > ARENA_SMALL || size > ARENA_SMALL || !bytes ||
      bytes > (size_t)(arena->end - arena->at))
    return arena_alloc_more(arena, count, size, out);
  memset(arena->at, 0, bytes);
  memcpy(out, &arena->at, sizeof arena->at);
  arena->at += bytes;
  arena->steps -= (int64_t)(bytes / ARENA_BYTES_PER_STEP);
  return NULL;
}
clave_status arena_refuse_steps(void) STATUS_CHECK STATUS_NEVER_NULL;
/* Charges n steps; fails if none are left. */
static inline STATUS_CHECK clave_status arena_charge(arena *arena, size_t n) {
  arena->steps -= (int64_t)n;
  return arena->steps < 0 ? arena_refuse_steps() : NULL;
}
/* Enters a nested value. The caller leaves it with arena_leave, except after an error. */
clave_status arena_enter(arena *arena) STATUS_CHECK;
static inline void arena_leave(arena *arena) { arena->depth--; }

/* ---- strings */
/* A string under construction, with its mask. */
typedef struct builder {
  text data, mask;
  bool untrusted; /* the origin of all bytes while `mask` is empty */
} builder;
/* Appends a string with its mask. A failed append sets data.failed. */
void builder_add(builder *builder, const string *string);
void builder_bytes(builder *builder, const char *bytes, size_t size); /* bytes from the template */
/* Works like builder_bytes, but the bytes are untrusted if all of `like` is. */
void builder_like(builder *builder, const char *bytes, size_t size, const string *like);
void builder_puts(builder *builder, const char *text);
void builder_free(builder *builder);
clave_status builder_string(arena *arena, builder *builder,
                            value *out) STATUS_CHECK; /* frees the builder */

clave_status make_string(arena *arena, const char *bytes, size_t size, value *out) STATUS_CHECK;
clave_status make_copy(arena *arena, const char *bytes, size_t size, bool untrusted,
                       value *out) STATUS_CHECK;
/* The bytes must outlive the arena. */
clave_status make_borrowed(arena *arena, const char *bytes, size_t size, bool untrusted,
                           value *out) STATUS_CHECK;
clave_status concat_strings(arena *arena, const string *left, const string *right,
                            value *out) STATUS_CHECK;
/* Makes a string of `text`, which must outlive the arena. */
clave_status make_text(arena *arena, const char *text, value *out) STATUS_CHECK;
/* Makes a string of bytes [at, at + size) of string, which are not copied. */
clave_status make_part(arena *arena, const string *string, size_t at, size_t size,
                       value *out) STATUS_CHECK;
bool string_equal(const string *left, const string *right);
static inline bool string_is(const string *string, const char *literal) {
  if (!string->size || *string->data != *literal) return !string->size && !*literal;
  return string->size == strlen(literal) && memcmp(string->data, literal, string->size) == 0;
}
size_t string_length(const string *string); /* in code points */

/* ---- containers */
clave_status make_list(arena *arena, value_kind kind, size_t capacity, value *out) STATUS_CHECK;
clave_status list_add(arena *arena, list *list, value value) STATUS_CHECK;
clave_status make_pair(arena *arena, value first, value second, value *out) STATUS_CHECK;
clave_status make_dict(arena *arena, value_kind kind, value *out) STATUS_CHECK;
/* Fails with CLAVE_INVALID if the key is not hashable. */
clave_status dict_set(arena *arena, dict *dict, value key, value item) STATUS_CHECK;
/* Adds the entry only if the key is absent. */
clave_status dict_add(arena *arena, dict *dict, value key, value item, bool *added) STATUS_CHECK;
/* Sets *out to NULL if the key is absent. */
clave_status dict_find(const dict *dict, value key, value **out) STATUS_CHECK;
value *dict_find_text(const dict *dict, const string *key);
clave_status make_range(arena *arena, int64_t start, int64_t stop, int64_t step,
                        value *out) STATUS_CHECK;

/* ---- Python's operations on values */
const char *value_type(value value); /* "str", as in Python's errors */
bool value_truth(value value);
bool value_number(value value); /* bool, int or float */
double value_real(value number);
clave_status value_equal(arena *arena, value left, value right, bool *out) STATUS_CHECK;
/* Sets *out to -1, 0 or 1, or to 2 if the values are unordered (NaN). Fails with CLAVE_INVALID if
 * the types have no order. */
clave_status value_order(arena *arena, value left, value right, const char *operator_name,
                         int *out) STATUS_CHECK;
/* Sorts `left`, stably. by (may be NULL): the key of each item; it is not reordered. */
clave_status sort_values(arena *arena, list *left, list *by, bool reverse) STATUS_CHECK;
/* Sets *out to the items of an iteration, a list that must not be changed. Empties an iterator.
 * Fails with CLAVE_INVALID if the value is not iterable. */
clave_status value_items(arena *arena, value value, list *out) STATUS_CHECK;
/* Fails with CLAVE_INVALID if the value has no length. */
clave_status value_length(arena *arena, value value, int64_t *out) STATUS_CHECK;
clave_status value_contains(arena *arena, value item, value in, bool *out) STATUS_CHECK;

/* ---- text.c: text as written by str(), repr() and json.dumps() */
clave_status append_str(arena *arena, builder *builder, value value) STATUS_CHECK; /* str(v) */
clave_status append_repr(arena *arena, builder *builder, value value) STATUS_CHECK;
clave_status make_str(arena *arena, value subject, value *out) STATUS_CHECK;
void format_real(double d, char out[64]); /* the shortest text that reads back as d */
typedef struct json_style {
  bool ascii, sort;
  bool has_indent;
  const string *indent; /* per level */
  const string *item, *key;
} json_style;
clave_status append_json(arena *arena, builder *builder, value value, const json_style *style,
                         int depth) STATUS_CHECK;

#endif
