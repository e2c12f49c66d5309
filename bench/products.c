/* products DEVICE ROUNDS BYTES PRECISION=PROGRAM...: times programs with the methods "one" and
 * "five" (see gemm.c), each in strict or fast precision, and a loop that only reads as many bytes,
 * alternating in one process. Prints the seconds of a product of each, and of the loop, in CPU time
 * over all cores, which other load on the machine increases little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common.h"

enum { MAX_PROGRAMS = 16 };

typedef struct measured {
  bench_session session;
  double seconds[MAX_ROUNDS];
} measured;

static bool open_program(const char *argument, const char *device, measured *measured) {
  const char *path = strchr(argument, '=');
  if (!path) return false;
  clave_session_options options = {.size = sizeof options};
  options.fast = strncmp(argument, "fast=", strlen("fast=")) == 0;
  open_session_as(&measured->session, path + 1, device, &options);
  return true;
}

static double time_runs(bench_session *session, const char *method, int runs) {
  double begin = processor_s();
  for (int i = 0; i < runs; i++) (void)time_run(session, method);
  return processor_s() - begin;
}

/* Measures several runs, because one run of a single row takes little longer than its launch. */
static double time_product(bench_session *session) {
  enum { RUNS = 5 };
  return (time_runs(session, "five", RUNS) - time_runs(session, "one", RUNS)) / (4 * RUNS);
}

int main(int argc, char **argv) {
  static measured all[MAX_PROGRAMS];
  static double loop[MAX_ROUNDS];
  int n = argc - 4;
  bool good = n > 0 && n <= MAX_PROGRAMS;
  for (int i = 0; i < n && good; i++) good = open_program(argv[4 + i], argv[1], &all[i]);
  if (!good) {
    fprintf(stderr, "usage: products DEVICE ROUNDS BYTES strict=PROGRAM|fast=PROGRAM...\n");
    return 2;
  }
  size_t bytes = (size_t)atoll(argv[3]);
  uint64_t *data = malloc(bytes), sum = 0;
  int rounds = atoi(argv[2]) > MAX_ROUNDS ? MAX_ROUNDS : atoi(argv[2]);
  if (!data) return 1;
  memset(data, 1, bytes);
  for (int r = -1; r < rounds; r++) {
    for (int i = 0; i < n; i++) {
      double seconds = time_product(&all[i].session);
      if (r >= 0) all[i].seconds[r] = seconds;
    }
    double begin = processor_s();
    for (int i = 0; i < 4; i++) sum += read_all(data, bytes);
    if (r >= 0) loop[r] = (processor_s() - begin) / 4;
  }
  printf("{\"s\": [");
  for (int i = 0; i < n; i++) printf("%s%.9f", i ? ", " : "", median(all[i].seconds, rounds));
  printf("], \"read_s\": %.9f, \"sum\": %d}\n", median(loop, rounds), (int)(sum & 1));
  for (int i = 0; i < n; i++) close_session(&all[i].session);
  free(data);
  return 0;
}
