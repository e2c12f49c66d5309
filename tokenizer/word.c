/* Whole words: a piece of text is one, or many that U+2581 begins. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/model.h"

typedef struct word_model {
  token_model base;
  const vocab *vocab; /* borrowed, outlives us */
  bool split;
  unknown_rule unknown; /* without byte_ids */
  uint8_t *kinds;       /* by id, owned; NULL: all normal */
  uint32_t byte_ids[256];
} word_model;

static const char space[] = "\xE2\x96\x81"; /* U+2581 */
enum { SPACE = sizeof space - 1 };

static bool is_space(span in, size_t at) {
  return in.size - at >= SPACE && memcmp(in.data + at, space, SPACE) == 0;
}

static size_t word_end(const word_model *m, span in, size_t at) {
  if (!m->split) return in.size;
  for (size_t i = at; i < in.size; i++) {
    if (!is_space(in, i)) continue;
    if (i > at) return i;
  }
  return in.size;
}

static clave_status encode_word(const token_model *self, span in, id_list *out) {
  const word_model *m = (const word_model *)self;
  bool after_unknown = false;
  for (size_t at = 0, end; at < in.size; at = end) {
    end = word_end(m, in, at);
    span word = {in.data + at, end - at};
    uint32_t id = model_find(m->vocab, m->kinds, word);
    bool unknown = id == VOCAB_NONE;
    if (!unknown) {
      id_list_append(out, id);
    } else if (!append_bytes(m->byte_ids, word, out)) {
      if (m->unknown.id == VOCAB_NONE) return model_unknown(word);
      if (!after_unknown || !m->unknown.fuse) id_list_append(out, m->unknown.id);
    }
    after_unknown = unknown;
  }
  return out->failed ? status_no_memory() : NULL;
}

static void destroy_word(token_model *self) {
  word_model *m = (word_model *)self;
  if (!m) return;
  free(m->kinds);
  free(m);
}

clave_status word_create(const vocab *v, const word_options *o, token_model **out) {
  *out = NULL;
  word_model *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  m->base = (token_model){encode_word, destroy_word};
  m->vocab = v;
  m->split = o->split;
  m->unknown = (unknown_rule){.id = o->unknown.id, .fuse = o->unknown.fuse};
  copy_byte_ids(&o->unknown, m->byte_ids);
  clave_status st = copy_kinds(v, o->kinds, &m->kinds);
  if (st) {
    destroy_word(&m->base);
    return st;
  }
  *out = &m->base;
  return NULL;
}
