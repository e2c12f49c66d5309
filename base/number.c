/* Conversion of numbers from and to text in the C locale. */
#include "base/number.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"

/* Returns the C locale, a static object of the C library; 0 on failure. */
static locale_t c_locale(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* Switches the thread to the C locale. Returns the previous locale. */
static locale_t enter_locale(void) {
  const locale_t c = c_locale();
  return c ? uselocale(c) : (locale_t)0;
}

static void leave_locale(locale_t before) {
  if (before) (void)uselocale(before);
}

double number_read(const char *text, char **end) {
  OWN_FLOAT_ENV;
  const locale_t before = enter_locale();
  const double d = strtod(text, end);
  leave_locale(before);
  return d;
}

int number_vprint(char *out, size_t size, const char *format, va_list args) {
  OWN_FLOAT_ENV;
  const locale_t before = enter_locale();
  const int n = vsnprintf(out, size, format, args);
  leave_locale(before);
  return n;
}

int number_print(char *out, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = number_vprint(out, size, format, args);
  va_end(args);
  return n;
}

const char *system_error_text(int error) {
  const locale_t c = c_locale();
  return c ? strerror_l(error, c) : "an error of the system";
}
