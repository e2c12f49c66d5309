/* The grammar of JSON, without building values: one pass over the text that rejects everything
 * outside RFC 8259. Documents that are one string or a list of numbers are read by the same
 * grammar. */
#include <string.h>

#include "base/utf8.h"
#include "json/json.h"

typedef struct scanner {
  const char *text;
  size_t size, at;
  size_t n_values;
  unsigned rules;        /* json_rules */
  text *string;          /* receives the bytes of strings; NULL if not needed */
  span plain;            /* the string just read, if it has no escapes; else data is NULL */
  json_receiver receive; /* receives the events; NULL if not needed */
  void *ctx;
} scanner;

/* Returns the next byte; 0 at the end, since NUL is never valid. */
static char syntax_peek(const scanner *scanner) {
  return scanner->at < scanner->size ? scanner->text[scanner->at] : '\0';
}

static clave_status syntax_error(const scanner *scanner, const char *what) STATUS_NEVER_NULL;
static clave_status syntax_error(const scanner *scanner, const char *what) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < scanner->at && i < scanner->size; i++) {
    column = scanner->text[i] == '\n' ? 1 : column + 1;
    line += scanner->text[i] == '\n';
  }
  const char *where = scanner->at >= scanner->size ? " (end of text)" : "";
  if (!memchr(scanner->text, '\n', scanner->size))
    return INVALID("JSON column %zu%s: %s", column, where, what);
  return INVALID("JSON line %zu, column %zu%s: %s", line, column, where, what);
}

static bool syntax_is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void syntax_skip_space(scanner *scanner) {
  size_t at = scanner->at;
  while (at < scanner->size && syntax_is_space(scanner->text[at])) at++;
  scanner->at = at;
}

static bool syntax_is_digit(char c) { return c >= '0' && c <= '9'; }

static bool syntax_skip_digits(scanner *scanner) {
  size_t begin = scanner->at;
  while (syntax_is_digit(syntax_peek(scanner))) scanner->at++;
  return scanner->at > begin;
}

static clave_status scan_number(scanner *scanner) {
  size_t begin = scanner->at;
  if (syntax_peek(scanner) == '-') scanner->at++;
  if (syntax_peek(scanner) == '0') {
    scanner->at++;
    if (syntax_is_digit(syntax_peek(scanner)))
      return syntax_error(scanner, "unexpected leading zero in a number");
  } else if (!syntax_skip_digits(scanner)) {
    return syntax_error(scanner, "expected a value");
  }
  if ((scanner->rules & JSON_INTEGERS) && syntax_peek(scanner) &&
      strchr(".eE", syntax_peek(scanner)))
    return syntax_error(scanner, "expected an integer without fraction or exponent");
  if (syntax_peek(scanner) == '.') {
    scanner->at++;
    if (!syntax_skip_digits(scanner))
      return syntax_error(scanner, "expected a digit after the decimal point");
  }
  if (syntax_peek(scanner) == 'e' || syntax_peek(scanner) == 'E') {
    scanner->at++;
    if (syntax_peek(scanner) == '+' || syntax_peek(scanner) == '-') scanner->at++;
    if (!syntax_skip_digits(scanner))
      return syntax_error(scanner, "expected a digit in the exponent");
  }
  return scanner->at - begin > JSON_MAX_NUMBER
             ? syntax_error(scanner, "the number has too many digits")
             : NULL;
}

