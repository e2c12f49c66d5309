/* run PROGRAM DEVICE ROUNDS: prints the median time of a run of "forward", the program's constants
 * and arena, the process's peak memory, and the core's clock rate. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/common.h"

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: run PROGRAM DEVICE ROUNDS\n");
    return 2;
  }
  int rounds = atoi(argv[3]);
  if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
  bench_session session;
  open_session(&session, argv[1], argv[2]);
  double times[MAX_ROUNDS];
  time_run(&session, "forward");
  for (int r = 0; r < rounds; r++) times[r] = time_run(&session, "forward");
  clave_memory_info memory = {.size = sizeof memory};
  check(clave_session_memory(session.session, &memory));
  clave_program_info program = {.size = sizeof program};
  check(clave_program_get_info(session.program, &program));
  clave_method_info method = {.size = sizeof method};
  check(clave_program_method(session.program, 0, &method));
  printf(
      "{\"median_us\": %.1f, \"nodes\": %u, \"constant_mb\": %.1f, \"arena_mb\": %.1f, "
      "\"peak_rss_mb\": %.1f, \"ghz\": %.2f}\n",
      1e6 * median(times, rounds), method.n_nodes, (double)program.constant_bytes / 1e6,
      (double)memory.arena_bytes / 1e6, peak_rss_mb(), clock_ghz());
  close_session(&session);
  return 0;
}
