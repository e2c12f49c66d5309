/* Fails the Nth allocation of a whole life of a tokenizer (load, encode, decode, stream, destroy),
 * for N = 0, 1, 2 ... (beyond 300 not for every N) until nothing is left to fail. Each time there
 * is an error, or ids and text are right. Leaks are for the sanitizer that this is built with.
 *
 *   run_text_faults FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_llm.h"
#include "test/fault/alloc.h"

#define TRY(call)              \
  do {                         \
    clave_status st_ = (call); \
    if (st_) return st_;       \
  } while (0)

enum { REPEATS = 70, STRIDE = 300 };
static const char part[] =
    "<s> The ab aab[x] A\n\t\xC3\xA9"
    "e\xCC\x81\xFF 1234 \xF0\x9F\x91\x8D\xE4\xBD\xA0 don't [CLS]  ";
static char in[REPEATS * sizeof part]; /* long enough for what is remembered of a text */

typedef struct life {
  clave_tokenizer *tokenizer;
  clave_tokenizer_info info;
  clave_text_stream *stream;
  clave_ids ids;
  char *text;
  size_t size, streamed;
} life;

static clave_status run_stream(life *life) {
  const char *bytes;
  size_t n;
  TRY(clave_text_stream_create(life->tokenizer, false, &life->stream));
  for (size_t i = 0; i < life->ids.count; i++) {
    TRY(clave_text_stream_next(life->stream, life->ids.items[i], &bytes, &n));
    life->streamed += n;
  }
  TRY(clave_text_stream_finish(life->stream, &bytes, &n));
  life->streamed += n;
  return NULL;
}

static clave_status run_life(life *life, const char *path) {
  clave_encode_options options = {sizeof options, true, true, CLAVE_SPECIAL_MATCH};
  life->info.size = sizeof life->info;
  TRY(clave_tokenizer_load(path, NULL, &life->tokenizer));
  TRY(clave_tokenizer_get_info(life->tokenizer, &life->info));
  TRY(clave_tokenizer_encode(life->tokenizer, in, strlen(in), &options, &life->ids));
  TRY(clave_tokenizer_decode(life->tokenizer, life->ids.items, life->ids.count, false, &life->text,
                             &life->size));
  return run_stream(life);
}

static void end_life(life *life) {
  clave_text_stream_destroy(life->stream);
  clave_ids_free(&life->ids);
  clave_text_free(life->text);
  clave_tokenizer_destroy(life->tokenizer);
}

static bool same_life(const life *left, const life *right) {
  return left->info.n_ids == right->info.n_ids && left->ids.count == right->ids.count &&
         left->size == right->size && left->streamed == right->streamed &&
         (left->ids.count == 0 ||
          !memcmp(left->ids.items, right->ids.items, left->ids.count * sizeof(uint32_t))) &&
         (!left->text || !memcmp(left->text, right->text, left->size));
}

/* Runs life n and returns a description of what is wrong with it, or NULL. `good`: the results of a
 * life without a failure; `loads`: that life had no error. */
static const char *fault(const char *path, const life *good, bool loads, long n, bool *fired) {
  static char message[400];
  life life = {0};
  alloc_arm(n);
  clave_status st = run_life(&life, path);
  *fired = alloc_disarm();
  (void)snprintf(message, sizeof message, "%s", st ? clave_status_message(st) : "");
  const char *wrong = NULL;
  if (st && loads && !*fired) wrong = message;
  if (st && (!*message || strchr(message, '\n'))) wrong = "the message is not one line";
  if (!st && !same_life(&life, good)) wrong = "no error, yet ids or text are wrong";
  clave_status_free(st);
  end_life(&life);
  return wrong;
}

static int run_file(const char *path, int *failed) {
  life good = {0};
  clave_status st = run_life(&good, path);
  bool loads = !st;
  int passed = 0;
  clave_status_free(st);
  for (long n = 0, fired = true; fired; n += 1 + n / STRIDE) {
    bool came;
    const char *wrong = fault(path, &good, loads, n, &came);
    if (wrong) printf("FAIL %s, allocation %ld: %s\n", path, n, wrong);
    *(wrong ? failed : &passed) += 1;
    fired = came;
  }
  end_life(&good);
  return passed;
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  for (int i = 0; i < REPEATS; i++) strcat(in, part);
  for (int i = 1; i < argc; i++) passed += run_file(argv[i], &failed);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
