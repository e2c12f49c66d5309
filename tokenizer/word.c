/* Whole words: a pre-token is one word, or several that begin with U+2581. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/model.h"

typedef struct word_model {
  token_model base;
  const vocab *vocab; /* borrowed; must outlive the model */
  bool split;
  unknown_rule unknown; /* without byte_ids */
  uint8_t *kinds;       /* by id, owned; NULL if all are normal */
  uint32_t byte_ids[256];
} word_model;

static const char space[] = "\xE2\x96\x81"; /* U+2581 */
enum { SPACE = sizeof space - 1 };

static bool word_is_space(span in, size_t at) {
  return in.size - at >= SPACE && memcmp(in.data + at, space, SPACE) == 0;
}

static size_t word_end(const word_model *model, span in, size_t at) {
  if (!model->split) return in.size;
  for (size_t i = at; i < in.size; i++) {
    if (!word_is_space(in, i)) continue;
    if (i > at) return i;
  }
  return in.size;
}

static clave_status encode_word(const token_model *self, span in, id_list *out) {
  const word_model *model = (const word_model *)self;
  bool after_unknown = false;
  for (size_t at = 0, end; at < in.size; at = end) {
    end = word_end(model, in, at);
    span word = {in.data + at, end - at};
    uint32_t id = model_find(model->vocab, model->kinds, word);
    bool unknown = id == VOCAB_NONE;
    if (!unknown) {
      id_list_append(out, id);
    } else if (!append_bytes(model->byte_ids, word, out)) {
      if (model->unknown.id == VOCAB_NONE) return model_unknown(word);
      if (!after_unknown || !model->unknown.fuse) id_list_append(out, model->unknown.id);
    }
    after_unknown = unknown;
  }
  return out->failed ? status_no_memory() : NULL;
}

static void destroy_word(token_model *self) {
  word_model *model = (word_model *)self;
  if (!model) return;
  free(model->kinds);
  free(model);
}

clave_status word_create(const vocab *vocab, const word_options *options, token_model **out) {
  *out = NULL;
  word_model *model = calloc(1, sizeof *model);
  if (!model) return status_no_memory();
  model->base = (token_model){encode_word, destroy_word};
  model->vocab = vocab;
  model->split = options->split;
  model->unknown = (unknown_rule){.id = options->unknown.id, .fuse = options->unknown.fuse};
  copy_byte_ids(&options->unknown, model->byte_ids);
  clave_status st = copy_kinds(vocab, options->kinds, &model->kinds);
  if (st) {
    destroy_word(&model->base);
    return st;
  }
  *out = &model->base;
  return NULL;
}
