#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H
/* SentencePiece's precompiled table of replacements: a double-array trie (darts-clone's layout) and
 * the texts that its values point to. tokenizer.json's "Precompiled" carries the same bytes. */
#include "base/status.h"
#include "tokenizer/vocab.h"

typedef struct charsmap charsmap;
/* Copies and checks the blob: every step from the root stays inside, every text is UTF-8. */
clave_status charsmap_create(span blob, charsmap **out) STATUS_CHECK;
void charsmap_destroy(charsmap *charsmap); /* takes NULL */

/* Bytes at the start of `in` that are replaced, 0: none; by the longest rule (SentencePiece), or by
 * the shortest (Hugging Face, which then takes it for all of a grapheme of less than 6 bytes). */
size_t charsmap_longest(const charsmap *charsmap, span in, span *replacement);
size_t charsmap_shortest(const charsmap *charsmap, span in, span *replacement);
/* Bytes at the start of `in`, ASCII without spaces, that no rule changes. A quick answer: there may
 * be more. */
size_t charsmap_unchanged(const charsmap *charsmap, span in);

#endif
