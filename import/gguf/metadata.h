#ifndef IMPORT_GGUF_METADATA_H
#define IMPORT_GGUF_METADATA_H
/* The tokenizer and the metadata of a program (docs/reference/language_models.md), from a GGUF
 * file's keys. */
#include "import/gguf/file.h"

/* n_vocab: rows of the embedding. has_tokenizer: another tokenizer replaces the file's, and
 * supplies what the file's keys do not say. */
clave_status gguf_describe(gguf_file *file, int64_t n_vocab, int64_t max_context,
                           bool has_tokenizer) STATUS_CHECK;

#endif
