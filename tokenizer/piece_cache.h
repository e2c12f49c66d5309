#ifndef TOKENIZER_PIECE_CACHE_H
#define TOKENIZER_PIECE_CACHE_H
/* A cache of the ids of repeated words. An entry refers to the output list, where the ids were
 * written first. It belongs to the encoding of one text, so threads may share the tokenizer. */
#include "tokenizer/model.h"

typedef struct piece_cache piece_cache;
/* Returns NULL for texts too short to benefit, and if memory is exhausted: then nothing is cached.
 */
piece_cache *piece_cache_create(size_t text_size);
void piece_cache_destroy(piece_cache *cache); /* accepts NULL */
/* Appends the ids of a piece, from the cache or by model->encode. `out` must be the same list in
 * all calls and must only grow. */
clave_status piece_cache_encode(piece_cache *cache, const token_model *model, span piece,
                                id_list *out) STATUS_CHECK;

#endif
