/* A tokenizer from a file: which format it has, and its life. */
#include <stdlib.h>

#include "base/file.h"
#include "base/float_env.h"
#include "base/sized.h"
#include "tokenizer/added.h"
#include "tokenizer/folder.h"
#include "tokenizer/format.h"

static const tokenizer_format *const formats[] = {&tokenizer_json_format, &tiktoken_format,
                                                  &sentencepiece_format};

static clave_status make_matchers(clave_tokenizer *t) {
  TRY(added_matcher_create(t->added, t->n_added, true, t->normalize, &t->matcher));
  return added_matcher_create(t->added, t->n_added, false, t->normalize, &t->text_matcher);
}

static clave_status read_file(clave_tokenizer *t, span file,
                              const clave_tokenizer_options *options) {
  TRY(mem_pool_create(&t->pool));
  if (file.size == 0) return INVALID("expected a tokenizer, got an empty file");
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (!formats[i]->recognises(file)) continue;
    TRY(formats[i]->read(t, file, options));
    return make_matchers(t);
  }
  return INVALID(
      "not a tokenizer: expected a SentencePiece model, a tokenizer.json or a tiktoken rank file");
}

clave_status clave_tokenizer_create(const void *bytes, size_t size,
                                    const clave_tokenizer_options *options, clave_tokenizer **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  clave_tokenizer_options o;
  TRY(sized_read(options, &o, SIZED(clave_tokenizer_options, pattern)));
  clave_tokenizer *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->bos = t->eos = CLAVE_NO_TOKEN;
  clave_status st = read_file(t, (span){bytes, size}, &o);
  if (st) {
    clave_tokenizer_destroy(t);
    return st;
  }
  *out = t;
  return NULL;
}

static clave_status load_file(const char *path, const clave_tokenizer_options *options,
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
  clave_status st = load_file(file ? file : path, options, out);
  if (!st && file) st = folder_read_config(path, *out);
  free(file);
  if (st) {
    clave_tokenizer_destroy(*out);
    *out = NULL;
  }
  return st;
}

void clave_tokenizer_destroy(clave_tokenizer *t) {
  if (!t) return;
  if (t->model) t->model->destroy(t->model);
  if (t->normalize) t->normalize->destroy(t->normalize);
  if (t->split) t->split->destroy(t->split);
  if (t->decode) t->decode->destroy(t->decode);
  added_matcher_destroy(t->matcher);
  added_matcher_destroy(t->text_matcher);
  vocab_destroy(t->vocab);
  vocab_destroy(t->written);
  mem_pool_destroy(t->pool);
  free(t);
}

clave_status clave_tokenizer_get_info(const clave_tokenizer *t, clave_tokenizer_info *info) {
  clave_tokenizer_info own = {
      .format = t->format, .n_ids = vocab_size(t->vocab), .bos = t->bos, .eos = t->eos};
  return sized_write(&own, info, SIZED(clave_tokenizer_info, eos));
}
