#ifndef TOKENIZER_FIND_H
#define TOKENIZER_FIND_H
/* Lookup of tokens by their spelling in the file, and by id. */
#include "base/memory.h"
#include "clave_tokenizer.h"

/* Stores the id of a token spelled as in the file, VOCAB_NONE if none exists. */
clave_status tokenizer_find(const clave_tokenizer *tokenizer, span spelling,
                            uint32_t *id) STATUS_CHECK;
bool tokenizer_has(const clave_tokenizer *tokenizer, uint32_t id);

#endif
