/* gemv PROGRAM DEVICE BYTES ROUNDS: compares our matrix-vector product with a plain loop that reads
 * as many bytes with all cores, in alternation. PROGRAM has the methods "one" and "five" (see
 * gemm.c) on one constant of BYTES. Prints GB/s of both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common.h"

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: gemv PROGRAM DEVICE BYTES ROUNDS\n");
    return 2;
  }
  size_t bytes = (size_t)atoll(argv[3]);
  int rounds = atoi(argv[4]);
  if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
  uint64_t *data = malloc(bytes), sum = 0;
  if (!data) return 1;
  memset(data, 1, bytes);
  bench_session session;
  open_session(&session, argv[1], argv[2]);
  double ours[MAX_ROUNDS], theirs[MAX_ROUNDS];
  for (int r = -2; r < rounds; r++) {
    double one = time_run(&session, "one"), five = time_run(&session, "five"), begin = now_s();
    for (int i = 0; i < 4; i++) sum += read_all(data, bytes);
    double loop = now_s() - begin;
    if (r >= 0) ours[r] = five - one, theirs[r] = loop;
  }
  double work = 4e-9 * (double)bytes, x = work / median(ours, rounds),
         y = work / median(theirs, rounds);
  printf("{\"clave\": %.1f, \"read_loop\": %.1f, \"ratio\": %.3f, \"sum\": %d}\n", x, y, x / y,
         (int)(sum & 1));
  close_session(&session);
  free(data);
  return 0;
}
