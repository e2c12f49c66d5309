/* JSON values behind our own names: the only includer of cJSON. */
#include "json/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* json is cJSON; the casts keep cJSON.h out of the header. */
static const cJSON *item(const json *v) { return (const cJSON *)(const void *)v; }
static const json *value(const cJSON *c) { return (const json *)(const void *)c; }

void json_free(json *document) { cJSON_Delete((cJSON *)(void *)document); }

static int compare_keys(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuses an object that has a key twice: sorts the keys. */
static clave_status check_keys(const cJSON *object) {
  size_t n = 0, i = 0;
  for (const cJSON *c = object->child; c; c = c->next) n++;
  if (n < 2) return NULL;
  const char **keys = calloc(n, sizeof *keys);
  if (!keys) return status_no_memory();
  for (const cJSON *c = object->child; c; c = c->next) keys[i++] = c->string;
  qsort(keys, n, sizeof *keys, compare_keys);
  clave_status st = NULL;
  for (i = 1; i < n && !st; i++) {
    if (strcmp(keys[i - 1], keys[i]) == 0)
      st = INVALID("JSON: key \"%.200s\" twice in an object", keys[i]);
  }
  free(keys);
  return st;
}

static clave_status check_all_keys(const cJSON *v) {
  if (cJSON_IsObject(v)) TRY(check_keys(v));
  for (const cJSON *c = v->child; c; c = c->next) {
    if (c->child) TRY(check_all_keys(c));
  }
  return NULL;
}

static clave_status parse(const char *source, size_t size, bool integers, json **out) {
  *out = NULL;
  TRY(json_check_syntax(source, size, integers));
  cJSON *root = cJSON_ParseWithLength(source, size);
  if (!root) return status_no_memory(); /* the syntax is good */
  clave_status st = check_all_keys(root);
  if (st) {
    cJSON_Delete(root);
    return st;
  }
  *out = (json *)(void *)root;
  return NULL;
}

clave_status json_parse(const char *source, size_t size, json **out) {
  return parse(source, size, false, out);
}

clave_status json_parse_integers(const char *source, size_t size, json **out) {
  return parse(source, size, true, out);
}

json_kind json_kind_of(const json *v) {
  switch (item(v)->type & 0xFF) {
    case cJSON_True:
    case cJSON_False:
      return JSON_BOOL;
    case cJSON_Number:
      return JSON_NUMBER;
    case cJSON_String:
      return JSON_STRING;
    case cJSON_Array:
      return JSON_ARRAY;
    case cJSON_Object:
      return JSON_OBJECT;
    default:
      return JSON_NULL;
  }
}

const char *json_kind_name(json_kind kind) {
  static const char *const names[] = {"null",     "a boolean", "a number",
                                      "a string", "an array",  "an object"};
  return names[kind];
}

const json *json_first(const json *v) { return value(item(v)->child); }
const json *json_next(const json *v) { return value(item(v)->next); }
const char *json_key(const json *v) { return item(v)->string; }
const char *json_string(const json *v) { return item(v)->valuestring; }
bool json_is_true(const json *v) { return cJSON_IsTrue(item(v)); }
double json_number(const json *v) { return item(v)->valuedouble; }

uint32_t json_count(const json *v) {
  uint32_t n = 0;
  for (const cJSON *c = item(v)->child; c; c = c->next) n++;
  return n;
}

const json *json_member(const json *object, const char *key) {
  for (const cJSON *c = item(object)->child; c; c = c->next) {
    if (strcmp(c->string, key) == 0) return value(c);
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
