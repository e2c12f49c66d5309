/* Hugging Face tokenizer.json. */
#include "llm/tokenizer.h"

static bool recognises_json(span file) {
  size_t i = 0;
  while (i < file.size && (file.data[i] == ' ' || file.data[i] == '\n' || file.data[i] == '\r' ||
                           file.data[i] == '\t')) {
    i++;
  }
  return i < file.size && file.data[i] == '{';
}

static clave_status read_json(clave_tokenizer *t, span file,
                              const clave_tokenizer_options *options) {
  (void)t;
  (void)file;
  (void)options;
  return UNSUPPORTED("tokenizer.json is not in this version");
}

const tokenizer_format tokenizer_json_format = {"tokenizer.json", recognises_json, read_json};
