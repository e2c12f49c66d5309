#ifndef LLM_CHAT_H
#define LLM_CHAT_H
/* Chats as ids, rendered by templates. The contents of messages, tools and documents are plain
 * text: special tokens are recognized only where the template itself writes them. */
#include "llm/conversation.h"
#include "llm/template.h"

/* Creates the template `said`: a built-in's name, a Jinja text, or (if `files`) a path. */
clave_status chat_template_of(const char *said, bool files, clave_template **out) STATUS_CHECK;
/* Finds the id with which the model's template ends answers, or CLAVE_NO_TOKEN. */
clave_status chat_find_end(const clave_llm *llm, int32_t *out) STATUS_CHECK;

/* Renders the model's template, or another one. marked: see template_render. */
clave_status chat_render(const clave_llm *llm, const clave_template *template,
                         const clave_template_inputs *inputs, bool marked,
                         jinja_output *out) STATUS_CHECK;
/* Appends the ids of a rendering from byte `from` on. */
clave_status chat_encode(const clave_llm *llm, const jinja_output *rendered, size_t from,
                         id_list *out) STATUS_CHECK;

/* Stands for an answer when searching for what the template writes after one. */
#define CHAT_ANSWER "CLAVE_ANSWER"

/* chat_messages.c: a history is the messages of a JSON array with the commas between them.
 * default_system: prepended if the messages do not begin with a system message; may be NULL. */
void chat_append_message(text *out, const char *role, const char *content, size_t size);
clave_status chat_append_messages(const clave_llm_message *messages, size_t count,
                                  const char *default_system, text *out) STATUS_CHECK;
clave_status chat_append_array(const char *array, const char *default_system,
                               text *out) STATUS_CHECK;
/* Stores the model's own template in *out. If `name` is not NULL, or the model has no usable
 * template, creates a template, which is also stored in *made for the caller to destroy. */
clave_status chat_own_or_named(const clave_llm *llm, const char *name, clave_template **made,
                               const clave_template **out) STATUS_CHECK;
/* Reads and checks the caller's inputs, and appends their messages to the history. */
clave_status chat_read_inputs(const clave_template_inputs *given, const char *default_system,
                              clave_template_inputs *in, text *history) STATUS_CHECK;
clave_status chat_render_history(const clave_llm *llm, const clave_template *template,
                                 const text *history, const clave_template_inputs *inputs,
                                 bool marked, jinja_output *out) STATUS_CHECK;

#endif
