#ifndef TOKENIZER_FORMAT_H
#define TOKENIZER_FORMAT_H
/* The formats of tokenizers' files. */
#include "tokenizer/tokenizer.h"

/* A format: recognises its files by their first bytes and fills in an empty tokenizer (bos and eos
 * CLAVE_NO_TOKEN), of which the caller destroys what was made when it fails. */
typedef struct tokenizer_format {
  const char *name;
  bool (*recognises)(span file);
  clave_status (*read)(clave_tokenizer *tokenizer, span file,
                       const clave_tokenizer_options *options);
} tokenizer_format;
extern const tokenizer_format sentencepiece_format, tokenizer_json_format, tiktoken_format;

#endif
