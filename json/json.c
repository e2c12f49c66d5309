/* JSON documents as values in memory, built from the events of syntax.c. */
#include "json/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

struct json {
  json_kind kind;
  bool is_true;
  const char *key;          /* key of a member; else NULL */
  const json *first, *next; /* first entry of an array or object; next sibling */
  const char *string;       /* value of a string */
  double number;            /* value of a number */
};

/* The allocation that json_free receives: the root value and the pool of all values. */
typedef struct document {
  json root;
  mem_pool *pool; /* owned; also contains this document */
} document;

void json_free(json *root) {
  if (root) mem_pool_destroy(((document *)(void *)root)->pool);
}

/* ---------------------------------------------------------------- building */

/* An array or object that is being read, and the last entry read so far. */
typedef struct open_value {
  json *value, *last;
} open_value;

typedef struct builder {
  document *document;
  open_value open[JSON_MAX_DEPTH + 1];
  int depth;
  const char *key; /* key of the next value */
  bool is_begun;
} builder;

/* Adds the next value to the innermost open array or object. Returns NULL when memory is out. */
static json *json_add_value(builder *builder, json_kind kind) {
  json *json = builder->is_begun ? mem_pool_alloc(builder->document->pool, 1, sizeof *json)
                                 : &builder->document->root;
  if (!json) return NULL;
  json->kind = kind;
  json->key = builder->key;
  builder->key = NULL;
  builder->is_begun = true;
  if (builder->depth == 0) return json;
  open_value *in = &builder->open[builder->depth - 1];
  if (in->last) {
    in->last->next = json;
  } else {
    in->value->first = json;
  }
  in->last = json;
  return json;
}

static clave_status json_begin_value(builder *builder, json_kind kind) {
  json *json = json_add_value(builder, kind);
  if (!json) return status_no_memory();
  builder->open[builder->depth++] = (open_value){.value = json};
  return NULL;
}

static double json_read_number(span token) {
  char digits[JSON_MAX_NUMBER + 1];
  memcpy(digits, token.data, token.size);
  digits[token.size] = '\0';
  return number_read(digits, NULL);
}

static clave_status add_scalar(builder *builder, json_event event, span token) {
  static const json_kind kinds[] = {[JSON_EVENT_STRING] = JSON_STRING,
                                    [JSON_EVENT_NUMBER] = JSON_NUMBER,
                                    [JSON_EVENT_WORD] = JSON_BOOL};
  json *json = json_add_value(builder, kinds[event]);
  if (!json) return status_no_memory();
  if (event == JSON_EVENT_NUMBER) json->number = json_read_number(token);
  if (event == JSON_EVENT_WORD && *token.data == 'n') json->kind = JSON_NULL;
  if (event == JSON_EVENT_WORD) json->is_true = *token.data == 't';
  if (event != JSON_EVENT_STRING) return NULL;
  json->string = mem_pool_strdup(builder->document->pool, token.data, token.size);
  return json->string ? NULL : status_no_memory();
}

static clave_status json_receive_event(void *ctx, json_event event, span token) {
  builder *builder = ctx;
  switch (event) {
    case JSON_EVENT_OBJECT:
      return json_begin_value(builder, JSON_OBJECT);
    case JSON_EVENT_ARRAY:
      return json_begin_value(builder, JSON_ARRAY);
    case JSON_EVENT_END:
      builder->depth--;
      return NULL;
    case JSON_EVENT_KEY:
      builder->key = mem_pool_strdup(builder->document->pool, token.data, token.size);
      return builder->key ? NULL : status_no_memory();
    default:
      return add_scalar(builder, event, token);
  }
}

/* ---------------------------------------------------------------- keys */

