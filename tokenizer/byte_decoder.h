#ifndef TOKENIZER_BYTE_DECODER_H
#define TOKENIZER_BYTE_DECODER_H
#include "tokenizer/tokenizer.h"

/* The decoder of byte-level vocabularies: the text is the concatenation of the pieces' bytes. */
clave_status byte_decoder_create(const vocab *vocab, token_decoder **out) STATUS_CHECK;

#endif
