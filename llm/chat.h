#ifndef LLM_CHAT_H
#define LLM_CHAT_H
/* Chats as ids, by templates. What stands in messages, tools and documents is text like any other:
 * special tokens count only where the template itself writes them. */
#include "llm/conversation.h"
#include "llm/template.h"

/* The template that is meant by a built-in's name, a Jinja text, or (if `files`) a path. */
clave_status chat_template_of(const char *said, bool files, clave_template **out) STATUS_CHECK;
/* The id with which the model's template ends an answer, CLAVE_NO_TOKEN if there is none. */
clave_status chat_find_end(const clave_llm *l, int32_t *out) STATUS_CHECK;

/* A rendering of the model's template, or of another. */
clave_status chat_render(const clave_llm *l, const clave_template *t,
                         const clave_template_inputs *inputs, jinja_output *out) STATUS_CHECK;
/* Ids of a rendering from byte `from` on. */
clave_status chat_encode(const clave_llm *l, const jinja_output *rendered, size_t from,
                         id_list *out) STATUS_CHECK;

#endif
