/* decoder PROGRAM DEVICE strict|fast NEW CONTEXT LENGTH...: times a language model with the method
 * forward(tokens, position). Prints the seconds
 *
 *   - from opening the model to the end of the first prefill of LENGTH tokens;
 *   - of a later prefill of each LENGTH (long ones run once);
 *   - per token of NEW tokens, decoded one at a time after the first LENGTH tokens;
 *   - the same at position CONTEXT, if it is not 0, where the rows of the cache that no token wrote
 *     are zeros.
 *
 * Writes to the file named by CLAVE_BENCH_LOGITS the logits after the first LENGTH tokens, and
 * after the last of the NEW tokens that follow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common.h"

enum { MAX_NEW = MAX_ROUNDS, MAX_LENGTHS = 4, LONG = 1024 };

typedef struct timing {
  double clock, processor;
} timing; /* seconds of wall time, and of CPU time over all cores */

static timing now(void) { return (timing){now_s(), processor_s()}; }

static timing since(timing begin) {
  timing end = now();
  return (timing){end.clock - begin.clock, end.processor - begin.processor};
}

/* The same ids as in llama_engine.py; any ids do. */
static int64_t token_at(int64_t position, int64_t n_vocab) { return position * 7919 % n_vocab; }

/* Reads n tokens at a position and the following ones. The logits belong to the session. */
static timing read_tokens(clave_session *session, int64_t n_vocab, int64_t position, int64_t n,
                          clave_tensor *logits) {
  int64_t *ids = malloc((size_t)n * sizeof *ids);
  if (!ids) exit(1);
  for (int64_t i = 0; i < n; i++) ids[i] = token_at(position + i, n_vocab);
  clave_tensor tokens = clave_tensor_make(CLAVE_I64, 2, (int64_t[]){1, n}, ids);
  clave_tensor at = clave_tensor_make(CLAVE_I64, 0, NULL, &position);
  timing begin = now();
  check(clave_session_set_input(session, "forward", 0, &tokens));
  check(clave_session_set_input(session, "forward", 1, &at));
  check(clave_session_run(session, "forward"));
  check(clave_session_output(session, "forward", 0, logits));
  timing spent = since(begin);
  free(ids);
  return spent;
}

static void write_logits(FILE *file, const clave_tensor *logits) {
  if (file) (void)fwrite(logits->data, sizeof(float), (size_t)logits->dims[logits->rank - 1], file);
}

static void print_medians(const char *name, const timing *times, int n) {
  double clock[MAX_NEW], processor[MAX_NEW];
  for (int i = 0; i < n; i++) clock[i] = times[i].clock, processor[i] = times[i].processor;
  printf("\"%s\": {\"s\": %.7f, \"core_s\": %.7f}, ", name, median(clock, n), median(processor, n));
}

/* Decodes n tokens from a position on, one at a time. The logits belong to the session. */
static void print_decoding(clave_session *session, int64_t n_vocab, int64_t position, int n,
                           clave_tensor *logits) {
  char name[32];
  timing times[MAX_NEW];
  snprintf(name, sizeof name, "decode %lld", (long long)position);
  read_tokens(session, n_vocab, position, 1, logits);
  for (int i = 0; i < n; i++) times[i] = read_tokens(session, n_vocab, position + i, 1, logits);
  print_medians(name, times, n);
}

/* Returns the number of logits: the last size of the output. */
static int64_t vocabulary(const clave_program *program) {
  clave_tensor_info info = {.size = sizeof info};
  check(clave_program_output(program, "forward", 0, &info));
  return info.dims[info.rank - 1];
}

int main(int argc, char **argv) {
  if (argc < 7 || argc > 6 + MAX_LENGTHS) {
    fprintf(stderr, "usage: decoder PROGRAM DEVICE strict|fast NEW CONTEXT LENGTH...\n");
    return 2;
  }
  const char *path = getenv("CLAVE_BENCH_LOGITS");
  FILE *file = path ? fopen(path, "wb") : NULL;
  int n_new = atoi(argv[4]) > MAX_NEW ? MAX_NEW : atoi(argv[4]);
  int64_t context = atoll(argv[5]), length = atoll(argv[6]);
  clave_session_options options = {.size = sizeof options, .fast = !strcmp(argv[3], "fast")};
  clave_tensor logits;
  bench_session session;
  timing begin = now(), first;
  open_session_as(&session, argv[1], argv[2], &options);
  int64_t n_vocab = vocabulary(session.program);
  read_tokens(session.session, n_vocab, 0, length, &logits);
  first = since(begin);
  printf("{");
  print_medians("first", &first, 1);
  write_logits(file, &logits);
  for (int i = 6; i < argc; i++) {
    char name[32];
    snprintf(name, sizeof name, "prefill %s", argv[i]);
    int64_t n = atoll(argv[i]);
    if (i > 6 && n < LONG) read_tokens(session.session, n_vocab, 0, n, &logits);
    timing again = read_tokens(session.session, n_vocab, 0, n, &logits);
    print_medians(name, &again, 1);
  }
  print_decoding(session.session, n_vocab, length, n_new, &logits);
  write_logits(file, &logits);
  if (context) print_decoding(session.session, n_vocab, context, n_new, &logits);
  printf("\"peak_rss_mb\": %.1f}\n", peak_rss_mb());
  if (file) fclose(file);
  close_session(&session);
  return 0;
}
