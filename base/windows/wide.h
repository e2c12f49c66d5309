#ifndef BASE_WINDOWS_WIDE_H
#define BASE_WINDOWS_WIDE_H
/* Converts between UTF-8 and the UTF-16 of Windows' functions, and Windows' error codes to
 * errno. */
#include <stddef.h>

/* Return copies owned by the caller; NULL with errno set if memory is out or the text is invalid.
 */
wchar_t *wide_of(const char *utf8);
char *utf8_of(const wchar_t *wide);
int errno_of(unsigned long code); /* the errno value of a result of GetLastError */

#endif
