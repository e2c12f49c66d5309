#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H
/* A vocabulary: maps ids to bytes and back. Pieces may contain any bytes, including NUL. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

enum { VOCAB_MAX = 1 << 22, VOCAB_MAX_PIECE = 1 << 16 };
#define VOCAB_NONE UINT32_MAX

typedef struct vocab vocab;
/* n_expected: expected number of entries, at most VOCAB_MAX. */
clave_status vocab_create(uint32_t n_expected, vocab **out) STATUS_CHECK;
void vocab_destroy(vocab *vocab); /* accepts NULL */
/* Copies the piece. Fails if the id is a duplicate, or the id or size exceeds the limits. If
 * another id already has this piece, vocab_find keeps returning that id, and *is_new (may be NULL)
 * is false. */
clave_status vocab_add(vocab *vocab, uint32_t id, span piece, bool *is_new) STATUS_CHECK;
uint32_t vocab_size(const vocab *vocab); /* largest id + 1 */
bool vocab_has(const vocab *vocab, uint32_t id);
span vocab_piece(const vocab *vocab, uint32_t id);   /* {NULL, 0} if there is no such id */
uint32_t vocab_find(const vocab *vocab, span piece); /* VOCAB_NONE if absent */

#endif