static int json_compare_keys(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Fails if an object has a key twice. Sorts the keys to find duplicates. */
static clave_status check_keys(const json *object) {
  size_t n = json_count(object), i = 0;
  if (n < 2) return NULL;
  const char **keys = calloc(n, sizeof *keys);
  if (!keys) return status_no_memory();
  for (const json *v = object->first; v; v = v->next) keys[i++] = v->key;
  qsort(keys, n, sizeof *keys, json_compare_keys);
  clave_status st = NULL;
  for (i = 1; i < n && !st; i++) {
    if (strcmp(keys[i - 1], keys[i]) == 0)
      st = INVALID("JSON: key \"%.200s\" appears twice in an object", keys[i]);
  }
  free(keys);
  return st;
}

static clave_status check_all_keys(const json *value) {
  if (value->kind == JSON_OBJECT) TRY(check_keys(value));
  for (const json *c = value->first; c; c = c->next) {
    if (c->first) TRY(check_all_keys(c));
  }
  return NULL;
}

/* ---------------------------------------------------------------- documents */

static clave_status create_document(document **out) {
  mem_pool *pool;
  TRY(mem_pool_create(&pool));
  *out = mem_pool_alloc(pool, 1, sizeof **out);
  if (!*out) {
    mem_pool_destroy(pool);
    return status_no_memory();
  }
  (*out)->pool = pool;
  return NULL;
}

static clave_status parse(const char *source, size_t size, unsigned rules, json **out) {
  builder builder = {.depth = 0};
  *out = NULL;
  TRY(create_document(&builder.document));
  clave_status st = json_walk(source, size, rules | JSON_NO_NUL, json_receive_event, &builder);
  if (!st) st = check_all_keys(&builder.document->root);
  if (st) {
    json_free(&builder.document->root);
    return st;
  }
  *out = &builder.document->root;
  return NULL;
}

clave_status json_parse(const char *source, size_t size, json **out) {
  return parse(source, size, 0, out);
}

clave_status json_parse_integers(const char *source, size_t size, json **out) {
  return parse(source, size, JSON_INTEGERS, out);
}

/* ---------------------------------------------------------------- values */

json_kind json_kind_of(const json *json) { return json->kind; }

const char *json_kind_name(json_kind kind) {
  static const char *const names[] = {"null",     "a boolean", "a number",
                                      "a string", "an array",  "an object"};
  return names[kind];
}

const json *json_first(const json *json) { return json->first; }
const json *json_next(const json *json) { return json->next; }
const char *json_key(const json *json) { return json->key; }
const char *json_string(const json *json) { return json->string; }
bool json_is_true(const json *json) { return json->is_true; }
double json_number(const json *json) { return json->number; }

uint32_t json_count(const json *value) {
  uint32_t n = 0;
  for (const json *c = value->first; c; c = c->next) n++;
  return n;
}

const json *json_member(const json *object, const char *key) {
  for (const json *c = object->first; c; c = c->next) {
    if (strcmp(c->key, key) == 0) return c;
  }
  return NULL;
}

/* True if the text consists of digits, after an optional minus if `sign`. */
static bool is_digits(const char *text, bool sign) {
  if (sign && *text == '-') text++;
  if (!*text) return false;
  while (*text >= '0' && *text <= '9') text++;
  return !*text;
}

/* True for integers below 2^53 in magnitude: the text 2^53 + 1 also reads as the double 2^53. */
static bool exact_number(const json *json, double *out) {
  *out = json_number(json);
  return fabs(*out) < 0x1p53 && *out == floor(*out);
}

bool json_i64(const json *json, int64_t *out) {
  double number;
  if (json_kind_of(json) == JSON_NUMBER) {
    if (!exact_number(json, &number)) return false;
    *out = (int64_t)number;
    return true;
  }
  if (json_kind_of(json) != JSON_STRING || !is_digits(json_string(json), true)) return false;
  errno = 0;
  *out = strtoll(json_string(json), NULL, 10);
  return errno == 0;
}

bool json_u64(const json *json, uint64_t *out) {
  double number;
  if (json_kind_of(json) == JSON_NUMBER) {
    if (!exact_number(json, &number) || number < 0) return false;
    *out = (uint64_t)number;
    return true;
  }
  if (json_kind_of(json) != JSON_STRING || !is_digits(json_string(json), false)) return false;
  errno = 0;
  *out = strtoull(json_string(json), NULL, 10);
  return errno == 0;
}

bool json_f64(const json *json, double *out) {
  static const struct {
    const char *name;
    double value;
  } names[] = {{"nan", (double)NAN}, {"inf", (double)INFINITY}, {"-inf", -(double)INFINITY}};
  if (json_kind_of(json) == JSON_NUMBER) {
    *out = json_number(json);
    return isfinite(*out); /* 1e999 is not a double */
  }
  if (json_kind_of(json) != JSON_STRING) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(json_string(json), names[i].name) != 0) continue;
    *out = names[i].value;
    return true;
  }
  return false;
}
