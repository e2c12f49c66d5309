#ifndef LLM_STOP_TEXT_H
#define LLM_STOP_TEXT_H
/* Searches an answer for its stop texts while it is generated. Text that may begin a stop text is
 * held back until the following text decides. */
#include <stdbool.h>

#include "base/memory.h"

typedef struct stop_text {
  const span *stops; /* borrowed: valid UTF-8, none is empty */
  size_t n_stops;
  text held;     /* not yet released */
  text released; /* text released by the last call */
} stop_text;

/* Appends text and sets `released` to the text that can be released now, at the `end` all of it.
 * Sets *found if a stop text was found; it and the text after it are dropped. On failure `held` is
 * unchanged. */
clave_status stop_text_add(stop_text *text, const char *bytes, size_t n, bool end,
                           bool *found) STATUS_CHECK;
void stop_text_free(stop_text *text);

#endif
