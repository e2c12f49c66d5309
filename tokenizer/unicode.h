#ifndef TOKENIZER_UNICODE_H
#define TOKENIZER_UNICODE_H
/* Code points, what kind they are, and normal forms: all that tokenizers ask of Unicode but
 * patterns. Texts are valid UTF-8. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/utf8.h"

/* The code point that ends at text[end], 0 at the beginning. */
uint32_t unicode_before(const char *text, size_t end);
void unicode_append(text *out, uint32_t c);

bool unicode_is_space(uint32_t c); /* White_Space */
/* Where the spaces from `at` on end, and where those before `end` begin, not below `least`. */
size_t unicode_skip_space(span in, size_t at);
size_t unicode_skip_space_before(span in, size_t end, size_t least);
bool unicode_is_word(uint32_t c); /* UTS 18's \w: Alphabetic, M, Nd, Pc, Join_Control */

/* General categories, as the sets that the formats ask for. */
bool unicode_is_punctuation(uint32_t c); /* P */
bool unicode_is_nonspacing(uint32_t c);  /* Mn */
bool unicode_is_mark(uint32_t c);        /* M */
bool unicode_is_other(uint32_t c);       /* C but unassigned: control, format, private use */
bool unicode_is_numeric(uint32_t c);     /* N */

size_t unicode_grapheme(span in); /* bytes of the first extended grapheme cluster */

/* ---- transformations; each appends */
typedef enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } unicode_form;
clave_status unicode_normalize(span in, unicode_form form, text *out) STATUS_CHECK;
void unicode_append_lower(text *out, uint32_t c); /* the full mapping of one character */

/* ---- ill-formed text (Unicode 3.9, maximal subparts, as Python's errors="replace") */
/* Appends `in` with U+FFFD for what is ill-formed. Unless `end`, what may be the beginning of a
 * character at the end is left: the bytes of `in` that were used are returned. */
size_t unicode_append_valid(text *out, span in, bool end);

#endif
