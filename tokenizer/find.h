#ifndef TOKENIZER_FIND_H
#define TOKENIZER_FIND_H
/* Tokens by how the file writes them, and by id. */
#include "base/memory.h"
#include "clave_tokenizer.h"

/* The id of a token as the file writes it, VOCAB_NONE if there is none. */
clave_status tokenizer_find(const clave_tokenizer *tokenizer, span written,
                            uint32_t *id) STATUS_CHECK;
bool tokenizer_has(const clave_tokenizer *tokenizer, uint32_t id);

#endif
