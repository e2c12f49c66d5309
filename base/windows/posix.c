/* POSIX functions for Windows: text, time, environment, memory. */
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <windows.h>

#include "base/windows/wide.h"

#undef getenv

void *memmem(const void *bytes, size_t size, const void *part, size_t n) {
  const char *at = bytes, *first = part;
  if (n == 0) return (void *)(uintptr_t)bytes;
  for (const char *end = at + size; (size_t)(end - at) >= n; at++) {
    at = memchr(at, *first, (size_t)(end - at) - n + 1);
    if (!at) return NULL;
    if (memcmp(at, part, n) == 0) return (void *)(uintptr_t)at;
  }
  return NULL;
}

char *strndup(const char *text, size_t n) {
  const size_t size = strnlen(text, n);
  char *copy = malloc(size + 1);
  if (!copy) return NULL;
  memcpy(copy, text, size);
  copy[size] = '\0';
  return copy;
}

struct tm *posix_gmtime(const time_t *time, struct tm *out) {
  return gmtime_s(out, time) == 0 ? out : NULL;
}
struct tm *posix_localtime(const time_t *time, struct tm *out) {
  return localtime_s(out, time) == 0 ? out : NULL;
}

double lgamma_r(double x, int *sign) {
  const double below = floor(x);
  *sign = x < 0 && fmod(below, 2) != 0 && below != x ? -1 : 1; /* the sign of the gamma function */
  return lgamma(x);
}

float lgammaf_r(float x, int *sign) {
  (void)lgamma_r((double)x, sign);
  return lgammaf(x);
}

/* MinGW's fma and fmaf round twice. The instruction of processors since 2013 rounds once. */
__attribute__((target("fma"))) static double fused(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
__attribute__((target("fma"))) static float fused_float(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}

double fma(double x, double y, double z) {
  return __builtin_cpu_supports("fma") ? fused(x, y, z) : (double)((long double)x * y + z);
}
float fmaf(float x, float y, float z) {
  return __builtin_cpu_supports("fma") ? fused_float(x, y, z) : (float)((double)x * y + z);
}

/* ---------------------------------------------------------------- environment */

/* A value that is not ASCII, in UTF-8, kept because callers of getenv borrow it. */
typedef struct kept_value {
  struct kept_value *next;
  char text[];
} kept_value;
static kept_value *_Atomic kept_values;

static char *keep_value(const char *text) {
  for (kept_value *kept = atomic_load(&kept_values); kept; kept = kept->next)
    if (strcmp(kept->text, text) == 0) return kept->text;
  kept_value *added = malloc(sizeof *added + strlen(text) + 1);
  if (!added) return NULL;
  strcpy(added->text, text);
  added->next = atomic_load(&kept_values);
  while (!atomic_compare_exchange_weak(&kept_values, &added->next, added)) continue;
  return added->text;
}

char *posix_getenv(const char *name) {
  char *narrow = getenv(name);
  const char *at = narrow;
  while (at && *at && (unsigned char)*at < 0x80) at++;
  if (!at || !*at) return narrow;
  wchar_t *wide_name = wide_of(name);
  const wchar_t *wide = wide_name ? _wgetenv(wide_name) : NULL;
  char *text = wide ? utf8_of(wide) : NULL, *kept = text ? keep_value(text) : NULL;
  free(wide_name);
  free(text);
  return kept;
}

int setenv(const char *name, const char *value, int replaces) {
  if (!replaces && getenv(name)) return 0;
  wchar_t *wide_name = wide_of(name), *wide_value = wide_of(value);
  const bool good = wide_name && wide_value && _wputenv_s(wide_name, wide_value) == 0;
  free(wide_name);
  free(wide_value);
  return good ? 0 : -1;
}

int unsetenv(const char *name) { return setenv(name, "", 1); }

/* ---------------------------------------------------------------- memory */

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  void *memory = NULL;
  (void)offset;
  if (flags & MAP_ANONYMOUS) {
    memory = VirtualAlloc(at, n, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  } else if (!(protection & PROT_WRITE)) {
    HANDLE mapping =
        CreateFileMappingW((HANDLE)_get_osfhandle(fd), NULL, PAGE_READONLY, 0, 0, NULL);
    if (mapping) memory = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, n);
    if (mapping) CloseHandle(mapping); /* the view keeps it alive */
  }
  if (!memory) errno = errno_of(GetLastError());
  return memory ? memory : MAP_FAILED;
}

int munmap(void *at, size_t n) {
  (void)n;
  return UnmapViewOfFile(at) || VirtualFree(at, 0, MEM_RELEASE) ? 0 : -1;
}

long sysconf(int name) {
  SYSTEM_INFO info;
  MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
  GetSystemInfo(&info);
  if (name == _SC_NPROCESSORS_ONLN) return (long)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
  if (name == _SC_PAGESIZE) return (long)info.dwPageSize;
  return GlobalMemoryStatusEx(&memory) ? (long)(memory.ullTotalPhys / info.dwPageSize) : -1;
}
