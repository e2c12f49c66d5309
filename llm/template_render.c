/* Renders templates after joining the parts of contents, and detects inputs that a template
 * ignores. */
#include "llm/template.h"

#include <string.h>

#include "base/float_env.h"
#include "base/sized.h"

clave_status template_render(const clave_template *template, const clave_template_inputs *inputs,
                             bool marked, jinja_output *out) {
  clave_template_inputs in = *inputs;
  text joined = {0};
  *out = (jinja_output){0};
  clave_status st = in.join_parts ? template_join_parts(template, &in, &joined) : NULL;
  if (!st) st = template_render_as_given(template, &in, marked, out);
  text_free(&joined);
  return st;
}

clave_status template_take_text(jinja_output *output, char **out, size_t *size) {
  text_append(&output->text, "", 0);
  *size = output->text.size;
  *out = output->text.data ? output->text.data : strdup("");
  text_free(&output->untrusted);
  return *out ? NULL : status_no_memory();
}

clave_status clave_template_render(const clave_template *template,
                                   const clave_template_inputs *inputs, char **out, size_t *size) {
  OWN_FLOAT_ENV;
  jinja_output output;
  *out = NULL;
  *size = 0;
  clave_template_inputs in;
  TRY(sized_read(inputs, &in, SIZED(clave_template_inputs, now)));
  TRY(template_render(template, &in, false, &output));
  return template_take_text(&output, out, size);
}

/* ---------------------------------------------------------------- ignored inputs */

/* Sets *out to true if the template writes the same text without tools and documents. */
static clave_status writes_the_same(const clave_template *template,
                                    const clave_template_inputs *with, bool *out) {
  clave_template_inputs without = *with;
  jinja_output output, b;
  without.tools = without.documents = NULL;
  TRY(template_render(template, with, false, &output));
  clave_status st = template_render(template, &without, false, &b);
  if (!st) {
    *out = output.text.size == b.text.size &&
           (!output.text.size || memcmp(output.text.data, b.text.data, output.text.size) == 0);
    jinja_output_free(&b);
  }
  jinja_output_free(&output);
  return st;
}

clave_status template_ignores(const clave_template *template, const clave_template_inputs *inputs,
                              bool *tools, bool *documents) {
  clave_template_inputs in = *inputs;
  in.messages = "[{\"role\": \"user\", \"content\": \"?\"}]";
  in.now = 1; /* both renderings see the same clock */
  in.documents = NULL;
  if (in.tools) TRY(writes_the_same(template, &in, tools));
  in.tools = NULL;
  in.documents = inputs->documents;
  return in.documents ? writes_the_same(template, &in, documents) : NULL;
}

clave_status clave_template_ignores(const clave_template *chat_template,
                                    const clave_template_inputs *inputs, bool *tools,
                                    bool *documents) {
  OWN_FLOAT_ENV;
  clave_template_inputs in;
  *tools = *documents = false;
  TRY(sized_read(inputs, &in, SIZED(clave_template_inputs, now)));
  return template_ignores(chat_template, &in, tools, documents);
}
