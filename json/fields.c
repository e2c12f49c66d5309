/* Reads the fields of JSON objects by type. */
#include "json/fields.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

span json_text(const json *string) {
  return (span){json_string(string), strlen(json_string(string))};
}

clave_status json_expect(const json *json, json_kind kind) {
  if (json_kind_of(json) == kind) return NULL;
  return INVALID("expected %s, got %s", json_kind_name(kind), json_kind_name(json_kind_of(json)));
}

clave_status json_index(const json *json, uint32_t max, uint32_t *out) {
  int64_t value;
  if (json_kind_of(json) != JSON_NUMBER || !json_i64(json, &value) || value < 0 || value > max) {
    return INVALID("expected an integer from 0 to %" PRIu32, max);
  }
  *out = (uint32_t)value;
  return NULL;
}

const json *field_or_null(const json *object, const char *key) {
  const bool is_object = object && json_kind_of(object) == JSON_OBJECT;
  const json *member = is_object ? json_member(object, key) : NULL;
  return member && json_kind_of(member) != JSON_NULL ? member : NULL;
}

const char *text_or_null(const json *object, const char *key) {
  const json *member = field_or_null(object, key);
  return member && json_kind_of(member) == JSON_STRING ? json_string(member) : NULL;
}

clave_status field(const json *object, const char *key, json_kind kind, const json **out) {
  TRY(json_expect(object, JSON_OBJECT));
  *out = json_member(object, key);
  if (!*out)
    return INVALID("expected %s as \"%s\", but the member is missing", json_kind_name(kind), key);
  return status_while(json_expect(*out, kind), "\"%s\"", key);
}

clave_status field_bool(const json *object, const char *key, bool otherwise, bool *out) {
  const json *member = field_or_null(object, key);
  *out = otherwise;
  if (!member) return NULL;
  TRY(status_while(json_expect(member, JSON_BOOL), "\"%s\"", key));
  *out = json_is_true(member);
  return NULL;
}

clave_status field_index(const json *object, const char *key, uint32_t max, uint32_t otherwise,
                         uint32_t *out) {
  const json *member = field_or_null(object, key);
  *out = otherwise;
  return member ? status_while(json_index(member, max, out), "\"%s\"", key) : NULL;
}

clave_status field_text(const json *object, const char *key, const char *otherwise, span *out) {
  const json *member = field_or_null(object, key);
  if (!member && otherwise) {
    *out = (span){otherwise, strlen(otherwise)};
    return NULL;
  }
  TRY(field(object, key, JSON_STRING, &member));
  *out = json_text(member);
  return NULL;
}

clave_status field_character(const json *object, const char *key, uint32_t *out) {
  span span;
  TRY(field_text(object, key, NULL, &span));
  if (span.size == 0 || utf8_read(span.data, out) != span.size) {
    return INVALID("\"%s\": expected one character, got \"%.40s\"", key, span.data);
  }
  return NULL;
}

static clave_status no_such_choice(span given, const char *key, const field_choice *choices,
                                   size_t n) {
  text names = {0};
  for (size_t i = 0; i < n; i++) {
    text_printf(&names, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", choices[i].name);
  }
  clave_status st = text_status(&names);
  if (!st) {
    st = UNSUPPORTED("\"%s\": expected %s, got \"%.60s\"", key, names.data, given.data);
  }
  text_free(&names);
  return st;
}

clave_status field_choose(const json *object, const char *key, const field_choice *choices,
                          size_t n, int otherwise, int *out) {
  span given;
  *out = otherwise;
  if (otherwise >= 0 && !field_or_null(object, key)) return NULL;
  TRY(field_text(object, key, NULL, &given));
  for (size_t i = 0; i < n; i++) {
    if (strcmp(choices[i].name, given.data) != 0) continue;
    *out = choices[i].value;
    return NULL;
  }
  return no_such_choice(given, key, choices, n);
}
