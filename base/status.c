/* The error object: a code and one escaped line. */
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/small_alloc.h"
#include "base/utf8.h"

struct clave_error {
  status_code code;
  bool is_static;
  size_t size;   /* length of message without its NUL */
  char *message; /* owned unless is_static */
};

/* Longest text that one call adds; longer ones are cut. */
enum { MAX_PIECE = 2048 };

static char no_memory_text[] = "out of memory";
static struct clave_error no_memory = {STATUS_NO_MEMORY, true, sizeof no_memory_text - 1,
                                       no_memory_text};

clave_status status_no_memory(void) { return &no_memory; }

/* Copies printable UTF-8 and writes other bytes as \xNN. `to` must hold 4 bytes per byte. */
static size_t escape_text(const char *from, size_t n, char *to) {
  size_t size = 0;
  while (n > 0) {
    size_t length = utf8_sequence(from, n);
    uint8_t c = (uint8_t)from[0];
    bool c1_control = length == 2 && c == 0xC2 && (uint8_t)from[1] < 0xA0;
    if (length == 0 || c < 0x20 || c == 0x7F || c1_control) {
      static const char digits[] = "0123456789abcdef";
      to[size++] = '\\';
      to[size++] = 'x';
      to[size++] = digits[c >> 4];
      to[size++] = digits[c & 15];
      length = 1;
    } else {
      memcpy(to + size, from, length);
      size += length;
    }
    from += length;
    n -= length;
  }
  return size;
}

/* Formats into `piece` (MAX_PIECE bytes), cut at a character boundary. Returns the length. */
static size_t format_piece(char *piece, const char *format, va_list args) {
  int n = number_vprint(piece, MAX_PIECE, format, args);
  if (n < 0) return 0;
  if (n < MAX_PIECE) return (size_t)n;
  size_t size = MAX_PIECE - 4;
  while (size > 0 && ((uint8_t)piece[size] & 0xC0) == 0x80) size--;
  memcpy(piece + size, "...", 4);
  return size + 3;
}

/* Appends `separator` and the formatted text to the error's message. Returns false when memory is
 * out; the message is then unchanged. */
static bool append_message(struct clave_error *error, const char *separator, const char *format,
                           va_list args) {
  char piece[MAX_PIECE];
  size_t n = format_piece(piece, format, args);
  size_t separator_size = strlen(separator);
  char *message = small_realloc(error->message, error->size + separator_size + 4 * n + 1);
  if (!message) return false;
  error->message = message;
  memcpy(message + error->size, separator, separator_size);
  error->size += separator_size;
  error->size += escape_text(piece, n, message + error->size);
  message[error->size] = '\0';
  return true;
}

clave_status status_new(status_code code, const char *format, ...) {
  struct clave_error *error = small_alloc(sizeof *error);
  if (!error) return &no_memory;
  error->code = code;
  va_list args;
  va_start(args, format);
  bool good = append_message(error, "", format, args);
  va_end(args);
  if (good) return error;
  small_free(error);
  return &no_memory;
}

clave_status status_while(clave_status st, const char *format, ...) {
  if (!st || st->is_static) return st;
  va_list args;
  va_start(args, format);
  (void)append_message(st, "; ", format, args); /* when memory is out, the message is unchanged */
  va_end(args);
  return st;
}

clave_status status_first(clave_status a, clave_status b) {
  if (!a) return b;
  status_free(b);
  return a;
}

status_code status_code_of(const struct clave_error *st) { return st ? st->code : STATUS_OK; }
const char *status_message(const struct clave_error *st) { return st ? st->message : ""; }

void status_free(clave_status st) {
  if (!st || st->is_static) return;
  small_free(st->message);
  small_free(st);
}
