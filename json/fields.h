#ifndef JSON_FIELDS_H
#define JSON_FIELDS_H
/* Reads the fields of JSON objects by type; errors state what was found and what was expected. */
#include "base/memory.h"
#include "json/json.h"

/* Returns NULL if the field is absent or null. */
const json *field_or_null(const json *object, const char *key);
/* Returns NULL if the field is absent or not a string, or `object` is not an object. */
const char *text_or_null(const json *object, const char *key);
clave_status field(const json *object, const char *key, json_kind kind,
                   const json **out) STATUS_CHECK;
/* Sets *out to `otherwise` if the field is absent or null. */
clave_status field_bool(const json *object, const char *key, bool otherwise,
                        bool *out) STATUS_CHECK;
/* Reads an integer from 0 to max; `otherwise` may be larger. */
clave_status field_index(const json *object, const char *key, uint32_t max, uint32_t otherwise,
                         uint32_t *out) STATUS_CHECK;
/* Reads a string of the document. If absent or null: `otherwise`, or an error if that is NULL. */
clave_status field_text(const json *object, const char *key, const char *otherwise,
                        span *out) STATUS_CHECK;
clave_status field_character(const json *object, const char *key, uint32_t *out) STATUS_CHECK;

/* One of several names. The error lists them all. */
typedef struct field_choice {
  const char *name;
  int value;
} field_choice;
clave_status field_choose(const json *object, const char *key, const field_choice *choices,
                          size_t n, int otherwise /* -1: required */, int *out) STATUS_CHECK;

clave_status json_expect(const json *json, json_kind kind) STATUS_CHECK;
clave_status json_index(const json *json, uint32_t max, uint32_t *out) STATUS_CHECK;
span json_text(const json *string);

#endif
