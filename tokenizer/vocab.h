#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H
/* A vocabulary: ids and the bytes they stand for, both ways. Bytes are any, NUL too. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

enum { VOCAB_MAX = 1 << 22, VOCAB_MAX_PIECE = 1 << 16 };
#define VOCAB_NONE UINT32_MAX

typedef struct vocab vocab;
/* n_expected: entries that are likely to come, at most VOCAB_MAX. */
clave_status vocab_create(uint32_t n_expected, vocab **out) STATUS_CHECK;
void vocab_destroy(vocab *vocab); /* takes NULL */
/* Copies the piece. Errors name an id given twice, an id or a size beyond the limits; a piece that
 * another id has too keeps the first id for vocab_find and is_new (may be NULL) is false. */
clave_status vocab_add(vocab *vocab, uint32_t id, span piece, bool *is_new) STATUS_CHECK;
uint32_t vocab_size(const vocab *vocab); /* largest id + 1 */
bool vocab_has(const vocab *vocab, uint32_t id);
span vocab_piece(const vocab *vocab, uint32_t id);   /* {NULL, 0}: no such id */
uint32_t vocab_find(const vocab *vocab, span piece); /* VOCAB_NONE */

#endif
