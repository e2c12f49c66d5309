#ifndef LLM_TEMPLATE_H
#define LLM_TEMPLATE_H
/* The objects that implement clave_template.h. */
#include "base/memory.h"
#include "clave_template.h"
#include "jinja/jinja.h"

typedef struct named_template {
  char *name;            /* owned */
  jinja_template *jinja; /* owned */
} named_template;

struct clave_template {
  named_template *items; /* owned; the one named "default", if any, is first */
  size_t count, capacity;
  char *bos, *eos; /* owned; NULL if unknown */
};

/* Parses a template and adds it. */
clave_status template_add(clave_template *template, const char *name, const char *source,
                          size_t size) STATUS_CHECK;
/* Adds a template, given by the name of a built-in or by its text. */
clave_status template_add_given(clave_template *template, const char *given) STATUS_CHECK;
/* chat_parts.c: rewrites contents that are lists of parts to what the template can read. *in then
 * points to the messages in `out`, which must be empty. Without such contents nothing changes. */
clave_status template_join_parts(const clave_template *template, clave_template_inputs *in,
                                 text *out) STATUS_CHECK;
/* Implements clave_template_ignores. */
clave_status template_ignores(const clave_template *template, const clave_template_inputs *inputs,
                              bool *tools, bool *documents) STATUS_CHECK;
/* Same as template_render, without joining parts of contents. */
clave_status template_render_as_given(const clave_template *template,
                                      const clave_template_inputs *in, bool marked,
                                      jinja_output *out) STATUS_CHECK;
/* Implements clave_template_render for inputs that were read by sized_read. marked: records which
 * bytes of the output come from messages, tools and documents, which is slower. */
clave_status template_render(const clave_template *template, const clave_template_inputs *inputs,
                             bool marked, jinja_output *out) STATUS_CHECK;

/* Moves the text out of a rendering for the caller to free, and frees the rest. */
clave_status template_take_text(jinja_output *output, char **out, size_t *size) STATUS_CHECK;

/* template.c: appends the names of the built-in templates, "llama3, chatml". */
void template_list_builtins(text *out);
/* chat_templates.c */
typedef struct builtin_template {
  const char *name, *text;
} builtin_template;
extern const builtin_template builtin_templates[];
const char *builtin_text(const char *name); /* NULL if none exists */

#endif
