#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H
/* Helpers shared by the benchmark programs: a session with random inputs, clocks, medians. On an
 * error they print a message and exit. */
#include <stdbool.h>
#include <stdint.h>

#include "clave.h"

enum { MAX_ROUNDS = 101 };

typedef struct bench_session {
  clave_device *device;
  clave_program *program;
  clave_session *session;
} bench_session;

void check(clave_status status); /* prints the message and exits unless good */
double now_s(void);
double processor_s(void);             /* CPU time of all threads of the process */
double median(double *values, int n); /* sorts the values */
void open_session(bench_session *session, const char *program, const char *device);
void open_session_as(bench_session *session, const char *program, const char *device,
                     const clave_session_options *options);
void close_session(bench_session *session);
/* Reads memory with all cores at the full bandwidth, and returns the sum of its words. */
uint64_t read_all(const uint64_t *data, size_t bytes);
/* Fills every input of a method at its smallest legal sizes: floats from a fixed sequence in [-1,
 * 1), integers 0. */
void set_random_inputs(bench_session *session, const char *method);
/* Sets the inputs (untimed), runs the method and reads its first output. Returns seconds. */
double time_run(bench_session *session, const char *method);
double peak_rss_mb(void); /* in units of 10^6 bytes, like `clave bench` */
/* Returns the clock rate of this core under load, measured by dependent additions, one per cycle.
 */
double clock_ghz(void);

#endif
