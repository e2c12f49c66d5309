/* Stop texts, which may span several tokens. */
#include "llm/stop_text.h"

#include <string.h>

static bool ends_at(const stop_text *text, const span *stop, size_t end) {
  return stop->size <= end &&
         memcmp(text->held.data + end - stop->size, stop->data, stop->size) == 0;
}

/* Returns the start of the stop text that ends first; if several end at the same place, the start
 * of the longest. The result does not depend on how the text is cut into tokens. Returns the size
 * of `held` if there is no stop text. */
static size_t find_stop(const stop_text *text) {
  for (size_t end = 1; end <= text->held.size; end++) {
    size_t longest = 0;
    for (size_t i = 0; i < text->n_stops; i++) {
      if (text->stops[i].size > longest && ends_at(text, &text->stops[i], end))
        longest = text->stops[i].size;
    }
    if (longest) return end - longest;
  }
  return text->held.size;
}

/* Returns the start of the longest suffix of `held` that is a prefix of a stop text. */
static size_t find_beginning(const stop_text *text) {
  size_t first = text->held.size;
  for (size_t i = 0; i < text->n_stops; i++) {
    const span *stop = &text->stops[i];
    size_t at = text->held.size < stop->size ? 0 : text->held.size - stop->size + 1;
    for (; at < first; at++) {
      if (memcmp(text->held.data + at, stop->data, text->held.size - at) == 0) first = at;
    }
  }
  return first;
}

/* Sets `released` and `held` to the held text followed by the new text. On failure `held` is
 * unchanged. */
static clave_status stop_text_take(stop_text *text, const char *bytes, size_t n) {
  size_t before = text->held.size;
  text_clear(&text->released);
  text_append(&text->released, text->held.data, before);
  text_append(&text->released, bytes, n);
  text_append(&text->held, bytes, n);
  if (!text->released.failed && !text->held.failed) return NULL;
  text_clear(&text->released);
  text_clear(&text->held);
  text->held.size = before;
  return status_no_memory();
}

clave_status stop_text_add(stop_text *text, const char *bytes, size_t n, bool end, bool *found) {
  *found = false;
  TRY(stop_text_take(text, bytes, n));
  size_t stop = find_stop(text);
  *found = stop < text->held.size;
  text->released.size = *found || end ? stop : find_beginning(text);
  text->held.size = *found ? 0 : text->held.size - text->released.size;
  memmove(text->held.data, text->held.data + text->released.size, text->held.size);
  return NULL;
}

void stop_text_free(stop_text *text) {
  text_free(&text->held);
  text_free(&text->released);
}
