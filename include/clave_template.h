#ifndef CLAVE_TEMPLATE_H
#define CLAVE_TEMPLATE_H
/* clave_template: conversations as text, by the chat templates that are published with models
 * (Jinja2, with transformers' settings and additions; docs/llm.md says what of it).
 *
 *   clave_template *t; char *text; size_t size;
 *   clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
 *   in.messages = "[{\"role\": \"user\", \"content\": \"Hello\"}]";
 *   clave_template_load("tokenizer_config.json", &t);
 *   clave_template_render(t, &in, &text, &size);
 *
 * The rules of clave.h hold: a status is NULL or an error to free, `out` comes last, create and
 * load are paired with destroy. Templates open no file and end after a bounded number of steps. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read-only once made: threads may share one. */
typedef struct clave_template clave_template;

/* A template's text. CLAVE_INVALID and CLAVE_UNSUPPORTED name line and column. */
CLAVE_API clave_status clave_template_create(const char *text, size_t size,
                                             clave_template **out) CLAVE_CHECK;
/* A template's file; a tokenizer_config.json, with its special tokens; a Hugging Face folder; a
 * .clv; or the name of a built-in template ("llama3", ...; clave_template_builtin). */
CLAVE_API clave_status clave_template_load(const char *path, clave_template **out) CLAVE_CHECK;
CLAVE_API void clave_template_destroy(clave_template *template); /* takes NULL */
/* NULL after the last: the names of the built-in templates. */
CLAVE_API const char *clave_template_builtin(size_t index);

/* What the template sees. Texts are JSON and end in NUL. */
typedef struct clave_template_inputs {
  size_t size;           /* sizeof(clave_template_inputs) */
  const char *messages;  /* an array of objects; NULL: not defined */
  const char *tools;     /* arrays; NULL: none */
  const char *documents; /* NULL: none */
  const char *arguments; /* an object, whose members are further names; NULL: none */
  const char *bos, *eos; /* tokens, no JSON; NULL: the file's, not defined if it names none */
  bool add_generation_prompt;
  const char *name; /* of the template, where a file has several; NULL: "tool_use" if there are
                       tools and it has that, else "default" */
  int64_t now;      /* what strftime_now calls now, in seconds since 1970; 0: the clock's */
  bool join_parts;  /* contents that are lists of parts are given as clave_llm_prompt_messages gives
                       them: as a list to a template that prints the texts of lists, as one text to
                       any other; a part that is no text is CLAVE_INVALID */
} clave_template_inputs;

/* A template that raises an exception is CLAVE_INVALID with its message. *text ends in NUL and is
 * freed with clave_text_free of clave_tokenizer.h. */
CLAVE_API clave_status clave_template_render(const clave_template *template,
                                             const clave_template_inputs *inputs, char **text,
                                             size_t *size) CLAVE_CHECK;

/* True for tools, and for documents, if the inputs have them and the template writes the same text
 * without them. The messages are not used: a chat with one short message of the user is rendered.
 * CLAVE_INVALID: the template raises an exception for that chat. */
CLAVE_API clave_status clave_template_ignores(const clave_template *chat_template,
                                              const clave_template_inputs *inputs, bool *tools,
                                              bool *documents) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
