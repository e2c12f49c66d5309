/* Growing text. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/small_alloc.h"

/* Reserves n more bytes and a NUL. Returns 0 and sets `failed` if it cannot. */
static int reserve_text(text *text, size_t n) {
  size_t need;
  if (text->failed) return 0;
  if (!add_size(text->size, n, &need) || !add_size(need, 1, &need)) {
    text->failed = 1;
    return 0;
  }
  if (need <= text->capacity) return 1;
  size_t capacity = need < SIZE_MAX / 2 ? need + need / 2 + 64 : need;
  char *data = small_realloc(text->data, capacity);
  if (!data) {
    text->failed = 1;
    return 0;
  }
  text->data = data;
  text->capacity = capacity;
  return 1;
}

void text_append(text *text, const char *bytes, size_t n) {
  if (!reserve_text(text, n)) return;
  if (n > 0) memcpy(text->data + text->size, bytes, n);
  text->size += n;
  text->data[text->size] = '\0';
}

void text_puts(text *text, const char *string) { text_append(text, string, strlen(string)); }

void text_vprintf(text *text, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = number_vprint(NULL, 0, format, again);
  va_end(again);
  if (n < 0) {
    text->failed = 1;
    return;
  }
  if (!reserve_text(text, (size_t)n)) return;
  (void)number_vprint(text->data + text->size, (size_t)n + 1, format, args);
  text->size += (size_t)n;
}

void text_printf(text *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_vprintf(text, format, args);
  va_end(args);
}

void text_clear(text *text) {
  text->size = 0;
  text->failed = 0;
}

void text_free(text *words) {
  small_free(words->data);
  *words = (text){0};
}

clave_status text_status(const text *text) { return text->failed ? status_no_memory() : NULL; }
