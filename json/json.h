#ifndef JSON_JSON_H
#define JSON_JSON_H
/* Strict JSON documents (RFC 8259). A parsed document is valid UTF-8 with bounded depth; it has no
 * duplicate keys, no NUL in strings and nothing after the value. fields.h reads fields of objects
 * by type, writer.h writes JSON. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

enum {
  JSON_MAX_DEPTH = 64,      /* nesting of arrays and objects */
  JSON_MAX_NUMBER = 60,     /* characters of a number */
  JSON_MAX_VALUES = 8 << 20 /* values of a document; each uses 64 bytes of memory */
};

typedef struct json json; /* a value within a document */
typedef enum json_kind {
  JSON_NULL,
  JSON_BOOL,
  JSON_NUMBER,
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT
} json_kind;

/* Parses a document. Errors name the column, and the line if there are several. */
clave_status json_parse(const char *source, size_t size, json **out) STATUS_CHECK;
/* Like json_parse, but fails unless every number is written as an integer. */
clave_status json_parse_integers(const char *source, size_t size, json **out) STATUS_CHECK;
void json_free(json *document); /* accepts NULL */
/* Reads a document that is one string: appends its bytes, which may include NUL. */
clave_status json_read_string(const char *source, size_t size, text *out) STATUS_CHECK;
/* Reads a document that is an array of integers from 0 to 2^32 - 1. out: space for size / 2
 * numbers. */
clave_status json_read_u32s(const char *source, size_t size, uint32_t *out,
                            size_t *count) STATUS_CHECK;

/* Reads a document as a sequence of events, without storing it. Strings may contain NUL, numbers
 * are passed as written, and keys may be duplicates. The text that `receive` gets is valid only
 * during the call. If `receive` is NULL, only the syntax is checked. */
typedef enum json_event {
  JSON_EVENT_OBJECT,
  JSON_EVENT_ARRAY,
  JSON_EVENT_END, /* ends the innermost object or array */
  JSON_EVENT_KEY,
  JSON_EVENT_STRING,
  JSON_EVENT_NUMBER,
  JSON_EVENT_WORD /* true, false, null */
} json_event;
typedef clave_status (*json_receiver)(void *ctx, json_event event, span text);
typedef enum json_rules {                    /* flags: what a document must not have */
                          JSON_INTEGERS = 1, /* numbers with a fraction or an exponent */
                          JSON_NO_NUL = 2    /* NUL in strings */
} json_rules;
clave_status json_walk(const char *source, size_t size, unsigned rules, json_receiver receive,
                       void *ctx) STATUS_CHECK;

json_kind json_kind_of(const json *json);
const char *json_kind_name(json_kind kind); /* "a string" */
const json *json_first(const json *json);   /* first entry of an array or object, NULL if empty */
const json *json_next(const json *json);    /* the next sibling, or NULL */
uint32_t json_count(const json *json);      /* entries of an array or object */
const char *json_key(const json *json);     /* key of a member of an object */
const json *json_member(const json *object, const char *key); /* NULL if absent */
const char *json_string(const json *json);                    /* value of a string */
bool json_is_true(const json *json);
double json_number(const json *json); /* value of a number */

/* Read an exact integer: a number without fraction below 2^53 in magnitude, or a string of digits.
 * Return false if the value is neither or does not fit. */
bool json_i64(const json *json, int64_t *out);
bool json_u64(const json *json, uint64_t *out);
/* Reads a number, or one of "nan", "inf", "-inf". */
bool json_f64(const json *json, double *out);

/* Fails unless the text is exactly one JSON value, without NUL in strings. If `integers`, a number
 * with a fraction or an exponent is an error. */
clave_status json_check_syntax(const char *source, size_t size, bool integers) STATUS_CHECK;

#endif
