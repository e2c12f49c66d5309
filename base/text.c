/* Growing text. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/room.h"

/* Room for n more bytes and a NUL. */
static int reserve_text(text *t, size_t n) {
  size_t need;
  if (t->failed) return 0;
  if (!add_size(t->size, n, &need) || !add_size(need, 1, &need)) {
    t->failed = 1;
    return 0;
  }
  if (need <= t->capacity) return 1;
  size_t capacity = need < SIZE_MAX / 2 ? need + need / 2 + 64 : need;
  char *data = room_resize(t->data, capacity);
  if (!data) {
    t->failed = 1;
    return 0;
  }
  t->data = data;
  t->capacity = capacity;
  return 1;
}

void text_append(text *t, const char *bytes, size_t n) {
  if (!reserve_text(t, n)) return;
  if (n > 0) memcpy(t->data + t->size, bytes, n);
  t->size += n;
  t->data[t->size] = '\0';
}

void text_puts(text *t, const char *s) { text_append(t, s, strlen(s)); }

void text_vprintf(text *t, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = number_vprint(NULL, 0, format, again);
  va_end(again);
  if (n < 0) {
    t->failed = 1;
    return;
  }
  if (!reserve_text(t, (size_t)n)) return;
  (void)number_vprint(t->data + t->size, (size_t)n + 1, format, args);
  t->size += (size_t)n;
}

void text_printf(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_vprintf(t, format, args);
  va_end(args);
}

void text_clear(text *t) {
  t->size = 0;
  t->failed = 0;
}

void text_free(text *t) {
  room_give(t->data);
  *t = (text){0};
}

clave_status text_status(const text *t) { return t->failed ? status_no_memory() : NULL; }
