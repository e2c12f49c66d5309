/* The grammar of JSON, without building anything: one pass over the text that refuses all that is
 * not RFC 8259; and documents that are one string or a list of numbers, read by the same
 * grammar. */
#include <string.h>

#include "base/utf8.h"
#include "json/json.h"

typedef struct scanner {
  const char *text;
  size_t size, at;
  size_t n_values;
  unsigned rules; /* json_rules */
  text *string;   /* takes the bytes of strings; NULL: nothing does */
  span plain;     /* the string that was read, where it has no escapes; else data is NULL */
  json_take take; /* is given what is read; NULL: nobody is */
  void *ctx;
} scanner;

/* The next byte, 0 at the end (NUL itself is nowhere legal). */
static char peek(const scanner *s) { return s->at < s->size ? s->text[s->at] : '\0'; }

static clave_status syntax_error(const scanner *s, const char *what) STATUS_NEVER_NULL;
static clave_status syntax_error(const scanner *s, const char *what) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < s->at && i < s->size; i++) {
    column = s->text[i] == '\n' ? 1 : column + 1;
    line += s->text[i] == '\n';
  }
  const char *where = s->at >= s->size ? " (end of text)" : "";
  if (!memchr(s->text, '\n', s->size)) return INVALID("JSON column %zu%s: %s", column, where, what);
  return INVALID("JSON line %zu, column %zu%s: %s", line, column, where, what);
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void skip_space(scanner *s) {
  size_t at = s->at;
  while (at < s->size && is_space(s->text[at])) at++;
  s->at = at;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool skip_digits(scanner *s) {
  size_t begin = s->at;
  while (is_digit(peek(s))) s->at++;
  return s->at > begin;
}

static clave_status scan_number(scanner *s) {
  size_t begin = s->at;
  if (peek(s) == '-') s->at++;
  if (peek(s) == '0') {
    s->at++;
    if (is_digit(peek(s))) return syntax_error(s, "number with a leading zero");
  } else if (!skip_digits(s)) {
    return syntax_error(s, "expected a value");
  }
  if ((s->rules & JSON_INTEGERS) && peek(s) && strchr(".eE", peek(s)))
    return syntax_error(s, "number that is not written as an integer");
  if (peek(s) == '.') {
    s->at++;
    if (!skip_digits(s)) return syntax_error(s, "expected a digit after the decimal point");
  }
  if (peek(s) == 'e' || peek(s) == 'E') {
    s->at++;
    if (peek(s) == '+' || peek(s) == '-') s->at++;
    if (!skip_digits(s)) return syntax_error(s, "expected a digit in the exponent");
  }
  return s->at - begin > JSON_MAX_NUMBER ? syntax_error(s, "number too long") : NULL;
}

/* Four hexadecimal digits at s->at, or -1. */
static int scan_hex(scanner *s) {
  int value = 0;
  for (int i = 0; i < 4; i++, s->at++) {
    char c = peek(s);
    int digit = is_digit(c)            ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Hands an event on; what its taker refuses gets the place. */
static clave_status give(scanner *s, json_event event, const char *bytes, size_t size) {
  if (!s->take) return NULL;
  clave_status st = s->take(s->ctx, event, (span){bytes, size});
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  clave_status where = syntax_error(s, status_message(st));
  status_free(st);
  return where;
}

/* The string that was read. */
static clave_status give_string(scanner *s, json_event event) {
  if (!s->take) return NULL;
  if (s->plain.data) return give(s, event, s->plain.data, s->plain.size);
  TRY(text_status(s->string));
  return give(s, event, s->string->data ? s->string->data : "", s->string->size);
}

static void keep(scanner *s, const char *bytes, size_t n) {
  if (s->string && n) text_append(s->string, bytes, n);
}

static void keep_code_point(scanner *s, int c) {
  char bytes[4];
  keep(s, bytes, utf8_write((uint32_t)c, bytes));
}

/* After "\u". */
static clave_status scan_code_point(scanner *s) {
  int high = scan_hex(s), low = 0;
  if (high < 0) return syntax_error(s, "expected four hexadecimal digits after \\u");
  if (high == 0 && (s->rules & JSON_NO_NUL)) return syntax_error(s, "string with a NUL character");
  if (high < 0xD800 || high > 0xDFFF) {
    keep_code_point(s, high);
    return NULL;
  }
  bool pair =
      high < 0xDC00 && s->size - s->at >= 2 && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u';
  if (pair) {
    s->at += 2;
    low = scan_hex(s);
    pair = low >= 0xDC00 && low <= 0xDFFF;
  }
  if (!pair) return syntax_error(s, "\\u escape of half a surrogate pair");
  keep_code_point(s, 0x10000 + (high - 0xD800) * 0x400 + (low - 0xDC00));
  return NULL;
}

/* After a backslash. */
static clave_status scan_escape(scanner *s) {
  static const char letters[] = "\"\\/bfnrtu", meant[] = "\"\\/\b\f\n\r\t";
  const char c = peek(s), *letter = c ? strchr(letters, c) : NULL;
  if (!letter) return syntax_error(s, "no such escape in a string");
  s->at++;
  if (c == 'u') return scan_code_point(s);
  keep(s, &meant[letter - letters], 1);
  return NULL;
}

/* How many of eight bytes, from the first on, are characters that stand for themselves: no quote,
 * backslash or control character, and of ASCII. */
static size_t count_plain(const char *bytes) {
  const uint64_t ones = 0x0101010101010101, tops = 0x80 * ones;
  uint64_t x;
  memcpy(&x, bytes, sizeof x);
  const uint64_t quotes = x ^ '"' * ones, escapes = x ^ '\\' * ones;
  const uint64_t special = (x | (x - 0x20 * ones) | (quotes - ones) | (escapes - ones)) & tops;
  return special ? (size_t)__builtin_ctzll(special) / 8 : sizeof x; /* the first is exact */
}

/* Whole characters from s->at on that stand for themselves. */
static void scan_plain_run(scanner *s) {
  const char *bytes = s->text;
  size_t at = s->at, n = sizeof(uint64_t);
  while (at < s->size) {
    for (; n == sizeof(uint64_t) && s->size - at >= n; at += n) n = count_plain(bytes + at);
    if (at >= s->size) break;
    unsigned char c = (unsigned char)bytes[at];
    if (c < 0x20 || c == '"' || c == '\\') break;
    n = c < 0x80 ? 1 : utf8_sequence(bytes + at, s->size - at);
    if (n == 0) break;
    at += n;
    n = sizeof(uint64_t);
  }
  s->at = at;
}

static clave_status scan_string(scanner *s) {
  if (s->take) text_clear(s->string);
  s->plain.data = NULL;
  s->at++;
  for (bool first = true;; first = false) {
    size_t begin = s->at;
    scan_plain_run(s);
    const span run = {s->text + begin, s->at - begin};
    char c = peek(s);
    if (s->at >= s->size) return syntax_error(s, "string without its closing quote");
    if (c == '"' && first && s->take) s->plain = run;
    if (!s->plain.data) keep(s, run.data, run.size);
    if (c == '"') break;
    if ((unsigned char)c < 0x20)
      return syntax_error(s, "expected an escape in a string, got a control character");
    if (c != '\\') return syntax_error(s, "string is not valid UTF-8");
    s->at++;
    TRY(scan_escape(s));
  }
  s->at++;
  return NULL;
}

static clave_status scan_word(scanner *s) {
  static const char *const words[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i]);
    if (s->size - s->at >= n && memcmp(s->text + s->at, words[i], n) == 0) {
      s->at += n;
      return NULL;
    }
  }
  return syntax_error(s, "expected a value");
}

static clave_status scan_value(scanner *s, int depth);

static clave_status scan_key(scanner *s) {
  if (peek(s) != '"') return syntax_error(s, "expected a key in quotes");
  TRY(scan_string(s));
  TRY(give_string(s, JSON_EVENT_KEY));
  skip_space(s);
  if (peek(s) != ':') return syntax_error(s, "expected ':' after a key");
  s->at++;
  skip_space(s);
  return NULL;
}

/* An array or object, at its opening bracket. */
static clave_status scan_container(scanner *s, bool is_object, int depth) {
  const char close = is_object ? '}' : ']';
  if (depth >= JSON_MAX_DEPTH) return syntax_error(s, "nested too deeply");
  TRY(give(s, is_object ? JSON_EVENT_OBJECT : JSON_EVENT_ARRAY, "", 0));
  s->at++;
  skip_space(s);
  if (peek(s) == close) {
    s->at++;
    return give(s, JSON_EVENT_END, "", 0);
  }
  for (;;) {
    if (is_object) TRY(scan_key(s));
    TRY(scan_value(s, depth + 1));
    skip_space(s);
    char c = peek(s);
    if (c == close) break;
    if (c != ',') return syntax_error(s, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
    s->at++;
    skip_space(s);
  }
  s->at++;
  return give(s, JSON_EVENT_END, "", 0);
}

/* A number or a word, given on as it is written. */
static clave_status scan_plain(scanner *s, bool is_word) {
  size_t begin = s->at;
  TRY(is_word ? scan_word(s) : scan_number(s));
  return give(s, is_word ? JSON_EVENT_WORD : JSON_EVENT_NUMBER, s->text + begin, s->at - begin);
}

static clave_status scan_value(scanner *s, int depth) {
  if (++s->n_values > JSON_MAX_VALUES) return syntax_error(s, "more values than a file may hold");
  switch (peek(s)) {
    case '{':
      return scan_container(s, true, depth);
    case '[':
      return scan_container(s, false, depth);
    case '"':
      TRY(scan_string(s));
      return give_string(s, JSON_EVENT_STRING);
    case 't':
    case 'f':
    case 'n':
      return scan_plain(s, true);
    default:
      return scan_plain(s, false);
  }
}

static clave_status scan_end(scanner *s) {
  skip_space(s);
  return s->at < s->size ? syntax_error(s, "expected nothing after the value") : NULL;
}

clave_status json_check_syntax(const char *source, size_t size, bool integers) {
  return json_walk(source, size, JSON_NO_NUL | (integers ? JSON_INTEGERS : 0u), NULL, NULL);
}

clave_status json_walk(const char *source, size_t size, unsigned rules, json_take take, void *ctx) {
  text string = {0};
  scanner s = {.text = source,
               .size = size,
               .rules = rules,
               .string = take ? &string : NULL,
               .take = take,
               .ctx = ctx};
  skip_space(&s);
  clave_status st = scan_value(&s, 0);
  if (!st) st = scan_end(&s);
  text_free(&string);
  return st;
}

clave_status json_read_string(const char *source, size_t size, text *out) {
  scanner s = {.text = source, .size = size, .string = out};
  skip_space(&s);
  if (peek(&s) != '"') return syntax_error(&s, "expected a string");
  TRY(scan_string(&s));
  TRY(scan_end(&s));
  return text_status(out);
}

static clave_status scan_u32(scanner *s, uint32_t *out) {
  const size_t begin = s->at;
  uint64_t value = 0;
  for (; is_digit(peek(s)) && value <= UINT32_MAX; s->at++)
    value = value * 10 + (uint64_t)(peek(s) - '0');
  const size_t n = s->at - begin;
  *out = (uint32_t)value;
  if (n == 0 || value > UINT32_MAX || (n > 1 && s->text[begin] == '0'))
    return syntax_error(s, "expected an integer from 0 to 4294967295");
  return NULL;
}

clave_status json_read_u32s(const char *source, size_t size, uint32_t *out, size_t *count) {
  scanner s = {.text = source, .size = size};
  *count = 0;
  skip_space(&s);
  if (peek(&s) != '[') return syntax_error(&s, "expected an array of integers");
  do {
    s.at++;
    skip_space(&s);
    if (*count == 0 && peek(&s) == ']') break;
    TRY(scan_u32(&s, &out[*count]));
    ++*count;
    skip_space(&s);
  } while (peek(&s) == ',');
  if (peek(&s) != ']') return syntax_error(&s, "expected ',' or ']'");
  s.at++;
  return scan_end(&s);
}
