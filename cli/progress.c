/* Progress on a terminal. A timer shows the seconds of work that reports no progress; its handler
 * only calls write(). */
#include "cli/progress.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/number.h"
#include "clave.h"
#include "clave_files.h"

static char work[160];
static volatile sig_atomic_t seconds, shown;

static bool on_terminal(void) {
  static int known = -1;
  if (known < 0) known = isatty(STDERR_FILENO);
  return known == 1;
}

static void progress_write_line(const char *line) {
  if (write(STDERR_FILENO, line, strlen(line)) >= 0) shown = 1;
}

/* Async-signal-safe: uses write(2) and converts digits by hand. */
static void tick(int signal_number) {
  (void)signal_number;
  char line[sizeof work + 32], digits[12];
  size_t n = 0, length = strlen(work);
  seconds++;
  for (int s = seconds; s; s /= 10) digits[n++] = (char)('0' + s % 10);
  memcpy(line, "\r\x1b[K", 4);
  memcpy(line + 4, work, length);
  length += 4;
  line[length++] = ' ';
  while (n) line[length++] = digits[--n];
  memcpy(line + length, " s", 3);
  progress_write_line(line);
}

static void set_timer(time_t period) {
  struct itimerval timer = {.it_interval.tv_sec = period, .it_value.tv_sec = period};
  (void)setitimer(ITIMER_REAL, &timer, NULL);
}

static void start_timer(void) {
  struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
  seconds = 0;
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGALRM, &action, NULL);
  set_timer(1);
}

void show_progress(const char *format, ...) {
  if (!on_terminal()) return;
  clear_progress();
  va_list arguments;
  va_start(arguments, format);
  (void)number_vprint(work, sizeof work, format, arguments);
  va_end(arguments);
  for (char *p = work; *p; p++) {
    if ((unsigned char)*p < 0x20) *p = '?';
  }
  start_timer();
}

bool has_cache(void) {
  static int known = -1;
  if (known < 0) {
    clave_cache_info cache = {.size = sizeof cache};
    clave_status_free(clave_cache_get_info(&cache));
    known = cache.path != NULL;
  }
  return known == 1;
}

void show_steps(void *ctx, const char *what, int done, int total) {
  (void)ctx;
  if (!on_terminal()) return;
  char line[sizeof work + 8];
  set_timer(0);
  (void)snprintf(
      work, sizeof work, "%s %d/%d%s", what, done, total,
      strcmp(what, "building kernels") == 0 && has_cache() ? " (cached for next time)" : "");
  (void)snprintf(line, sizeof line, "\r\x1b[K%s", work);
  progress_write_line(line);
  if (done >= total) clear_progress();
}

void clear_progress(void) {
  if (!on_terminal()) return;
  set_timer(0);
  if (shown) progress_write_line("\r\x1b[K");
  shown = 0;
}
