#ifndef TOKENIZER_BYTE_LEVEL_H
#define TOKENIZER_BYTE_LEVEL_H
/* GPT-2's alphabet, which writes each byte as one printable character. */
#include "base/memory.h"
#include "tokenizer/vocab.h"

void byte_level_encode(span bytes, text *out);
bool byte_level_covers(span characters); /* true if all characters are in the alphabet */
/* Appends the bytes. Returns false, and appends nothing, if a character is not in the alphabet. */
bool byte_level_decode(span characters, text *out);

#endif
