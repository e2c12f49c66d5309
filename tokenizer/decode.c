/* Ids to text: a stream, of which decoding at once is one that is given all ids. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/find.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

struct clave_text_stream {
  const clave_tokenizer *tokenizer; /* borrowed, outlives us */
  bool skip_special;
  decoding *state; /* owned */
  text bytes;      /* decoded, at most the beginning of a character between calls */
  text valid;      /* what the last call gave */
};

clave_status clave_text_stream_create(const clave_tokenizer *t, bool skip_special,
                                      clave_text_stream **out) {
  *out = NULL;
  clave_text_stream *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  *s = (clave_text_stream){.tokenizer = t, .skip_special = skip_special};
  clave_status st = t->decode->begin(t->decode, &s->state);
  if (st) {
    clave_text_stream_destroy(s);
    return st;
  }
  *out = s;
  return NULL;
}

void clave_text_stream_destroy(clave_text_stream *s) {
  if (!s) return;
  if (s->state) s->state->destroy(s->state);
  text_free(&s->bytes);
  text_free(&s->valid);
  free(s);
}

static clave_status check_id(const clave_tokenizer *t, uint32_t id) {
  if (tokenizer_has(t, id)) return NULL;
  return INVALID("id %u is not in the vocabulary, whose largest is %u", id,
                 vocab_size(t->vocab) - 1);
}

static clave_status push_id(clave_text_stream *s, uint32_t id) {
  const clave_tokenizer *t = s->tokenizer;
  TRY(check_id(t, id));
  if (s->skip_special && t->special && t->special[id]) return NULL;
  return s->state->next(s->state, id, &s->bytes);
}

/* Moves whole characters from bytes to valid. */
static clave_status move_valid(clave_text_stream *s, bool end) {
  size_t used = unicode_append_valid(&s->valid, (span){s->bytes.data, s->bytes.size}, end);
  TRY(text_status(&s->bytes));
  TRY(text_status(&s->valid));
  s->bytes.size -= used;
  if (s->bytes.size > 0) memmove(s->bytes.data, s->bytes.data + used, s->bytes.size);
  return NULL;
}

static void give_valid(const clave_text_stream *s, const char **out, size_t *size) {
  *out = s->valid.data ? s->valid.data : "";
  *size = s->valid.size;
}

clave_status clave_text_stream_next(clave_text_stream *s, uint32_t id, const char **out,
                                    size_t *size) {
  *out = "";
  *size = 0;
  s->valid.size = 0;
  TRY(push_id(s, id));
  TRY(move_valid(s, false));
  give_valid(s, out, size);
  return NULL;
}

clave_status clave_text_stream_finish(clave_text_stream *s, const char **out, size_t *size) {
  *out = "";
  *size = 0;
  s->valid.size = 0;
  TRY(s->state->finish(s->state, &s->bytes));
  TRY(move_valid(s, true));
  give_valid(s, out, size);
  return NULL;
}

static clave_status decode_all(clave_text_stream *s, const uint32_t *ids, size_t count) {
  for (size_t i = 0; i < count; i++) {
    TRY(status_while(push_id(s, ids[i]), "id %zu of %zu", i + 1, count));
  }
  TRY(s->state->finish(s->state, &s->bytes));
  TRY(move_valid(s, true));
  text_append(&s->valid, "", 0); /* a text of nothing is a string too */
  return text_status(&s->valid);
}

clave_status clave_tokenizer_decode(const clave_tokenizer *t, const uint32_t *ids, size_t count,
                                    bool skip_special, char **out, size_t *size) {
  *out = NULL;
  *size = 0;
  clave_text_stream *s;
  TRY(clave_text_stream_create(t, skip_special, &s));
  clave_status st = decode_all(s, ids, count);
  if (!st) {
    *out = s->valid.data;
    *size = s->valid.size;
    s->valid = (text){0};
  }
  clave_text_stream_destroy(s);
  return st;
}

void clave_text_free(char *bytes) { free(bytes); }
