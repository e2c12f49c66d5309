#ifndef LLM_STOP_TEXT_H
#define LLM_STOP_TEXT_H
/* Looks for the texts that end an answer while it is being made: text that may begin one is held
 * back until what follows decides. */
#include <stdbool.h>

#include "base/memory.h"

typedef struct stop_text {
  const span *stops; /* borrowed: valid UTF-8, none empty */
  size_t n_stops;
  text held;  /* not yet given */
  text given; /* by the last call */
} stop_text;

/* Takes more of the text; `given` is what is decided now: all, if it ends here. *found: a stop text
 * was met; it and what followed are dropped. On failure `held` is as before. */
clave_status stop_text_add(stop_text *text, const char *bytes, size_t n, bool end,
                           bool *found) STATUS_CHECK;
void stop_text_free(stop_text *text);

#endif
