#ifndef BASE_BASE64_H
#define BASE_BASE64_H
/* Base64 (RFC 4648), as files carry bytes in text. */
#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"

/* Appends the bytes of a whole text with its padding; false, with nothing appended, if it is not
 * base64. An empty text is. */
bool base64_decode(const char *in, size_t size, text *out);

#endif
