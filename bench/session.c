/* session PROGRAM DEVICE ROUNDS: what a further session of a program costs: its creation and its
 * first run, above a later run. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/common.h"

typedef struct lives {
  double create[MAX_ROUNDS], first[MAX_ROUNDS], later[MAX_ROUNDS], beyond[MAX_ROUNDS];
} lives; /* of sessions: seconds of creation, first run, later run; what the first two take more */

static void time_session(bench_session b, const char *method, lives *l, int r) {
  double begin = now_s();
  check(clave_session_create(b.program, b.device, NULL, &b.session));
  l->create[r] = now_s() - begin;
  l->first[r] = time_run(&b, method);
  l->later[r] = time_run(&b, method);
  l->beyond[r] = l->create[r] + l->first[r] - l->later[r];
  clave_session_destroy(b.session);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: session PROGRAM DEVICE ROUNDS\n");
    return 2;
  }
  int rounds = atoi(argv[3]);
  if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
  bench_session kept;
  open_session(&kept, argv[1], argv[2]);
  clave_method_info method = {.size = sizeof method};
  check(clave_program_method(kept.program, 0, &method));
  time_run(&kept, method.name);
  lives l;
  for (int r = 0; r < rounds; r++) time_session(kept, method.name, &l, r);
  printf("{\"create_ms\": %.4f, \"first_ms\": %.4f, \"later_ms\": %.4f, \"beyond_ms\": %.4f}\n",
         1e3 * median(l.create, rounds), 1e3 * median(l.first, rounds),
         1e3 * median(l.later, rounds), 1e3 * median(l.beyond, rounds));
  close_session(&kept);
  return 0;
}
