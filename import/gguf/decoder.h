#ifndef IMPORT_GGUF_DECODER_H
#define IMPORT_GGUF_DECODER_H
/* Builds a decoder as method forward(tokens, position) with caches as state
 * (docs/reference/language_models.md). */
#include "import/gguf/decoder_parts.h"

/* Adds the method to the program. Returns the number of tokens of the vocabulary; 0 after an error.
 */
int64_t gguf_build(gguf_file *file, const gguf_numbers *numbers, const gguf_caches *caches);

#endif
