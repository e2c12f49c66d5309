#ifndef BASE_BASE64_H
#define BASE_BASE64_H
/* Decodes base64 (RFC 4648), in which text files store bytes. */
#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"

/* Appends the decoded bytes of a whole text, which must have its padding. Returns false, and
 * appends nothing, if the text is not base64. An empty text is valid. */
bool base64_decode(const char *in, size_t size, text *out);

#endif
