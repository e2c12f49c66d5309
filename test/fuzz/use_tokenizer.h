#ifndef TEST_FUZZ_USE_TOKENIZER_H
#define TEST_FUZZ_USE_TOKENIZER_H
/* Uses a tokenizer made from any bytes: its ids and texts must be consistent. */
#include "clave_tokenizer.h"
#include "test/fuzz/target.h"

#define FUZZ_CHECK(expr) \
  if (!(expr)) abort()

/* Input with special tokens, ill-formed bytes and emoji, which fuzzed files seldom contain. */
static const char fuzz_text[] =
    " the \xE2\x96\x81 ab aab[x]<s></s><unk>A\n\n\t\xC3\xA9"
    "e\xCC\x81\xFF\xE2\x82 1234 \xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD\xE4\xBD\xA0 don't  ";

static void fuzz_decode(const clave_tokenizer *tokenizer, const uint32_t *ids, size_t count) {
  char *all = NULL;
  size_t size = 0, at = 0, n = 0;
  const char *part;
  clave_text_stream *stream;
  clave_status st = clave_tokenizer_decode(tokenizer, ids, count, false, &all, &size);
  if (st) { /* a decoder's pattern may take too long */
    clave_status_free(st);
    return;
  }
  if (clave_text_stream_create(tokenizer, false, &stream)) abort();
  for (size_t i = 0; i <= count; i++) {
    st = i < count ? clave_text_stream_next(stream, ids[i], &part, &n)
                   : clave_text_stream_finish(stream, &part, &n);
    FUZZ_CHECK(!st && size - at >= n && memcmp(all + at, part, n) == 0);
    at += n;
  }
  FUZZ_CHECK(at == size);
  clave_text_stream_destroy(stream);
  clave_text_free(all);
}

static void fuzz_encode(const clave_tokenizer *tokenizer, uint32_t n_ids, clave_special special) {
  clave_encode_options options = {sizeof options, true, true, special};
  clave_ids ids;
  clave_status st =
      clave_tokenizer_encode(tokenizer, fuzz_text, sizeof fuzz_text - 1, &options, &ids);
  for (size_t i = 0; i < ids.count; i++) FUZZ_CHECK(ids.items[i] < n_ids);
  if (!st) fuzz_decode(tokenizer, ids.items, ids.count);
  clave_status_free(st);
  clave_ids_free(&ids);
}

/* Checks a reader's result: an error has no tokenizer; else the tokenizer is used and destroyed. */
static inline int fuzz_loaded(clave_status st, clave_tokenizer *tokenizer) {
  if (st) {
    FUZZ_CHECK(!tokenizer && !is_good(st));
    return 0;
  }
  clave_tokenizer_info info = {.size = sizeof info};
  FUZZ_CHECK(!clave_tokenizer_get_info(tokenizer, &info));
  fuzz_encode(tokenizer, info.n_ids, CLAVE_SPECIAL_MATCH);
  fuzz_encode(tokenizer, info.n_ids, CLAVE_SPECIAL_TEXT);
  for (uint32_t id = 0; id < info.n_ids && id < 500; id++) {
    char *out;
    size_t n;
    clave_status_free(clave_tokenizer_decode(tokenizer, &id, 1, true, &out, &n));
    clave_text_free(out);
  }
  clave_tokenizer_destroy(tokenizer);
  return 0;
}

static inline int fuzz_tokenizer(const uint8_t *data, size_t size) {
  clave_tokenizer *tokenizer;
  clave_status st = clave_tokenizer_create(data, size, NULL, &tokenizer);
  return fuzz_loaded(st, tokenizer);
}

#endif
