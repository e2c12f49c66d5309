/* Documents as trees of values: built from what json_walk reads, in one pool. */
#include "json/json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct json {
  json *next, *child; /* the next in its array or object; the first of those within */
  const char *key;    /* of a member of an object, else NULL */
  union {
    const char *string;
    double number;
    bool is_true;
  };
  json_kind kind;
};

/* json_free finds the pool, which holds this too, behind the root. */
typedef struct document {
  json root;
  mem_pool *pool; /* owned */
} document;

void json_free(json *root) {
  if (root) mem_pool_destroy(((document *)(void *)root)->pool);
}

static int compare_keys(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuses an object that has a key twice: sorts the keys. */
static clave_status check_keys(const json *object) {
  size_t n = json_count(object), i = 0;
  if (n < 2) return NULL;
  const char **keys = calloc(n, sizeof *keys);
  if (!keys) return status_no_memory();
  for (const json *v = object->child; v; v = v->next) keys[i++] = v->key;
  qsort(keys, n, sizeof *keys, compare_keys);
  clave_status st = NULL;
  for (i = 1; i < n && !st; i++) {
    if (strcmp(keys[i - 1], keys[i]) == 0)
      st = INVALID("JSON: key \"%.200s\" twice in an object", keys[i]);
  }
  free(keys);
  return st;
}

static clave_status check_all_keys(const json *v) {
  if (v->kind == JSON_OBJECT) TRY(check_keys(v));
  for (const json *c = v->child; c; c = c->next) {
    if (c->child) TRY(check_all_keys(c));
  }
  return NULL;
}

typedef struct building {
  document *document;
  json **end[JSON_MAX_DEPTH + 1]; /* where the next value goes, at each depth */
  size_t depth;
  const char *key; /* of the next value */
  locale_t plain;  /* numbers have a point, whatever the host's locale says */
} building;

/* By an event that begins a value; a word is told by its first letter. */
static json_kind kind_of(json_event event, char first) {
  static const json_kind kinds[] = {[JSON_EVENT_OBJECT] = JSON_OBJECT,
                                    [JSON_EVENT_ARRAY] = JSON_ARRAY,
                                    [JSON_EVENT_STRING] = JSON_STRING,
                                    [JSON_EVENT_NUMBER] = JSON_NUMBER};
  if (event == JSON_EVENT_WORD) return first == 'n' ? JSON_NULL : JSON_BOOL;
  return kinds[event];
}

/* The syntax has bounded a number's length. */
static double read_number(span digits, locale_t plain) {
  char copy[JSON_MAX_NUMBER + 1] = "";
  memcpy(copy, digits.data, digits.size);
  return strtod_l(copy, NULL, plain);
}

static clave_status add_value(building *b, json_event event, span bytes) {
  mem_pool *pool = b->document->pool;
  json *v = b->depth ? mem_pool_alloc(pool, 1, sizeof *v) : &b->document->root;
  if (!v) return status_no_memory();
  v->kind = kind_of(event, *bytes.data);
  v->key = b->key;
  b->key = NULL;
  if (v->kind == JSON_STRING && !(v->string = mem_pool_strdup(pool, bytes.data, bytes.size)))
    return status_no_memory();
  if (v->kind == JSON_NUMBER) v->number = read_number(bytes, b->plain);
  if (v->kind == JSON_BOOL) v->is_true = *bytes.data == 't';
  if (b->depth) {
    *b->end[b->depth] = v;
    b->end[b->depth] = &v->next;
  }
  if (v->kind == JSON_OBJECT || v->kind == JSON_ARRAY) b->end[++b->depth] = &v->child;
  return NULL;
}

static clave_status take_event(void *ctx, json_event event, span bytes) {
  building *b = ctx;
  if (event == JSON_EVENT_KEY) {
    b->key = mem_pool_strdup(b->document->pool, bytes.data, bytes.size);
    return b->key ? NULL : status_no_memory();
  }
  if (event != JSON_EVENT_END) return add_value(b, event, bytes);
  b->depth--;
  return NULL;
}

static clave_status build(const char *source, size_t size, document *d) {
  building b = {.document = d, .plain = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
  if (!b.plain) return status_no_memory();
  clave_status st = json_walk(source, size, take_event, &b);
  freelocale(b.plain);
  return st ? st : check_all_keys(&d->root);
}

static clave_status parse(const char *source, size_t size, bool integers, json **out) {
  mem_pool *pool;
  *out = NULL;
  TRY(json_check_syntax(source, size, integers));
  TRY(mem_pool_create(&pool));
  document *d = mem_pool_alloc(pool, 1, sizeof *d);
  clave_status st = d ? NULL : status_no_memory();
  if (d) d->pool = pool;
  if (!st) st = build(source, size, d);
  if (st) {
    mem_pool_destroy(pool);
    return st;
  }
  *out = &d->root;
  return NULL;
}

clave_status json_parse(const char *source, size_t size, json **out) {
  return parse(source, size, false, out);
}

clave_status json_parse_integers(const char *source, size_t size, json **out) {
  return parse(source, size, true, out);
}

json_kind json_kind_of(const json *v) { return v->kind; }

const char *json_kind_name(json_kind kind) {
  static const char *const names[] = {"null",     "a boolean", "a number",
                                      "a string", "an array",  "an object"};
  return names[kind];
}

const json *json_first(const json *v) { return v->child; }
const json *json_next(const json *v) { return v->next; }
const char *json_key(const json *v) { return v->key; }
const char *json_string(const json *v) { return v->kind == JSON_STRING ? v->string : NULL; }
bool json_is_true(const json *v) { return v->kind == JSON_BOOL && v->is_true; }
double json_number(const json *v) { return v->kind == JSON_NUMBER ? v->number : 0; }

uint32_t json_count(const json *v) {
  uint32_t n = 0;
  for (const json *c = v->child; c; c = c->next) n++;
  return n;
}

const json *json_member(const json *object, const char *key) {
  for (const json *c = object->child; c; c = c->next) {
    if (strcmp(c->key, key) == 0) return c;
  }
  return NULL;
}

/* Digits only, with a minus sign if `sign`. */
static bool is_digits(const char *s, bool sign) {
  if (sign && *s == '-') s++;
  if (!*s) return false;
  while (*s >= '0' && *s <= '9') s++;
  return !*s;
}

/* Below 2^53: the text 2^53 + 1 reads as the double 2^53 too. */
static bool exact_number(const json *v, double *out) {
  *out = json_number(v);
  return fabs(*out) < 0x1p53 && *out == floor(*out);
}

bool json_i64(const json *v, int64_t *out) {
  double number;
  if (json_kind_of(v) == JSON_NUMBER) {
    if (!exact_number(v, &number)) return false;
    *out = (int64_t)number;
    return true;
  }
  if (json_kind_of(v) != JSON_STRING || !is_digits(json_string(v), true)) return false;
  errno = 0;
  *out = strtoll(json_string(v), NULL, 10);
  return errno == 0;
}

bool json_u64(const json *v, uint64_t *out) {
  double number;
  if (json_kind_of(v) == JSON_NUMBER) {
    if (!exact_number(v, &number) || number < 0) return false;
    *out = (uint64_t)number;
    return true;
  }
  if (json_kind_of(v) != JSON_STRING || !is_digits(json_string(v), false)) return false;
  errno = 0;
  *out = strtoull(json_string(v), NULL, 10);
  return errno == 0;
}

bool json_f64(const json *v, double *out) {
  static const struct {
    const char *name;
    double value;
  } names[] = {{"nan", (double)NAN}, {"inf", (double)INFINITY}, {"-inf", -(double)INFINITY}};
  if (json_kind_of(v) == JSON_NUMBER) {
    *out = json_number(v);
    return isfinite(*out); /* 1e999 is no double */
  }
  if (json_kind_of(v) != JSON_STRING) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(json_string(v), names[i].name) != 0) continue;
    *out = names[i].value;
    return true;
  }
  return false;
}
