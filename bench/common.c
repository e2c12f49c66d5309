/* See common.h. */
#include "bench/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void check(clave_status status) {
  if (!status) return;
  fprintf(stderr, "bench: %s\n", clave_status_message(status));
  exit(1);
}

static double read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now_s(void) { return read_clock(CLOCK_MONOTONIC); }
double processor_s(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

static int compare(const void *left, const void *right) {
  double x = *(const double *)left, y = *(const double *)right;
  return (x > y) - (x < y);
}

double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare);
  return values[n / 2];
}

/* Keeps enough wide loads in flight that memory, not the loop, is the limit. */
__attribute__((target_clones("avx512f", "avx2", "default"),
               optimize("unroll-loops"))) static uint64_t
read_part(const uint64_t *data, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += data[i];
  return sum;
}

uint64_t read_all(const uint64_t *data, size_t bytes) {
  enum { PART = 1 << 16 };
  uint64_t sum = 0;
  size_t n = bytes / sizeof *data;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic)
  for (size_t i = 0; i < n; i += PART) sum += read_part(data + i, n - i < PART ? n - i : PART);
  return sum;
}

void open_session(bench_session *session, const char *program, const char *device) {
  const clave_session_options options = {.size = sizeof options};
  open_session_as(session, program, device, &options);
}

void open_session_as(bench_session *session, const char *program, const char *device,
                     const clave_session_options *options) {
  check(clave_device_open(device, NULL, &session->device));
  check(clave_program_load(program, NULL, &session->program));
  check(clave_session_create(session->program, session->device, options, &session->session));
}

void close_session(bench_session *session) {
  clave_session_destroy(session->session);
  clave_program_destroy(session->program);
  clave_device_destroy(session->device);
}

static void fill(const clave_tensor_info *info, void *data, size_t n) {
  uint32_t seed = 12345;
  memset(data, 0, n * clave_dtype_size(info->dtype));
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    if (info->dtype == CLAVE_F32) ((float *)data)[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    if (info->dtype == CLAVE_F16)
      ((uint16_t *)data)[i] = (uint16_t)(0x3000 | (seed >> 16 & 0x83ff)); /* about 1/8 */
  }
}

void set_random_inputs(bench_session *session, const char *method) {
  clave_method_info method_info = {.size = sizeof method_info};
  clave_program_info program_info = {.size = sizeof program_info};
  check(clave_program_get_info(session->program, &program_info));
  for (uint32_t i = 0; i < program_info.n_methods; i++) {
    check(clave_program_method(session->program, i, &method_info));
    if (!strcmp(method_info.name, method)) break;
  }
  for (uint32_t i = 0; i < method_info.n_inputs; i++) {
    clave_tensor_info info = {.size = sizeof info};
    check(clave_program_input(session->program, method, i, &info));
    size_t n = 1;
    for (int d = 0; d < info.rank; d++) {
      if (info.dims[d] == CLAVE_DYNAMIC) info.dims[d] = info.min_dims[d];
      n *= (size_t)info.dims[d];
    }
    void *data = malloc(n * clave_dtype_size(info.dtype) + 1);
    if (!data) exit(1);
    fill(&info, data, n);
    clave_tensor tensor = clave_tensor_make(info.dtype, info.rank, info.dims, data);
    check(clave_session_set_input(session->session, method, i, &tensor));
    free(data);
  }
}

double time_run(bench_session *session, const char *method) {
  clave_tensor out;
  set_random_inputs(session, method);
  double begin = now_s();
  check(clave_session_run(session->session, method));
  check(clave_session_output(session->session, method, 0, &out));
  return now_s() - begin;
}

double clock_ghz(void) {
  enum { STEPS = 200000, BURSTS = 20 };
  double best = 0;
  for (int burst = 0; burst < BURSTS; burst++) {
    double begin = now_s();
    for (uint32_t i = 0; i < STEPS; i++) __asm__ volatile("" : "+r"(i));
    double ghz = 1e-9 * STEPS / (now_s() - begin);
    if (ghz > best) best = ghz;
  }
  return best;
}

double peak_rss_mb(void) {
  /* getrusage() would include the parent's memory before exec. */
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  double kb = 0;
  while (file && fgets(line, sizeof line, file)) (void)sscanf(line, "VmHWM: %lf", &kb);
  if (file) fclose(file);
  return kb * 1024 / 1e6;
}
