/* Decodes ids to text as a stream. Decoding at once passes all ids to a stream. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/find.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

struct clave_text_stream {
  const clave_tokenizer *tokenizer; /* borrowed; must outlive the stream */
  bool skip_special;
  decoding *state; /* owned */
  text bytes;      /* decoded bytes; between calls at most an incomplete character */
  text valid;      /* result of the last call */
};

clave_status clave_text_stream_create(const clave_tokenizer *tokenizer, bool skip_special,
                                      clave_text_stream **out) {
  *out = NULL;
  clave_text_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return status_no_memory();
  *stream = (clave_text_stream){.tokenizer = tokenizer, .skip_special = skip_special};
  clave_status st = tokenizer->decode->begin(tokenizer->decode, &stream->state);
  if (st) {
    clave_text_stream_destroy(stream);
    return st;
  }
  *out = stream;
  return NULL;
}

void clave_text_stream_destroy(clave_text_stream *stream) {
  if (!stream) return;
  if (stream->state) stream->state->destroy(stream->state);
  text_free(&stream->bytes);
  text_free(&stream->valid);
  free(stream);
}

static clave_status tokenizer_decode_check_id(const clave_tokenizer *tokenizer, uint32_t id) {
  if (tokenizer_has(tokenizer, id)) return NULL;
  return INVALID("id %u is not in the vocabulary, whose largest id is %u", id,
                 vocab_size(tokenizer->vocab) - 1);
}

static clave_status push_id(clave_text_stream *stream, uint32_t id) {
  const clave_tokenizer *tokenizer = stream->tokenizer;
  TRY(tokenizer_decode_check_id(tokenizer, id));
  if (stream->skip_special && tokenizer->special && tokenizer->special[id]) return NULL;
  return stream->state->next(stream->state, id, &stream->bytes);
}

/* Moves complete characters from bytes to valid. */
static clave_status move_valid(clave_text_stream *stream, bool end) {
  size_t used =
      unicode_append_valid(&stream->valid, (span){stream->bytes.data, stream->bytes.size}, end);
  TRY(text_status(&stream->bytes));
  TRY(text_status(&stream->valid));
  stream->bytes.size -= used;
  if (stream->bytes.size > 0)
    memmove(stream->bytes.data, stream->bytes.data + used, stream->bytes.size);
  return NULL;
}

static void borrow_valid(const clave_text_stream *stream, const char **out, size_t *size) {
  *out = stream->valid.data ? stream->valid.data : "";
  *size = stream->valid.size;
}

clave_status clave_text_stream_next(clave_text_stream *stream, uint32_t id, const char **out,
                                    size_t *size) {
  *out = "";
  *size = 0;
  stream->valid.size = 0;
  TRY(push_id(stream, id));
  TRY(move_valid(stream, false));
  borrow_valid(stream, out, size);
  return NULL;
}

clave_status clave_text_stream_finish(clave_text_stream *stream, const char **out, size_t *size) {
  *out = "";
  *size = 0;
  stream->valid.size = 0;
  TRY(stream->state->finish(stream->state, &stream->bytes));
  TRY(move_valid(stream, true));
  borrow_valid(stream, out, size);
  return NULL;
}

static clave_status decode_all(clave_text_stream *stream, const uint32_t *ids, size_t count) {
  for (size_t i = 0; i < count; i++) {
    TRY(status_while(push_id(stream, ids[i]), "id %zu of %zu", i + 1, count));
  }
  TRY(stream->state->finish(stream->state, &stream->bytes));
  TRY(move_valid(stream, true));
  text_append(&stream->valid, "", 0); /* so that an empty text is a string too */
  return text_status(&stream->valid);
}

clave_status clave_tokenizer_decode(const clave_tokenizer *tokenizer, const uint32_t *ids,
                                    size_t count, bool skip_special, char **out, size_t *size) {
  *out = NULL;
  *size = 0;
  clave_text_stream *stream;
  TRY(clave_text_stream_create(tokenizer, skip_special, &stream));
  clave_status st = decode_all(stream, ids, count);
  if (!st) {
    *out = stream->valid.data;
    *size = stream->valid.size;
    stream->valid = (text){0};
  }
  clave_text_stream_destroy(stream);
  return st;
}

void clave_text_free(char *bytes) { free(bytes); }
