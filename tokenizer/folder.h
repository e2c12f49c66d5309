#ifndef TOKENIZER_FOLDER_H
#define TOKENIZER_FOLDER_H
/* Hugging Face folders: finds the tokenizer's file and reads the configuration. */
#include "tokenizer/tokenizer.h"

/* Stores the tokenizer's path in *file for the caller to free, or NULL if `path` is no folder. */
clave_status folder_find_tokenizer(const char *path, char **file) STATUS_CHECK;
/* Reads bos and eos from tokenizer_config.json, if it exists. */
clave_status folder_read_config(const char *folder, clave_tokenizer *tokenizer) STATUS_CHECK;

#endif
