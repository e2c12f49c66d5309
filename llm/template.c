/* Chat templates: lookup by name, and rendering from JSON. */
#include "llm/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"

/* ---------------------------------------------------------------- lifetime */

clave_status template_add(clave_template *template, const char *name, const char *source,
                          size_t size) {
  if (!array_reserve(&template->items, &template->capacity, template->count + 1,
                     sizeof *template->items))
    return status_no_memory();
  named_template *n = &template->items[template->count];
  *n = (named_template){.name = strdup(name)};
  if (!n->name) return status_no_memory();
  template->count++;
  clave_status st = jinja_parse(source, size, &n->jinja);
  return strcmp(name, "default") == 0 ? st : status_while(st, "template %s", name);
}

const char *builtin_text(const char *name) {
  for (const builtin_template *b = builtin_templates; b->name; b++) {
    if (strcmp(b->name, name) == 0) return b->text;
  }
  return NULL;
}

const char *clave_template_builtin(size_t index) {
  size_t n = 0;
  while (builtin_templates[n].name) n++;
  return index < n ? builtin_templates[index].name : NULL;
}

void template_list_builtins(text *out) {
  for (const builtin_template *b = builtin_templates; b->name; b++)
    text_printf(out, "%s%s", b == builtin_templates ? "" : ", ", b->name);
}

clave_status template_add_given(clave_template *template, const char *given) {
  const char *builtin = builtin_text(given), *source = builtin ? builtin : given;
  return template_add(template, "default", source, strlen(source));
}

clave_status clave_template_create(const char *source, size_t size, clave_template **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  clave_template *template = calloc(1, sizeof *template);
  if (!template) return status_no_memory();
  clave_status st = template_add(template, "default", source, size);
  if (st) {
    clave_template_destroy(template);
    return st;
  }
  *out = template;
  return NULL;
}

void clave_template_destroy(clave_template *template) {
  if (!template) return;
  for (size_t i = 0; i < template->count; i++) {
    free(template->items[i].name);
    jinja_destroy(template->items[i].jinja);
  }
  free(template->items);
  free(template->bos);
  free(template->eos);
  free(template);
}

/* ---------------------------------------------------------------- rendering */

static const jinja_template *find_template(const clave_template *template, const char *name) {
  for (size_t i = 0; i < template->count; i++) {
    if (strcmp(template->items[i].name, name) == 0) return template->items[i].jinja;
  }
  return NULL;
}

static clave_status llm_template_refuse_name(const clave_template *template, const char *name) {
  text known = {0};
  for (size_t i = 0; i < template->count; i++)
    text_printf(&known, "%s%s", i ? ", " : "", template->items[i].name);
  clave_status st = text_status(&known);
  if (!st && name)
    st = INVALID("unknown template '%.100s'; the templates are: %s", name, known.data);
  if (!st) st = INVALID("no template is named 'default'; the templates are: %s", known.data);
  text_free(&known);
  return st;
}

static clave_status choose_template(const clave_template *template, const clave_template_inputs *in,
                                    const jinja_template **out) {
  *out = NULL;
  if (in->name) {
    *out = find_template(template, in->name);
    return *out ? NULL : llm_template_refuse_name(template, in->name);
  }
  if (in->tools && strcmp(in->tools, "null") != 0) *out = find_template(template, "tool_use");
  if (!*out) *out = find_template(template, "default");
  if (!*out && template->count == 1) *out = template->items[0].jinja;
  return *out ? NULL : llm_template_refuse_name(template, NULL);
}

enum { MAX_INPUTS = 7 };

static void add_input(jinja_options *options, jinja_input *inputs, const char *name,
                      const char *given, bool is_text, jinja_origin origin) {
  if (given)
    inputs[options->n_inputs++] = (jinja_input){name, given, strlen(given), is_text, origin};
}

/* Adds the inputs with transformers' names, in its order. Without `marked` everything counts as
 * the template's own text, which is cheaper. */
static void add_inputs(const clave_template *template, const clave_template_inputs *in, bool marked,
                       jinja_options *options, jinja_input inputs[MAX_INPUTS]) {
  const jinja_origin message_origin = marked ? JINJA_MESSAGES : JINJA_TRUSTED,
                     input_origin = marked ? JINJA_UNTRUSTED : JINJA_TRUSTED;
  *options = (jinja_options){.inputs = inputs, .now = in->now};
  add_input(options, inputs, "bos_token", in->bos ? in->bos : template->bos, true, JINJA_TRUSTED);
  add_input(options, inputs, "eos_token", in->eos ? in->eos : template->eos, true, JINJA_TRUSTED);
  add_input(options, inputs, NULL, in->arguments, false, JINJA_TRUSTED);
  add_input(options, inputs, "messages", in->messages, false, message_origin);
  add_input(options, inputs, "tools", in->tools ? in->tools : "null", false, input_origin);
  add_input(options, inputs, "documents", in->documents ? in->documents : "null", false,
            input_origin);
  add_input(options, inputs, "add_generation_prompt", in->add_generation_prompt ? "true" : "false",
            false, JINJA_TRUSTED);
}

clave_status template_render_as_given(const clave_template *template,
                                      const clave_template_inputs *in, bool marked,
                                      jinja_output *out) {
  const jinja_template *tree;
  jinja_options options;
  jinja_input given[MAX_INPUTS];
  TRY(choose_template(template, in, &tree));
  add_inputs(template, in, marked, &options, given);
  return jinja_render(tree, &options, out);
}
