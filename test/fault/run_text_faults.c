/* Loads a tokenizer, encodes, decodes, streams and destroys it, and fails the Nth allocation, for N
 * = 0, 1, 2 ... (beyond 300 not for every N) until there is no Nth allocation. Each run ends with
 * an error or with the right ids and text. The sanitizer finds leaks.
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
static char in[REPEATS * sizeof part]; /* long enough to fill the cache of encoded words */

typedef struct scenario {
  clave_tokenizer *tokenizer;
  clave_tokenizer_info info;
  clave_text_stream *stream;
  clave_ids ids;
  char *text;
  size_t size, streamed;
} scenario;

static clave_status run_stream(scenario *scenario) {
  const char *bytes;
  size_t n;
  TRY(clave_text_stream_create(scenario->tokenizer, false, &scenario->stream));
  for (size_t i = 0; i < scenario->ids.count; i++) {
    TRY(clave_text_stream_next(scenario->stream, scenario->ids.items[i], &bytes, &n));
    scenario->streamed += n;
  }
  TRY(clave_text_stream_finish(scenario->stream, &bytes, &n));
  scenario->streamed += n;
  return NULL;
}

static clave_status run_scenario(scenario *scenario, const char *path) {
  clave_encode_options options = {sizeof options, true, true, CLAVE_SPECIAL_MATCH};
  scenario->info.size = sizeof scenario->info;
  TRY(clave_tokenizer_load(path, NULL, &scenario->tokenizer));
  TRY(clave_tokenizer_get_info(scenario->tokenizer, &scenario->info));
  TRY(clave_tokenizer_encode(scenario->tokenizer, in, strlen(in), &options, &scenario->ids));
  TRY(clave_tokenizer_decode(scenario->tokenizer, scenario->ids.items, scenario->ids.count, false,
                             &scenario->text, &scenario->size));
  return run_stream(scenario);
}

static void end_scenario(scenario *scenario) {
  clave_text_stream_destroy(scenario->stream);
  clave_ids_free(&scenario->ids);
  clave_text_free(scenario->text);
  clave_tokenizer_destroy(scenario->tokenizer);
}

static bool same_scenario(const scenario *left, const scenario *right) {
  return left->info.n_ids == right->info.n_ids && left->ids.count == right->ids.count &&
         left->size == right->size && left->streamed == right->streamed &&
         (left->ids.count == 0 ||
          !memcmp(left->ids.items, right->ids.items, left->ids.count * sizeof(uint32_t))) &&
         (!left->text || !memcmp(left->text, right->text, left->size));
}

/* Runs scenario n and returns a description of its problem, or NULL. good: the results of a
 * scenario without a failure. loads: that scenario had no error. */
static const char *fault(const char *path, const scenario *good, bool loads, long n, bool *fired) {
  static char message[400];
  scenario scenario = {0};
  alloc_arm(n);
  clave_status st = run_scenario(&scenario, path);
  *fired = alloc_disarm();
  (void)snprintf(message, sizeof message, "%s", st ? clave_status_message(st) : "");
  const char *wrong = NULL;
  if (st && loads && !*fired) wrong = message;
  if (st && (!*message || strchr(message, '\n'))) wrong = "the message is not one line";
  if (!st && !same_scenario(&scenario, good)) wrong = "no error, yet ids or text are wrong";
  clave_status_free(st);
  end_scenario(&scenario);
  return wrong;
}

static int run_file(const char *path, int *failed) {
  scenario good = {0};
  clave_status st = run_scenario(&good, path);
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
  end_scenario(&good);
  return passed;
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  for (int i = 0; i < REPEATS; i++) strcat(in, part);
  for (int i = 1; i < argc; i++) passed += run_file(argv[i], &failed);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
