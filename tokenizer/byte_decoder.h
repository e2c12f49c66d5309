#ifndef TOKENIZER_BYTE_DECODER_H
#define TOKENIZER_BYTE_DECODER_H
#include "tokenizer/tokenizer.h"

/* The decoder of byte-level vocabularies: the text is the bytes of the pieces, one after the other.
 */
clave_status byte_decoder_create(const vocab *vocab, token_decoder **out) STATUS_CHECK;

#endif
