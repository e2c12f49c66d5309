#ifndef TOKENIZER_PRETOKEN_CACHE_H
#define TOKENIZER_PRETOKEN_CACHE_H
/* A cache of the ids of pre-tokens, which repeat within a text. An entry refers to the ids in the
 * output list. Each encoding of a text has its own cache, so threads may share the tokenizer. */
#include "tokenizer/model.h"

typedef struct pretoken_cache pretoken_cache;
/* Returns NULL for texts too short to benefit, and if memory is exhausted: then nothing is cached.
 */
pretoken_cache *pretoken_cache_create(size_t text_size);
void pretoken_cache_destroy(pretoken_cache *cache); /* accepts NULL */
/* Appends the ids of a pre-token, from the cache or by model->encode. `out` must be the same list
 * in all calls and must only grow. */
clave_status pretoken_cache_encode(pretoken_cache *cache, const token_model *model, span pretoken,
                                   id_list *out) STATUS_CHECK;

#endif
