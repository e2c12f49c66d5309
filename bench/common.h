#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H
/* What the measuring programs share: a session with random inputs, a clock, medians. They end with
 * a message on an error. */
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
double processor_s(void);             /* of all threads of the process together */
double median(double *values, int n); /* sorts them */
void open_session(bench_session *session, const char *program, const char *device);
void open_session_as(bench_session *session, const char *program, const char *device,
                     const clave_session_options *options);
void close_session(bench_session *session);
/* Reads memory by all cores, and does little else: the sum of its words. */
uint64_t read_all(const uint64_t *data, size_t bytes);
/* Fills every input of a method, of the smallest sizes that it takes: floats from a fixed sequence
 * in
 * [-1, 1), integers 0. */
void set_random_inputs(bench_session *session, const char *method);
/* Sets the inputs (not timed), runs the method and reads its first output. Seconds. */
double time_run(bench_session *session, const char *method);
double peak_rss_mb(void); /* in units of 10^6 bytes, as `clave bench` gives it */
/* The clock of this core under load, by additions that wait for each other: one a cycle. */
double clock_ghz(void);

#endif
