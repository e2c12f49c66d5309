#ifndef JSON_FIELDS_H
#define JSON_FIELDS_H
/* Reads the fields of JSON objects by type; errors state what was found and what was expected. */
#include "base/memory.h"
#include "json/json.h"

/* Returns NULL if the field is absent or null, or `object` is not an object or NULL. */
const json *field_or_null(const json *object, const char *key);
/* Returns NULL if the field is absent or not a string, or `object` is not an object or NULL. */
const char *text_or_null(const json *object, const char *key);
/* Sets *out to the field, of this kind. Fails with INVALID if it is absent or of another kind. */
clave_status field(const json *object, const char *key, json_kind kind,
                   const json **out) STATUS_CHECK;
/* Sets *out to `otherwise` if the field is absent or null. */
clave_status field_bool(const json *object, const char *key, bool otherwise,
                        bool *out) STATUS_CHECK;
/* Reads an integer from 0 to max. Sets *out to `otherwise`, which may be larger than max, if the
 * field is absent or null. */
clave_status field_index(const json *object, const char *key, uint32_t max, uint32_t otherwise,
                         uint32_t *out) STATUS_CHECK;
/* Reads a string; *out borrows it from the document. If the field is absent or null, *out is
 * `otherwise`; if `otherwise` is NULL, this is an error. */
clave_status field_text(const json *object, const char *key, const char *otherwise,
                        span *out) STATUS_CHECK;
/* Sets *out to the code point of a string of one character. Fails with INVALID if the field is
 * anything else. */
clave_status field_character(const json *object, const char *key, uint32_t *out) STATUS_CHECK;

/* A name that field_choose accepts, and the value that it stands for. */
typedef struct field_choice {
  const char *name;
  int value;
} field_choice;
/* Sets *out to the value of the choice that the string names. If the field is absent or null, sets
 * *out to `otherwise`, or fails with INVALID if `otherwise` is -1. Fails with UNSUPPORTED on
 * another name; the message lists all names. */
clave_status field_choose(const json *object, const char *key, const field_choice *choices,
                          size_t n, int otherwise /* -1: required */, int *out) STATUS_CHECK;

/* Fails with INVALID if the value is of another kind. */
clave_status json_expect(const json *json, json_kind kind) STATUS_CHECK;
/* Reads an integer from 0 to max; fails with INVALID on any other value. */
clave_status json_index(const json *json, uint32_t max, uint32_t *out) STATUS_CHECK;
span json_text(const json *string); /* borrows the bytes of a string */

#endif
