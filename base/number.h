#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H
/* Conversion of numbers from and to text, and error texts, independent of the host's locale and
 * rounding mode. No other file calls strtod or prints floating-point numbers. */
#include <stdarg.h>
#include <stddef.h>

#if defined(__GNUC__)
#define NUMBER_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define NUMBER_PRINTF(f, a)
#endif

/* Works like strtod in the C locale, and rounds to nearest. */
double number_read(const char *text, char **end);
/* Work like snprintf and vsnprintf in the C locale, and round to nearest. */
int number_print(char *out, size_t size, const char *format, ...) NUMBER_PRINTF(3, 4);
int number_vprint(char *out, size_t size, const char *format, va_list args) NUMBER_PRINTF(3, 0);
/* Returns the C library's English text for an errno value, valid until the thread's next call. */
const char *system_error_text(int error);

#endif
