#ifndef JINJA_JINJA_H
#define JINJA_JINJA_H
/* Chat templates: the part of Jinja2 that published models use, with the settings and extensions
 * of transformers (trim_blocks, lstrip_blocks, loop controls, the immutable sandbox, tojson
 * without HTML escapes, raise_exception, strftime_now, generation blocks). A template opens no
 * files and runs for a bounded number of steps. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

enum {
  JINJA_MAX_STEPS = 20 << 20,   /* a step is a node evaluated, or 64 bytes or values processed */
  JINJA_MAX_DEPTH = 120,        /* separate limits for nested expressions, blocks and macro calls */
  JINJA_MAX_MEMORY = 256 << 20, /* bytes of the values created while rendering */
  JINJA_MAX_OUTPUT = 64 << 20
};

/* Immutable once parsed; threads may share one. */
typedef struct jinja_template jinja_template;
/* Parses a template. Errors contain line and column. Fails with CLAVE_UNSUPPORTED if a template is
 * valid in Jinja2 but not supported here. */
clave_status jinja_parse(const char *source, size_t size, jinja_template **out) STATUS_CHECK;
void jinja_destroy(jinja_template *template); /* accepts NULL */

typedef enum jinja_origin {
  JINJA_TRUSTED,   /* special tokens are recognized in the input's texts */
  JINJA_UNTRUSTED, /* texts written by users: no special tokens are recognized in them, wherever
                    they are printed */
  JINJA_MESSAGES /* same as JINJA_UNTRUSTED, except that well-known role names are trusted as values
                    of "role" */
} jinja_origin;

typedef struct jinja_input {
  const char *name;  /* NULL: `value` is an object, each of whose members is an input */
  const char *value; /* JSON, or if is_text the text itself */
  size_t size;
  bool is_text;
  jinja_origin origin;
} jinja_input;

typedef struct jinja_options {
  const jinja_input *inputs; /* if several have the same name, the last is used */
  size_t n_inputs;
  int64_t now; /* current time for strftime_now: seconds since 1970, shown in the local time zone;
                  0: the time of the clock */
} jinja_options;

/* The rendered text. untrusted: a byte for each byte of text, 1 if it comes from an input that is
 * not JINJA_TRUSTED; empty if no byte does. */
typedef struct jinja_output {
  text text, untrusted;
} jinja_output;
/* Renders a template. If the template raises an exception, fails with CLAVE_INVALID and only the
 * exception's message. */
clave_status jinja_render(const jinja_template *template, const jinja_options *options,
                          jinja_output *out) STATUS_CHECK;
void jinja_output_free(jinja_output *output);

/* Returns text number `index` of the template's texts outside of blocks; NULL after the last. */
const char *jinja_literal(const jinja_template *template, size_t index, size_t *size);

#endif
