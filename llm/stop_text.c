/* Stop texts that may span tokens. */
#include "llm/stop_text.h"

#include <string.h>

static bool ends_at(const stop_text *s, const span *stop, size_t end) {
  return stop->size <= end && memcmp(s->held.data + end - stop->size, stop->data, stop->size) == 0;
}

/* Where the stop text begins that is complete first, the longest of several: however the text is
 * cut into tokens. The size of `held` if there is none. */
static size_t find_stop(const stop_text *s) {
  for (size_t end = 1; end <= s->held.size; end++) {
    size_t longest = 0;
    for (size_t i = 0; i < s->n_stops; i++) {
      if (s->stops[i].size > longest && ends_at(s, &s->stops[i], end)) longest = s->stops[i].size;
    }
    if (longest) return end - longest;
  }
  return s->held.size;
}

/* Where the longest end of `held` begins that a stop text begins with. */
static size_t find_beginning(const stop_text *s) {
  size_t first = s->held.size;
  for (size_t i = 0; i < s->n_stops; i++) {
    const span *stop = &s->stops[i];
    size_t at = s->held.size < stop->size ? 0 : s->held.size - stop->size + 1;
    for (; at < first; at++) {
      if (memcmp(s->held.data + at, stop->data, s->held.size - at) == 0) first = at;
    }
  }
  return first;
}

/* `given` becomes what was held and the new text together, and so does `held`. */
static clave_status take(stop_text *s, const char *bytes, size_t n) {
  size_t before = s->held.size;
  text_clear(&s->given);
  text_append(&s->given, s->held.data, before);
  text_append(&s->given, bytes, n);
  text_append(&s->held, bytes, n);
  if (!s->given.failed && !s->held.failed) return NULL;
  text_clear(&s->given);
  text_clear(&s->held);
  s->held.size = before;
  return status_no_memory();
}

clave_status stop_text_add(stop_text *s, const char *bytes, size_t n, bool end, bool *found) {
  *found = false;
  TRY(take(s, bytes, n));
  size_t stop = find_stop(s);
  *found = stop < s->held.size;
  s->given.size = *found || end ? stop : find_beginning(s);
  s->held.size = *found ? 0 : s->held.size - s->given.size;
  memmove(s->held.data, s->held.data + s->given.size, s->held.size);
  return NULL;
}

void stop_text_free(stop_text *s) {
  text_free(&s->held);
  text_free(&s->given);
}
