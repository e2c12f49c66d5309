#ifndef TOKENIZER_PIECE_CACHE_H
#define TOKENIZER_PIECE_CACHE_H
/* Words repeat: the ids of those that a text had before, found in the list they were written to.
 * Belongs to the encoding of one text, so that threads may share the tokenizer. */
#include "tokenizer/model.h"

typedef struct piece_cache piece_cache;
/* NULL for texts too short to gain, and when memory is out: then nothing is remembered. */
piece_cache *piece_cache_create(size_t text_size);
void piece_cache_destroy(piece_cache *cache); /* takes NULL */
/* model->encode, or its ids once more; `out` is the same list each time and only grows. */
clave_status piece_cache_encode(piece_cache *cache, const token_model *model, span piece,
                                id_list *out) STATUS_CHECK;

#endif
