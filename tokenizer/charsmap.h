#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H
/* SentencePiece's precompiled table of replacements: a double-array trie (darts-clone's layout) and
 * the texts that its values refer to. "Precompiled" in a tokenizer.json contains the same bytes in
 * base64. */
#include "base/status.h"
#include "tokenizer/vocab.h"

typedef struct charsmap charsmap;
/* Copies and checks the blob: every step from the root stays in bounds, and every text is UTF-8. */
clave_status charsmap_create(span blob, charsmap **out) STATUS_CHECK;
void charsmap_destroy(charsmap *charsmap); /* accepts NULL */

/* Return the number of bytes at the start of `in` that a rule replaces; 0 if no rule applies.
 * SentencePiece applies the longest rule; Hugging Face applies the shortest, and replaces a whole
 * grapheme of less than 6 bytes by that rule's text. */
size_t charsmap_longest(const charsmap *charsmap, span in, span *replacement);
size_t charsmap_shortest(const charsmap *charsmap, span in, span *replacement);
/* Returns the number of bytes at the start of `in`, ASCII without spaces, that no rule changes. It
 * is a fast lower bound: more bytes may be unchanged. */
size_t charsmap_unchanged(const charsmap *charsmap, span in);

#endif
