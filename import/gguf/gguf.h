#ifndef IMPORT_GGUF_GGUF_H
#define IMPORT_GGUF_GGUF_H
/* Imports language models in GGUF, llama.cpp's format: versions 2 and 3, little-endian. */
#include "import/importer.h"

bool gguf_is_model(const void *bytes, size_t size);
bool gguf_op_at(uint32_t index, import_op *out); /* there are none: the format has no ops */
/* Adds method forward(tokens, position), the metadata and the tokenizer to the program. */
void gguf_convert(importer *im, const import_source *source);

#endif
