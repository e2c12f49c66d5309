#ifndef TOKENIZER_FOLDER_H
#define TOKENIZER_FOLDER_H
/* A Hugging Face folder: which file the tokenizer is, and what its configuration adds. */
#include "tokenizer/tokenizer.h"

/* *file: NULL if `path` is no folder, else the tokenizer's path (the caller frees it). */
clave_status folder_find_tokenizer(const char *path, char **file) STATUS_CHECK;
/* bos and eos of tokenizer_config.json, if there is one. */
clave_status folder_read_config(const char *folder, clave_tokenizer *tokenizer) STATUS_CHECK;

#endif
