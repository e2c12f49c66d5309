#ifndef CLAVE_TEMPLATE_H
#define CLAVE_TEMPLATE_H
/* clave_template: renders conversations as text, by the chat templates that are published with
 * models (Jinja2, with transformers' settings and additions; docs/reference/chat_templates.md lists
 * the supported part).
 *
 *   clave_template *t; char *text; size_t size;
 *   clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
 *   in.messages = "[{\"role\": \"user\", \"content\": \"Hello\"}]";
 *   clave_template_load("tokenizer_config.json", &t);
 *   clave_template_render(t, &in, &text, &size);
 *
 * The rules of clave.h hold: a status is NULL or an error to free, `out` comes last, and destroy
 * releases what create or load made. Templates open no file, and their number of steps is limited.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read-only once made: threads may share a template. */
typedef struct clave_template clave_template;

/* Parses a template's text. CLAVE_INVALID and CLAVE_UNSUPPORTED name line and column. */
CLAVE_API clave_status clave_template_create(const char *text, size_t size,
                                             clave_template **out) CLAVE_CHECK;
/* Loads a template file, a tokenizer_config.json (with its special tokens), a Hugging Face folder,
 * a .clv, or a built-in template by its name ("llama3", ...; clave_template_builtin). */
CLAVE_API clave_status clave_template_load(const char *path, clave_template **out) CLAVE_CHECK;
CLAVE_API void clave_template_destroy(clave_template *template); /* accepts NULL */
/* Returns the name of built-in template `index`; NULL after the last. */
CLAVE_API const char *clave_template_builtin(size_t index);

/* Variables of the template. Texts are JSON and end in NUL. */
typedef struct clave_template_inputs {
  size_t size;           /* sizeof(clave_template_inputs) */
  const char *messages;  /* an array of objects; NULL: undefined */
  const char *tools;     /* an array; NULL: none */
  const char *documents; /* an array; NULL: none */
  const char *arguments; /* an object, whose members are further variables; NULL: none */
  const char *bos, *eos; /* tokens, not JSON; NULL: the file's, undefined if it names none */
  bool add_generation_prompt;
  const char *name; /* which template, if a file has several; NULL: "tool_use" if there are tools
                       and the file has it, else "default" */
  int64_t now;      /* time for strftime_now, in seconds since 1970; 0: the clock's */
  bool join_parts;  /* for message contents that are lists of parts: pass the list to a template
                       that prints the texts of lists, and one joined text to any other template, as
                       clave_llm_prompt_messages does. A part that is not a text is CLAVE_INVALID */
} clave_template_inputs;

/* Renders a conversation. If the template raises an exception, the result is CLAVE_INVALID with its
 * message. *text ends in NUL; free it with clave_text_free of clave_tokenizer.h. */
CLAVE_API clave_status clave_template_render(const clave_template *template,
                                             const clave_template_inputs *inputs, char **text,
                                             size_t *size) CLAVE_CHECK;

/* Sets *tools, and *documents, to true if the inputs have them and the template writes the same
 * text without them. The messages are not used: a chat with one short user message is rendered.
 * CLAVE_INVALID: the template raises an exception for that chat. */
CLAVE_API clave_status clave_template_ignores(const clave_template *chat_template,
                                              const clave_template_inputs *inputs, bool *tools,
                                              bool *documents) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
