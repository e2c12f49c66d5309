#ifndef LLM_PAGES_H
#define LLM_PAGES_H
/* The pages of a conversation, whose pool's lock is held: page i has the tokens from i * page_rows
 * on. Those that another conversation has, too, are copied before they are written. */
#include "llm/conversation.h"

/* Tokens [from, to) are about to be written; those before are there. */
clave_status pages_make_room(clave_llm_conversation *c, size_t from, size_t to) STATUS_CHECK;
/* Of the first `count` tokens; the others are given back. */
void pages_keep(clave_llm_conversation *c, size_t count);
/* `to`, which has none, gets the same as `from`. */
clave_status pages_share(const clave_llm_conversation *from,
                         clave_llm_conversation *to) STATUS_CHECK;
/* The first `rows` rows of state tensor i, (1, n_kv, rows, size); those behind what has run are 0.
 * To write them there must be room. */
clave_status pages_read(const clave_llm_conversation *c, uint32_t i, size_t rows,
                        void *data) STATUS_CHECK;
clave_status pages_write(clave_llm_conversation *c, uint32_t i, size_t rows, size_t stored,
                         const void *data) STATUS_CHECK;

#endif
