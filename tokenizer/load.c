/* Tokenizers from files: detects the format, creates and destroys the object. */
#include <stdlib.h>

#include "base/file.h"
#include "base/float_env.h"
#include "base/sized.h"
#include "tokenizer/added.h"
#include "tokenizer/folder.h"
#include "tokenizer/format.h"

static const tokenizer_format *const formats[] = {&tokenizer_json_format, &tiktoken_format,
                                                  &sentencepiece_format};

static clave_status make_matchers(clave_tokenizer *tokenizer) {
  TRY(added_matcher_create(tokenizer->added, tokenizer->n_added, true, tokenizer->normalize,
                           &tokenizer->matcher));
  return added_matcher_create(tokenizer->added, tokenizer->n_added, false, tokenizer->normalize,
                              &tokenizer->text_matcher);
}

static clave_status tokenizer_load_read_file(clave_tokenizer *tokenizer, span file,
                                             const clave_tokenizer_options *options) {
  TRY(mem_pool_create(&tokenizer->pool));
  if (file.size == 0) return INVALID("expected a tokenizer, got an empty file");
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (!formats[i]->recognises(file)) continue;
    TRY(formats[i]->read(tokenizer, file, options));
    return make_matchers(tokenizer);
  }
  return INVALID(
      "not a tokenizer: expected a SentencePiece model, a tokenizer.json or a tiktoken rank file");
}

clave_status clave_tokenizer_create(const void *bytes, size_t size,
                                    const clave_tokenizer_options *options, clave_tokenizer **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  clave_tokenizer_options known;
  TRY(sized_read(options, &known, SIZED(clave_tokenizer_options, pattern)));
  clave_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  if (!tokenizer) return status_no_memory();
  tokenizer->bos = tokenizer->eos = CLAVE_NO_TOKEN;
  clave_status st = tokenizer_load_read_file(tokenizer, (span){bytes, size}, &known);
  if (st) {
    clave_tokenizer_destroy(tokenizer);
    return st;
  }
  *out = tokenizer;
  return NULL;
}

static clave_status tokenizer_load_file(const char *path, const clave_tokenizer_options *options,
                                        clave_tokenizer **out) {
  file_map map;
  TRY(file_map_open(path, &map));
  clave_status st = clave_tokenizer_create(map.data, map.size, options, out);
  file_map_close(&map);
  return status_while(st, "%s", path);
}

clave_status clave_tokenizer_load(const char *path, const clave_tokenizer_options *options,
                                  clave_tokenizer **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  char *file = NULL;
  TRY(folder_find_tokenizer(path, &file));
  clave_status st = tokenizer_load_file(file ? file : path, options, out);
  if (!st && file) st = folder_read_config(path, *out);
  free(file);
  if (st) {
    clave_tokenizer_destroy(*out);
    *out = NULL;
  }
  return st;
}

void clave_tokenizer_destroy(clave_tokenizer *tokenizer) {
  if (!tokenizer) return;
  if (tokenizer->model) tokenizer->model->destroy(tokenizer->model);
  if (tokenizer->normalize) tokenizer->normalize->destroy(tokenizer->normalize);
  if (tokenizer->split) tokenizer->split->destroy(tokenizer->split);
  if (tokenizer->decode) tokenizer->decode->destroy(tokenizer->decode);
  added_matcher_destroy(tokenizer->matcher);
  added_matcher_destroy(tokenizer->text_matcher);
  vocab_destroy(tokenizer->vocab);
  vocab_destroy(tokenizer->other_pieces);
  mem_pool_destroy(tokenizer->pool);
  free(tokenizer);
}

clave_status clave_tokenizer_get_info(const clave_tokenizer *tokenizer,
                                      clave_tokenizer_info *info) {
  clave_tokenizer_info own = {.format = tokenizer->format,
                              .n_ids = vocab_size(tokenizer->vocab),
                              .bos = tokenizer->bos,
                              .eos = tokenizer->eos};
  return sized_write(&own, info, SIZED(clave_tokenizer_info, eos));
}
