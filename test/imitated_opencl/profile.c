/* The profile of the imitated device, the log, and functions that write answers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/imitated_opencl/imitated.h"

enum { MAX_LINES = 128, MAX_TEXT = 1 << 14 };
static const char *lines[MAX_LINES];
static int n_lines;
static FILE *log_file;

__attribute__((constructor)) static void open_files(void) {
  static char text[MAX_TEXT];
  const char *path = getenv("CLAVE_IMITATED_PROFILE"), *log = getenv("CLAVE_IMITATED_LOG");
  if (log && *log) log_file = fopen(log, "a");
  if (!path || !*path) return;
  FILE *file = fopen(path, "r");
  if (!file) {
    fprintf(stderr, "imitated OpenCL: %s: no such profile\n", path);
    exit(2);
  }
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  for (char *at = strtok(text, "\n"); at && n_lines < MAX_LINES; at = strtok(NULL, "\n"))
    if (*at != '#') lines[n_lines++] = at;
}

const char *profile_text(const char *name, const char *absent) {
  const size_t n = strlen(name);
  for (int i = 0; i < n_lines; i++)
    if (strncmp(lines[i], name, n) == 0 && lines[i][n] == '=') return lines[i] + n + 1;
  return absent;
}

uint64_t profile_number(const char *name, uint64_t absent) {
  const char *text = profile_text(name, NULL);
  return text ? strtoull(text, NULL, 0) : absent;
}

uint64_t profile_max_group(void) { return profile_number("max_group", 256); }

uint64_t profile_max_item(cl_uint dimension) {
  const char *const names[] = {"max_item0", "max_item1", "max_item2"};
  return dimension < 3 ? profile_number(names[dimension], profile_max_group()) : 1;
}

void log_line(const char *format, ...) {
  if (!log_file) return;
  va_list args;
  va_start(args, format);
  flockfile(log_file);
  vfprintf(log_file, format, args);
  putc('\n', log_file);
  funlockfile(log_file);
  va_end(args);
}

cl_int break_limit(const char *what, const char *property, uint64_t value, uint64_t limit,
                   cl_int code) {
  log_line("broken\t%s\t%s\t%llu\t%llu", what, property, (unsigned long long)value,
           (unsigned long long)limit);
  return code;
}

/* ---------------------------------------------------------------- answers */

cl_int answer_bytes(const void *bytes, size_t n, size_t size, void *value, size_t *size_ret) {
  if (size_ret) *size_ret = n;
  if (!value) return CL_SUCCESS;
  if (size < n) return CL_INVALID_VALUE;
  memcpy(value, bytes, n);
  return CL_SUCCESS;
}

cl_int answer_text(const char *text, size_t size, void *value, size_t *size_ret) {
  return answer_bytes(text, strlen(text) + 1, size, value, size_ret);
}

cl_int answer_size(size_t number, size_t size, void *value, size_t *size_ret) {
  return answer_bytes(&number, sizeof number, size, value, size_ret);
}
