#ifndef LLM_CHAT_H
#define LLM_CHAT_H
/* Chats as ids, rendered by templates. The contents of messages, tools and documents are plain
 * text: special tokens are recognized only where the template itself writes them. */
#include "llm/conversation.h"
#include "llm/template.h"

/* Creates a template from `given`: the name of a built-in, a Jinja text, or (if `files`) a path. */
clave_status chat_template_of(const char *given, bool files, clave_template **out) STATUS_CHECK;
/* Finds the id with which the model's template ends answers, or CLAVE_NO_TOKEN. */
clave_status chat_find_end(const clave_llm *llm, int32_t *out) STATUS_CHECK;

/* Renders the model's template, or another one. marked: see template_render. */
clave_status chat_render(const clave_llm *llm, const clave_template *template,
                         const clave_template_inputs *inputs, bool marked,
                         jinja_output *out) STATUS_CHECK;
/* Appends the ids of a rendering from byte `from` on. */
clave_status chat_encode(const clave_llm *llm, const jinja_output *rendered, size_t from,
                         id_list *out) STATUS_CHECK;

/* Placeholder for an answer: shows which text a template writes after an answer. */
#define CHAT_ANSWER "CLAVE_ANSWER"

/* chat_messages.c: a history is a JSON array of messages without its brackets. default_system:
 * prepended if the messages do not begin with a system message; may be NULL. */
void chat_append_message(text *out, const char *role, const char *content, size_t size);
clave_status chat_append_messages(const clave_llm_message *messages, size_t count,
                                  const char *default_system, text *out) STATUS_CHECK;
clave_status chat_append_array(const char *array, const char *default_system,
                               text *out) STATUS_CHECK;
/* Sets *out to the template to use: the one that `name` names or, if it is NULL, the model's. A
 * template created for this call is also stored in *made, for the caller to destroy. Fails if the
 * template is unknown or not supported. */
clave_status chat_select_template(const clave_llm *llm, const char *name, clave_template **made,
                                  const clave_template **out) STATUS_CHECK;
/* Reads and checks the caller's inputs, and appends their messages to the history. */
clave_status chat_read_inputs(const clave_template_inputs *given, const char *default_system,
                              clave_template_inputs *in, text *history) STATUS_CHECK;
clave_status chat_render_history(const clave_llm *llm, const clave_template *template,
                                 const text *history, const clave_template_inputs *inputs,
                                 bool marked, jinja_output *out) STATUS_CHECK;

#endif
