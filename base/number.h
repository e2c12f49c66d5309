#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H
/* Numbers from and to text, and texts of errors: the same in every locale and rounding mode of the
 * host. No other file calls strtod, or prints a floating-point number by itself. */
#include <stdarg.h>
#include <stddef.h>

#if defined(__GNUC__)
#define NUMBER_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define NUMBER_PRINTF(f, a)
#endif

/* strtod in the C locale, rounded to nearest. */
double number_read(const char *text, char **end);
/* snprintf and vsnprintf in the C locale, rounded to nearest. */
int number_print(char *out, size_t size, const char *format, ...) NUMBER_PRINTF(3, 4);
int number_vprint(char *out, size_t size, const char *format, va_list args) NUMBER_PRINTF(3, 0);
/* The C library's text of an errno value, in English. Valid until the thread's next call. */
const char *system_error_text(int error);

#endif
