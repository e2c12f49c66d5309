/* One JSON value per line. */
#include "cli/json_line.h"

#include <stdlib.h>
#include <string.h>

typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_blanks(cursor *c) {
  while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) c->at++;
}

static bool take(cursor *c, char wanted) {
  if (c->at == c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

static const char *expect_end(cursor *c) {
  skip_blanks(c);
  return c->at == c->end ? NULL : "expected nothing behind the value";
}

/* ---------------------------------------------------------------- strings */

static bool read_hex(cursor *c, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, c->at++) {
    if (c->at == c->end) return false;
    char d = *c->at;
    uint32_t digit = d >= '0' && d <= '9'   ? (uint32_t)(d - '0')
                     : d >= 'a' && d <= 'f' ? (uint32_t)(d - 'a' + 10)
                     : d >= 'A' && d <= 'F' ? (uint32_t)(d - 'A' + 10)
                                            : 16;
    if (digit == 16) return false;
    *out = *out << 4 | digit;
  }
  return true;
}

static void append_code_point(page *out, uint32_t c) {
  char b[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = n; i-- > 1; c >>= 6) b[i] = (char)(0x80 | (c & 0x3F));
  b[0] = (char)(lead[n] | c);
  page_bytes(out, b, n);
}

static const char *read_code_point(cursor *c, page *out) {
  static const char half[] = "half a surrogate pair";
  uint32_t high, low;
  if (!read_hex(c, &high)) return "expected four hexadecimal digits behind \\u";
  if (high >= 0xD800 && high < 0xE000) {
    if (high >= 0xDC00 || !take(c, '\\') || !take(c, 'u') || !read_hex(c, &low)) return half;
    if (low < 0xDC00 || low >= 0xE000) return half;
    high = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }
  append_code_point(out, high);
  return NULL;
}

static const char *read_escape(cursor *c, page *out) {
  static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  if (take(c, 'u')) return read_code_point(c, out);
  const char *found = c->at < c->end && *c->at ? strchr(letters, *c->at) : NULL;
  if (!found) return "no such escape";
  c->at++;
  page_bytes(out, &values[found - letters], 1);
  return NULL;
}

const char *read_json_string(const char *line, size_t size, page *out) {
  cursor c = {line, line + size};
  skip_blanks(&c);
  if (!take(&c, '"')) return "expected a JSON string";
  while (!take(&c, '"')) {
    if (c.at == c.end) return "a string without its closing quote";
    if ((unsigned char)*c.at < 0x20) return "a control character in a string, expected an escape";
    if (take(&c, '\\')) {
      const char *why = read_escape(&c, out);
      if (why) return why;
      continue;
    }
    size_t n = utf8_size((const unsigned char *)c.at); /* the line ends in a control character */
    if (n == 0) return "not valid UTF-8";
    page_bytes(out, c.at, n);
    c.at += n;
  }
  return expect_end(&c);
}

/* ---------------------------------------------------------------- ids */

static bool append_id(id_page *p, uint32_t id) {
  if (p->count == p->capacity) {
    size_t capacity = p->capacity ? p->capacity * 2 : 256;
    uint32_t *items = realloc(p->items, capacity * sizeof *items);
    if (!items) return false;
    p->items = items;
    p->capacity = capacity;
  }
  p->items[p->count++] = id;
  return true;
}

static const char *read_id(cursor *c, id_page *out) {
  static const char wrong[] = "expected an id, an integer from 0 to 4294967295";
  const char *begin = c->at;
  uint64_t value = 0;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && value <= UINT32_MAX) {
    value = value * 10 + (uint64_t)(*c->at++ - '0');
  }
  if (c->at == begin || value > UINT32_MAX || (*begin == '0' && c->at - begin > 1)) return wrong;
  return append_id(out, (uint32_t)value) ? NULL : "out of memory";
}

const char *read_json_ids(const char *line, size_t size, id_page *out) {
  cursor c = {line, line + size};
  out->count = 0;
  skip_blanks(&c);
  if (!take(&c, '[')) return "expected a JSON list of ids";
  skip_blanks(&c);
  if (take(&c, ']')) return expect_end(&c);
  do {
    skip_blanks(&c);
    const char *why = read_id(&c, out);
    if (why) return why;
    skip_blanks(&c);
  } while (take(&c, ','));
  return take(&c, ']') ? expect_end(&c) : "expected ',' or ']'";
}