/* Reads four hexadecimal digits at scanner->at. Returns -1 if the text there is something else. */
static int scan_hex(scanner *scanner) {
  int value = 0;
  for (int i = 0; i < 4; i++, scanner->at++) {
    char c = syntax_peek(scanner);
    int digit = syntax_is_digit(c)     ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Passes an event on. Adds the position in the text to an error of the receiver. */
static clave_status pass_event(scanner *scanner, json_event event, const char *bytes, size_t size) {
  if (!scanner->receive) return NULL;
  clave_status st = scanner->receive(scanner->ctx, event, (span){bytes, size});
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  clave_status where = syntax_error(scanner, status_message(st));
  status_free(st);
  return where;
}

/* Passes on the string that was just read. */
static clave_status pass_string(scanner *scanner, json_event event) {
  if (!scanner->receive) return NULL;
  if (scanner->plain.data)
    return pass_event(scanner, event, scanner->plain.data, scanner->plain.size);
  TRY(text_status(scanner->string));
  return pass_event(scanner, event, scanner->string->data ? scanner->string->data : "",
                    scanner->string->size);
}

static void syntax_keep(scanner *scanner, const char *bytes, size_t n) {
  if (scanner->string && n) text_append(scanner->string, bytes, n);
}

static void keep_code_point(scanner *scanner, int c) {
  char bytes[4];
  syntax_keep(scanner, bytes, utf8_write((uint32_t)c, bytes));
}

/* Scans the digits after "\u". */
static clave_status scan_code_point(scanner *scanner) {
  int high = scan_hex(scanner), low = 0;
  if (high < 0) return syntax_error(scanner, "expected four hexadecimal digits after \\u");
  if (high == 0 && (scanner->rules & JSON_NO_NUL))
    return syntax_error(scanner, "the string has a NUL character");
  if (high < 0xD800 || high > 0xDFFF) {
    keep_code_point(scanner, high);
    return NULL;
  }
  bool pair = high < 0xDC00 && scanner->size - scanner->at >= 2 &&
              scanner->text[scanner->at] == '\\' && scanner->text[scanner->at + 1] == 'u';
  if (pair) {
    scanner->at += 2;
    low = scan_hex(scanner);
    pair = low >= 0xDC00 && low <= 0xDFFF;
  }
  if (!pair) return syntax_error(scanner, "the \\u escape is half of a surrogate pair");
  keep_code_point(scanner, 0x10000 + (high - 0xD800) * 0x400 + (low - 0xDC00));
  return NULL;
}

/* Scans an escape after its backslash. */
static clave_status scan_escape(scanner *scanner) {
  static const char letters[] = "\"\\/bfnrtu", characters[] = "\"\\/\b\f\n\r\t";
  const char c = syntax_peek(scanner), *letter = c ? strchr(letters, c) : NULL;
  if (!letter) return syntax_error(scanner, "unknown escape in a string");
  scanner->at++;
  if (c == 'u') return scan_code_point(scanner);
  syntax_keep(scanner, &characters[letter - letters], 1);
  return NULL;
}

/* Returns the number of plain ASCII characters at the start of eight bytes. Quotes, backslashes and
 * control characters are not plain. */
static size_t count_plain(const char *bytes) {
  const uint64_t ones = 0x0101010101010101, high_bits = 0x80 * ones;
  uint64_t x;
  memcpy(&x, bytes, sizeof x);
  const uint64_t quotes = x ^ '"' * ones, escapes = x ^ '\\' * ones;
  const uint64_t special = (x | (x - 0x20 * ones) | (quotes - ones) | (escapes - ones)) & high_bits;
  return special ? (size_t)__builtin_ctzll(special) / 8 : sizeof x; /* the lowest is exact */
}

/* Advances scanner->at over characters that need no escape. */
static void scan_plain_run(scanner *scanner) {
  const char *bytes = scanner->text;
  size_t at = scanner->at, n = sizeof(uint64_t);
  while (at < scanner->size) {
    for (; n == sizeof(uint64_t) && scanner->size - at >= n; at += n) n = count_plain(bytes + at);
    if (at >= scanner->size) break;
    unsigned char c = (unsigned char)bytes[at];
    if (c < 0x20 || c == '"' || c == '\\') break;
    n = c < 0x80 ? 1 : utf8_sequence(bytes + at, scanner->size - at);
    if (n == 0) break;
    at += n;
    n = sizeof(uint64_t);
  }
  scanner->at = at;
}

static clave_status scan_string(scanner *scanner) {
  if (scanner->receive) text_clear(scanner->string);
  scanner->plain.data = NULL;
  scanner->at++;
  for (bool first = true;; first = false) {
    size_t begin = scanner->at;
    scan_plain_run(scanner);
    const span run = {scanner->text + begin, scanner->at - begin};
    char c = syntax_peek(scanner);
    if (scanner->at >= scanner->size)
      return syntax_error(scanner, "the string has no closing quote");
    if (c == '"' && first && scanner->receive) scanner->plain = run;
    if (!scanner->plain.data) syntax_keep(scanner, run.data, run.size);
    if (c == '"') break;
    if ((unsigned char)c < 0x20)
      return syntax_error(scanner, "expected an escape in a string, got a control character");
    if (c != '\\') return syntax_error(scanner, "the string is not valid UTF-8");
    scanner->at++;
    TRY(scan_escape(scanner));
  }
  scanner->at++;
  return NULL;
}

static clave_status scan_word(scanner *scanner) {
  static const char *const words[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i]);
    if (scanner->size - scanner->at >= n && memcmp(scanner->text + scanner->at, words[i], n) == 0) {
      scanner->at += n;
      return NULL;
    }
  }
  return syntax_error(scanner, "expected a value");
}

static clave_status scan_value(scanner *scanner, int depth);

static clave_status scan_key(scanner *scanner) {
  if (syntax_peek(scanner) != '"') return syntax_error(scanner, "expected a key in quotes");
  TRY(scan_string(scanner));
  TRY(pass_string(scanner, JSON_EVENT_KEY));
  syntax_skip_space(scanner);
  if (syntax_peek(scanner) != ':') return syntax_error(scanner, "expected ':' after a key");
  scanner->at++;
  syntax_skip_space(scanner);
  return NULL;
}

