#ifndef JINJA_JINJA_H
#define JINJA_JINJA_H
/* Chat templates: the part of Jinja2 that those published with models use, with the settings and
 * additions of transformers (trim_blocks, lstrip_blocks, loop controls, the immutable sandbox,
 * tojson without HTML escapes, raise_exception, strftime_now, generation blocks). A template opens
 * no file and runs for a bounded number of steps. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

enum {
  JINJA_MAX_STEPS = 20 << 20,   /* nodes evaluated, and 64 bytes or values handled for each */
  JINJA_MAX_DEPTH = 120,        /* nested expressions, blocks and macro calls, each by its own */
  JINJA_MAX_MEMORY = 256 << 20, /* of values made while rendering */
  JINJA_MAX_OUTPUT = 64 << 20
};

/* Read-only once parsed: threads may share one. */
typedef struct jinja_template jinja_template;
/* Errors name line and column. CLAVE_UNSUPPORTED: what Jinja has and we have not. */
clave_status jinja_parse(const char *source, size_t size, jinja_template **out) STATUS_CHECK;
void jinja_destroy(jinja_template *template); /* takes NULL */

typedef enum jinja_origin {
  JINJA_TRUSTED, /* special tokens in its texts count */
  JINJA_WRITTEN, /* texts in it were written by people: they stay text wherever they are printed */
  JINJA_MESSAGES /* as JINJA_WRITTEN, but for the well-known names of roles */
} jinja_origin;

typedef struct jinja_input {
  const char *name;  /* NULL: `value` is an object, whose members are inputs each */
  const char *value; /* JSON, or the text itself */
  size_t size;
  bool is_text;
  jinja_origin origin;
} jinja_input;

typedef struct jinja_options {
  const jinja_input *inputs; /* of two of a name the last counts */
  size_t n_inputs;
  int64_t now; /* what strftime_now calls now: seconds since 1970, in the local time zone; 0: the
                  clock's */
} jinja_options;

/* What was printed. written: a byte for each, 1 where a text of JINJA_WRITTEN stands; without data:
 * none does. */
typedef struct jinja_output {
  text text, written;
} jinja_output;
/* A template that raises an exception is CLAVE_INVALID with its message alone. */
clave_status jinja_render(const jinja_template *template, const jinja_options *options,
                          jinja_output *out) STATUS_CHECK;
void jinja_output_free(jinja_output *output);

/* The texts that stand in the template itself, in order; NULL after the last. */
const char *jinja_literal(const jinja_template *template, size_t index, size_t *size);

#endif
