#ifndef LLM_TEMPLATE_H
#define LLM_TEMPLATE_H
/* The objects behind clave_template.h. */
#include "base/memory.h"
#include "clave_template.h"
#include "jinja/jinja.h"

typedef struct named_template {
  char *name;            /* owned */
  jinja_template *jinja; /* owned */
} named_template;

struct clave_template {
  named_template *items; /* owned; the first is "default" if there is one */
  size_t count, capacity;
  char *bos, *eos; /* owned; NULL: not known */
};

/* Parses a template and adds it. */
clave_status template_add(clave_template *template, const char *name, const char *source,
                          size_t size) STATUS_CHECK;
/* Adds what `said` is: a built-in template's name, or a text. */
clave_status template_add_said(clave_template *template, const char *said) STATUS_CHECK;
/* chat_parts.c: rewrites contents that are lists of parts into a form that the template reads. *in
 * then points to the messages in `out` (empty before); without such contents nothing changes. */
clave_status template_join_parts(const clave_template *template, clave_template_inputs *in,
                                 text *out) STATUS_CHECK;
/* As clave_template_ignores. */
clave_status template_ignores(const clave_template *template, const clave_template_inputs *inputs,
                              bool *tools, bool *documents) STATUS_CHECK;
/* As template_render, with contents as they are given. */
clave_status template_render_as_given(const clave_template *template,
                                      const clave_template_inputs *in, bool marked,
                                      jinja_output *out) STATUS_CHECK;
/* As clave_template_render, for inputs that were read by sized_read; marked: with what of the text
 * stands in messages, tools and documents marked, which takes longer. */
clave_status template_render(const clave_template *template, const clave_template_inputs *inputs,
                             bool marked, jinja_output *out) STATUS_CHECK;

/* The text of a rendering, to be freed; what else it holds is freed. */
clave_status template_take_text(jinja_output *output, char **out, size_t *size) STATUS_CHECK;

/* template.c: the names of the built-in ones, "llama3, chatml". */
void template_list_builtins(text *out);
/* chat_templates.c */
typedef struct builtin_template {
  const char *name, *text;
} builtin_template;
extern const builtin_template builtin_templates[];
const char *builtin_text(const char *name); /* NULL: there is none */

#endif
