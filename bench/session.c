/* session PROGRAM DEVICE ROUNDS: measures the cost of a further session of a program: its creation,
 * and its first run compared with a later run. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/common.h"

typedef struct lives {
  double create[MAX_ROUNDS], first[MAX_ROUNDS], later[MAX_ROUNDS], beyond[MAX_ROUNDS];
} lives; /* seconds of a session: creation, first run, later run; the first two also minus a later
            run */

static void time_session(bench_session session, const char *method, lives *lives, int r) {
  double begin = now_s();
  check(clave_session_create(session.program, session.device, NULL, &session.session));
  lives->create[r] = now_s() - begin;
  lives->first[r] = time_run(&session, method);
  lives->later[r] = time_run(&session, method);
  lives->beyond[r] = lives->create[r] + lives->first[r] - lives->later[r];
  clave_session_destroy(session.session);
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
  lives lives;
  for (int r = 0; r < rounds; r++) time_session(kept, method.name, &lives, r);
  printf("{\"create_ms\": %.4f, \"first_ms\": %.4f, \"later_ms\": %.4f, \"beyond_ms\": %.4f}\n",
         1e3 * median(lives.create, rounds), 1e3 * median(lives.first, rounds),
         1e3 * median(lives.later, rounds), 1e3 * median(lives.beyond, rounds));
  close_session(&kept);
  return 0;
}