/* Scans an array or object from its opening bracket on. */
static clave_status scan_container(scanner *scanner, bool is_object, int depth) {
  const char close = is_object ? '}' : ']';
  if (depth >= JSON_MAX_DEPTH) return syntax_error(scanner, "values are nested too deeply");
  TRY(pass_event(scanner, is_object ? JSON_EVENT_OBJECT : JSON_EVENT_ARRAY, "", 0));
  scanner->at++;
  syntax_skip_space(scanner);
  if (syntax_peek(scanner) == close) {
    scanner->at++;
    return pass_event(scanner, JSON_EVENT_END, "", 0);
  }
  for (;;) {
    if (is_object) TRY(scan_key(scanner));
    TRY(scan_value(scanner, depth + 1));
    syntax_skip_space(scanner);
    char c = syntax_peek(scanner);
    if (c == close) break;
    if (c != ',')
      return syntax_error(scanner, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
    scanner->at++;
    syntax_skip_space(scanner);
  }
  scanner->at++;
  return pass_event(scanner, JSON_EVENT_END, "", 0);
}

/* Scans a number or a word, which is passed on as written. */
static clave_status scan_plain(scanner *scanner, bool is_word) {
  size_t begin = scanner->at;
  TRY(is_word ? scan_word(scanner) : scan_number(scanner));
  return pass_event(scanner, is_word ? JSON_EVENT_WORD : JSON_EVENT_NUMBER, scanner->text + begin,
                    scanner->at - begin);
}

static clave_status scan_value(scanner *scanner, int depth) {
  if (++scanner->n_values > JSON_MAX_VALUES)
    return syntax_error(scanner, "the file has too many values");
  switch (syntax_peek(scanner)) {
    case '{':
      return scan_container(scanner, true, depth);
    case '[':
      return scan_container(scanner, false, depth);
    case '"':
      TRY(scan_string(scanner));
      return pass_string(scanner, JSON_EVENT_STRING);
    case 't':
    case 'f':
    case 'n':
      return scan_plain(scanner, true);
    default:
      return scan_plain(scanner, false);
  }
}

static clave_status scan_end(scanner *scanner) {
  syntax_skip_space(scanner);
  return scanner->at < scanner->size ? syntax_error(scanner, "expected nothing after the value")
                                     : NULL;
}

clave_status json_check_syntax(const char *source, size_t size, bool integers) {
  return json_walk(source, size, JSON_NO_NUL | (integers ? JSON_INTEGERS : 0u), NULL, NULL);
}

clave_status json_walk(const char *source, size_t size, unsigned rules, json_receiver receive,
                       void *ctx) {
  text string = {0};
  scanner scanner = {.text = source,
                     .size = size,
                     .rules = rules,
                     .string = receive ? &string : NULL,
                     .receive = receive,
                     .ctx = ctx};
  syntax_skip_space(&scanner);
  clave_status st = scan_value(&scanner, 0);
  if (!st) st = scan_end(&scanner);
  text_free(&string);
  return st;
}

clave_status json_read_string(const char *source, size_t size, text *out) {
  scanner scanner = {.text = source, .size = size, .string = out};
  syntax_skip_space(&scanner);
  if (syntax_peek(&scanner) != '"') return syntax_error(&scanner, "expected a string");
  TRY(scan_string(&scanner));
  TRY(scan_end(&scanner));
  return text_status(out);
}

static clave_status scan_u32(scanner *scanner, uint32_t *out) {
  const size_t begin = scanner->at;
  uint64_t value = 0;
  for (; syntax_is_digit(syntax_peek(scanner)) && value <= UINT32_MAX; scanner->at++)
    value = value * 10 + (uint64_t)(syntax_peek(scanner) - '0');
  const size_t n = scanner->at - begin;
  *out = (uint32_t)value;
  if (n == 0 || value > UINT32_MAX || (n > 1 && scanner->text[begin] == '0'))
    return syntax_error(scanner, "expected an integer from 0 to 4294967295");
  return NULL;
}

clave_status json_read_u32s(const char *source, size_t size, uint32_t *out, size_t *count) {
  scanner scanner = {.text = source, .size = size};
  *count = 0;
  syntax_skip_space(&scanner);
  if (syntax_peek(&scanner) != '[') return syntax_error(&scanner, "expected an array of integers");
  do {
    scanner.at++;
    syntax_skip_space(&scanner);
    if (*count == 0 && syntax_peek(&scanner) == ']') break;
    TRY(scan_u32(&scanner, &out[*count]));
    ++*count;
    syntax_skip_space(&scanner);
  } while (syntax_peek(&scanner) == ',');
  if (syntax_peek(&scanner) != ']') return syntax_error(&scanner, "expected ',' or ']'");
  scanner.at++;
  return scan_end(&scanner);
}
