#ifndef TOKENIZER_UNICODE_H
#define TOKENIZER_UNICODE_H
/* Code points, their categories, and normal forms: everything about Unicode that tokenizers need,
 * except in patterns. Texts are valid UTF-8. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/utf8.h"

/* Returns the code point that ends at text[end], 0 at the beginning. */
uint32_t unicode_before(const char *text, size_t end);
void unicode_append(text *out, uint32_t c);

bool unicode_is_space(uint32_t c); /* White_Space */
/* unicode_skip_space returns the end of the white space that begins at `at`.
 * unicode_skip_space_before returns the start of the white space that ends at `end`, but not less
 * than `least`. */
size_t unicode_skip_space(span in, size_t at);
size_t unicode_skip_space_before(span in, size_t end, size_t least);
bool unicode_is_word(uint32_t c); /* UTS 18's \w: Alphabetic, M, Nd, Pc, Join_Control */

/* Sets of general categories that the formats need. */
bool unicode_is_punctuation(uint32_t c); /* P */
bool unicode_is_nonspacing(uint32_t c);  /* Mn */
bool unicode_is_mark(uint32_t c);        /* M */
bool unicode_is_other(uint32_t c);       /* C except unassigned: control, format, private use */
bool unicode_is_numeric(uint32_t c);     /* N */

size_t unicode_grapheme(span in); /* bytes of the first extended grapheme cluster */

/* ---- transformations, which append their result */
typedef enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } unicode_form;
clave_status unicode_normalize(span in, unicode_form form, text *out) STATUS_CHECK;
void unicode_append_lower(text *out, uint32_t c); /* full lower case mapping of one character */

/* ---- ill-formed text (Unicode 3.9, maximal subparts, as Python's errors="replace") */
/* Appends `in` with U+FFFD for ill-formed parts. Unless `end`, an incomplete character at the end
 * is left. Returns the number of bytes of `in` that were used. */
size_t unicode_append_valid(text *out, span in, bool end);

#endif
