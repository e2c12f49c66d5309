#ifndef TOKENIZER_FORMAT_H
#define TOKENIZER_FORMAT_H
/* The file formats of tokenizers. */
#include "tokenizer/tokenizer.h"

/* A format recognizes its files by their first bytes and fills in an empty tokenizer, whose bos
 * and eos are CLAVE_NO_TOKEN. If it fails, the caller destroys the partial tokenizer. */
typedef struct tokenizer_format {
  const char *name;
  bool (*recognises)(span file);
  clave_status (*read)(clave_tokenizer *tokenizer, span file,
                       const clave_tokenizer_options *options);
} tokenizer_format;
extern const tokenizer_format sentencepiece_format, tokenizer_json_format, tiktoken_format;

#endif
