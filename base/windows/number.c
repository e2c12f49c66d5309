/* Conversion of numbers from and to text in the C locale. */
#include "base/number.h"

#include <locale.h>

#include "base/float_env.h"

/* The thread's locale while it is replaced. */
typedef struct saved_locale {
  char *name; /* owned; NULL if nothing was replaced */
  int mode;
} saved_locale;

/* Switches the thread's numbers to the C locale, if the program has set another. */
static saved_locale enter_locale(void) {
  saved_locale saved = {0};
  if (strcmp(localeconv()->decimal_point, ".") == 0) return saved;
  saved.mode = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
  saved.name = strdup(setlocale(LC_NUMERIC, NULL));
  if (saved.name) (void)setlocale(LC_NUMERIC, "C");
  return saved;
}

static void leave_locale(const saved_locale *saved) {
  if (!saved->name) return;
  (void)setlocale(LC_NUMERIC, saved->name);
  if (saved->mode > 0) (void)_configthreadlocale(saved->mode);
  free(saved->name);
}

double number_read(const char *text, char **end) {
  OWN_FLOAT_ENV;
  const saved_locale saved = enter_locale();
  const double d = strtod(text, end);
  leave_locale(&saved);
  return d;
}

int number_vprint(char *out, size_t size, const char *format, va_list args) {
  OWN_FLOAT_ENV;
  const saved_locale saved = enter_locale();
  const int n = vsnprintf(out, size, format, args);
  leave_locale(&saved);
  return n;
}

int number_print(char *out, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = number_vprint(out, size, format, args);
  va_end(args);
  return n;
}

const char *system_error_text(int error) { return strerror(error); }
