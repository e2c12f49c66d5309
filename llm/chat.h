#ifndef LLM_CHAT_H
#define LLM_CHAT_H
/* Chat templates: messages written the way that a family of models learned. The texts are those of
 * the templates that Hugging Face publishes with the models; data, not a Jinja interpreter. */
#include "base/memory.h"
#include "clave_llm.h"
#include "tokenizer/parts.h"

/* Stand in the words of a template for the tokenizer's own tokens. */
#define CHAT_BOS "\1"
#define CHAT_EOS "\2"

typedef struct chat_role {
  const char *before, *after; /* around the message */
  bool trim;                  /* white space around it is dropped */
} chat_role;

typedef enum chat_system {
  CHAT_SYSTEM_MESSAGE,       /* a message of its own */
  CHAT_SYSTEM_ALWAYS,        /* there is one even if it is empty */
  CHAT_SYSTEM_IN_FIRST_USER, /* at the head of the first user message, or of the last; then */
  CHAT_SYSTEM_IN_LAST_USER   /* user and assistant have to take turns */
} chat_system;

typedef struct chat_template {
  const char *name;
  const char *marks[3], *not [3]; /* in a Jinja template: all of them, none of those */
  const char *begin;              /* before the first message */
  chat_role system, user, assistant;
  chat_system place;
  const char *answer; /* where the assistant begins to write */
  const char *end;    /* the token that ends its message, with which assistant.after begins */
} chat_template;

extern const chat_template chat_templates[];
extern const size_t n_chat_templates;

/* A rendered chat. The ids of its parts are *CHAT_BOS and *CHAT_EOS. */
typedef struct chat_rendering {
  text text;
  text_part *parts; /* owned */
  size_t n_parts, capacity;
} chat_rendering;
typedef enum chat_start {
  CHAT_START,
  CHAT_AFTER_ANSWER, /* the conversation ends in an answer, */
  CHAT_AFTER_END     /* which has been ended by the template's `end` */
} chat_start;
/* default_system: NULL for none. */
clave_status chat_render(const chat_template *t, const clave_llm_message *messages, size_t count,
                         const char *default_system, chat_start start,
                         chat_rendering *out) STATUS_CHECK;
void chat_rendering_free(chat_rendering *r);

/* The name of the template that is meant by a name or by a Jinja text, NULL if we do not know it.
 */
const char *chat_detect(const char *said);
/* The id that ends an answer, CLAVE_NO_TOKEN if there is none; template_name: NULL or any. */
int32_t chat_end_id(const clave_llm *l, const char *template_name);
/* Ids of messages that follow `before`, which may be empty. template_name: NULL for the model's. */
clave_status chat_encode(const clave_llm *l, const char *template_name,
                         const clave_llm_message *messages, size_t count, const id_list *before,
                         clave_ids *out) STATUS_CHECK;

#endif
