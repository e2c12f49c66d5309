#ifndef IMPORT_GGUF_GGUF_H
#define IMPORT_GGUF_GGUF_H
/* Imports language models in GGUF, llama.cpp's format: versions 2 and 3, little-endian. */
#include "import/importer.h"

bool gguf_is_model(const void *bytes, size_t size);
/* Adds method forward(tokens, position), the metadata and the tokenizer to the program. */
void gguf_convert(importer *im, const import_source *source);

#endif
