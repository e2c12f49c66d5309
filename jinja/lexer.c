/* Tokens of templates: text, and what stands in {{ }}, {% %} and {# #}. */
#include "jinja/lexer.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/unicode.h"

typedef struct lexer {
  span source;
  size_t at;
  size_t line_at; /* where the line begins that `line` counts */
  uint32_t line;
  size_t counted;   /* lines are counted up to here */
  bool line_starts; /* the last thing read ended a line */
  token_list *out;
  char open[64]; /* brackets that are open in a block */
  size_t n_open;
} lexer;

static void locate(lexer *l, size_t at, uint32_t *line, uint32_t *column) {
  for (; l->counted < at; l->counted++) {
    if (l->source.data[l->counted] != '\n') continue;
    l->line++;
    l->line_at = l->counted + 1;
  }
  *line = l->line;
  *column = (uint32_t)(at - l->line_at + 1);
}

static clave_status lex_error(lexer *l, size_t at, const char *what) STATUS_NEVER_NULL;
static clave_status lex_error(lexer *l, size_t at, const char *what) {
  uint32_t line, column;
  locate(l, at, &line, &column);
  return INVALID("line %u, column %u: %s", line, column, what);
}

static clave_status add_token(lexer *l, token_kind kind, size_t from, size_t to) {
  token_list *o = l->out;
  if (!array_reserve(&o->items, &o->capacity, o->count + 1, sizeof *o->items))
    return status_no_memory();
  token *t = &o->items[o->count++];
  *t = (token){.kind = kind, .text = {l->source.data + from, to - from}};
  locate(l, from, &t->line, &t->column);
  return NULL;
}

static bool starts(const lexer *l, size_t at, const char *word) {
  size_t n = strlen(word);
  return l->source.size - at >= n && memcmp(l->source.data + at, word, n) == 0;
}

static char byte_at(const lexer *l, size_t at) {
  return at < l->source.size ? l->source.data[at] : '\0';
}

static size_t skip_space(const lexer *l, size_t at) {
  size_t n;
  while (at < l->source.size && (n = space_at(l->source.data + at, l->source.size - at))) at += n;
  return at;
}

/* ---------------------------------------------------------------- text and the blocks in it */

/* The end of a block, of the kind '%', '}' or '#', at `at`: 0 if there is none, else how long it is
 * with the white space that it takes. */
static size_t block_end(const lexer *l, size_t at, char kind) {
  size_t sign = byte_at(l, at) == '-' || (byte_at(l, at) == '+' && kind != '}');
  const char close[] = {kind, '}', '\0'};
  if (!starts(l, at + sign, close)) return 0;
  size_t end = at + sign + 2;
  if (byte_at(l, at) == '-') return skip_space(l, end) - at;
  if (!sign && kind != '}' && byte_at(l, end) == '\n') end++;
  return end - at;
}

/* The text before a block that opens with '-', '+' or no sign. */
static size_t trim_before(const lexer *l, size_t from, size_t to, char sign, bool is_print) {
  const char *s = l->source.data;
  if (sign == '-') {
    size_t n;
    while (to > from && (n = space_before(s + from, to - from))) to -= n;
    return to;
  }
  if (sign == '+' || is_print) return to;
  size_t line = to;
  while (line > from && s[line - 1] != '\n') line--;
  if (line == from && !l->line_starts) return to;
  return skip_space(l, line) >= to ? line : to;
}

static clave_status add_data(lexer *l, size_t from, size_t to) {
  return to > from ? add_token(l, TOKEN_DATA, from, to) : NULL;
}

static void read_past(lexer *l, size_t end) {
  l->at = end;
  l->line_starts = end > 0 && l->source.data[end - 1] == '\n';
}

/* Is `{%` at `at` the tag `word`? *inner: where its sign or end begins. */
static bool is_tag(const lexer *l, size_t at, const char *word, size_t *inner) {
  at += 2;
  if (byte_at(l, at) == '-' || byte_at(l, at) == '+') at++;
  at = skip_space(l, at);
  if (!starts(l, at, word)) return false;
  *inner = skip_space(l, at + strlen(word));
  return block_end(l, *inner, '%') > 0;
}

/* At {% raw %}: what stands up to {% endraw %} is text. */
static clave_status lex_raw(lexer *l, size_t begin, size_t inner) {
  size_t from = inner + (byte_at(l, inner) == '-' ? block_end(l, inner, '%') : 2), end;
  if (byte_at(l, inner) == '+') return lex_error(l, begin, "raw does not end with +%}");
  read_past(l, from);
  for (size_t at = from; at + 2 <= l->source.size; at++) {
    if (!starts(l, at, "{%") || !is_tag(l, at, "endraw", &end)) continue;
    TRY(add_data(l, from, trim_before(l, from, at, byte_at(l, at + 2), false)));
    read_past(l, end + block_end(l, end, '%'));
    return NULL;
  }
  return lex_error(l, begin, "raw without its endraw");
}

static clave_status lex_comment(lexer *l, size_t begin) {
  for (size_t at = begin + 2; at + 2 <= l->source.size; at++) {
    size_t n = block_end(l, at, '#');
    if (!n) continue;
    read_past(l, at + n);
    return NULL;
  }
  return lex_error(l, begin, "comment without its end");
}

static clave_status lex_inside(lexer *l, char kind);

static clave_status lex_block(lexer *l, size_t begin) {
  char kind = l->source.data[begin + 1], sign = byte_at(l, begin + 2);
  bool is_print = kind == '{';
  size_t inner;
  if (sign != '-' && sign != '+') sign = '\0';
  TRY(add_data(l, l->at, trim_before(l, l->at, begin, sign, is_print)));
  if (kind == '#') return lex_comment(l, begin);
  if (!is_print && is_tag(l, begin, "raw", &inner)) return lex_raw(l, begin, inner);
  bool takes_sign = sign == '-' || (sign == '+' && !is_print);
  TRY(add_token(l, is_print ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, begin, begin + 2));
  l->at = begin + 2 + takes_sign;
  return lex_inside(l, is_print ? '}' : '%');
}

clave_status lex_template(span source, token_list *out) {
  lexer l = {.source = source, .line = 1, .line_starts = true, .out = out};
  size_t begin = 0;
  while (begin < source.size) {
    const char *brace = memchr(source.data + begin, '{', source.size - begin);
    if (!brace) break;
    begin = (size_t)(brace - source.data);
    if (!byte_at(&l, begin + 1) || !strchr("{%#", byte_at(&l, begin + 1))) {
      begin++;
      continue;
    }
    TRY(lex_block(&l, begin));
    begin = l.at;
  }
  TRY(add_data(&l, l.at, source.size));
  return add_token(&l, TOKEN_END, source.size, source.size);
}

/* ---------------------------------------------------------------- within blocks */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (unsigned char)c >= 0x80;
}

/* Digits with single underscores between them. */
static size_t skip_digits(const lexer *l, size_t at) {
  while (is_digit(byte_at(l, at)) || (byte_at(l, at) == '_' && is_digit(byte_at(l, at + 1)))) at++;
  return at;
}

static clave_status lex_number(lexer *l) {
  size_t end = skip_digits(l, l->at), exponent;
  bool real = false, after_dot = l->at > 0 && l->source.data[l->at - 1] == '.';
  if (!after_dot && byte_at(l, end) == '.' && is_digit(byte_at(l, end + 1))) {
    end = skip_digits(l, end + 1);
    real = true;
  }
  exponent = end;
  if (!after_dot && (byte_at(l, end) == 'e' || byte_at(l, end) == 'E')) {
    exponent = end + 1;
    if (byte_at(l, exponent) == '-' || byte_at(l, exponent) == '+') exponent++;
  }
  if (exponent > end && is_digit(byte_at(l, exponent))) {
    end = skip_digits(l, exponent);
    real = true;
  }
  if (is_name(byte_at(l, end))) return lex_error(l, l->at, "a number is followed by a letter");
  size_t begin = l->at;
  if (!real && byte_at(l, begin) == '0' && end > begin + 1 &&
      strspn(l->source.data + begin, "0_") < end - begin)
    return lex_error(l, begin, "an integer with a leading zero");
  l->at = end;
  return add_token(l, real ? TOKEN_FLOAT : TOKEN_INTEGER, begin, end);
}

static clave_status lex_quoted(lexer *l) {
  char quote = byte_at(l, l->at);
  for (size_t at = l->at + 1; at < l->source.size; at++) {
    if (l->source.data[at] == '\\') {
      at++;
    } else if (l->source.data[at] == quote) {
      TRY(add_token(l, TOKEN_STRING, l->at, at + 1));
      l->at = at + 1;
      return NULL;
    }
  }
  return lex_error(l, l->at, "string without its closing quote");
}

static clave_status count_bracket(lexer *l, char c) {
  static const char opens[] = "([{", closes[] = ")]}";
  const char *close = strchr(closes, c);
  if (strchr(opens, c)) {
    if (l->n_open == sizeof l->open) return lex_error(l, l->at, "brackets nested too deeply");
    l->open[l->n_open++] = closes[strchr(opens, c) - opens];
  } else if (close && (l->n_open == 0 || l->open[--l->n_open] != c)) {
    return lex_error(l, l->at, "a closing bracket that does not match");
  }
  return NULL;
}

static clave_status lex_operator(lexer *l) {
  static const char *const operators[] = {"**", "//", "==", "!=", ">=", "<="};
  size_t n = 0;
  for (size_t i = 0; i < sizeof operators / sizeof *operators && !n; i++)
    n = starts(l, l->at, operators[i]) ? 2 : 0;
  char c = byte_at(l, l->at);
  if (!n && (!c || !strchr("+-/*%~[](){}><=.:|,;", c)))
    return lex_error(l, l->at, "an unexpected character");
  if (!n) TRY(count_bracket(l, c));
  size_t begin = l->at;
  l->at += n ? n : 1;
  return add_token(l, TOKEN_OPERATOR, begin, l->at);
}

static clave_status lex_inside(lexer *l, char kind) {
  l->n_open = 0;
  for (;;) {
    size_t end = l->n_open ? 0 : block_end(l, l->at, kind);
    if (end) {
      TRY(add_token(l, kind == '}' ? TOKEN_PRINT_END : TOKEN_BLOCK_END, l->at, l->at + 2));
      read_past(l, l->at + end);
      return NULL;
    }
    size_t next = skip_space(l, l->at);
    if (next > l->at) {
      l->at = next;
      continue;
    }
    if (l->at >= l->source.size) return lex_error(l, l->at, "the template ends within a block");
    char c = l->source.data[l->at];
    if (is_digit(c)) {
      TRY(lex_number(l));
    } else if (is_name(c)) {
      size_t begin = l->at;
      while (is_name(byte_at(l, l->at))) l->at++;
      TRY(add_token(l, TOKEN_NAME, begin, l->at));
    } else if (c == '"' || c == '\'') {
      TRY(lex_quoted(l));
    } else {
      TRY(lex_operator(l));
    }
  }
}

/* ---------------------------------------------------------------- strings */

static clave_status bad_escape(const token *t, const char *what) {
  return INVALID("line %u, column %u: %s in a string", t->line, t->column, what);
}

/* `n` hexadecimal digits at s, of which `left` bytes are there; UINT32_MAX: not so many. */
static uint32_t read_hex(const char *s, size_t left, size_t n) {
  uint32_t c = 0;
  if (left < n) return UINT32_MAX;
  for (size_t i = 0; i < n; i++) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *d = s[i] ? strchr(digits, s[i]) : NULL;
    if (!d) return UINT32_MAX;
    c = c * 16 + (uint32_t)(d - digits) % 16;
  }
  return c;
}

static clave_status add_code_point(const token *t, uint32_t c, builder *out) {
  char bytes[4];
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
    return bad_escape(t, "an escape that is no character");
  builder_bytes(out, bytes, utf8_write(c, bytes));
  return NULL;
}

/* One escape at s, behind its backslash; *used: its bytes. */
static clave_status read_escape(const token *t, const char *s, size_t left, size_t *used,
                                builder *out) {
  static const char letters[] = "\\'\"abfnrtv", meant[] = "\\'\"\a\b\f\n\r\t\v";
  const char *letter = *s ? strchr(letters, *s) : NULL;
  *used = 1;
  if (*s == '\n') return NULL;
  if (letter) {
    builder_bytes(out, &meant[letter - letters], 1);
    return NULL;
  }
  if (*s == 'N') return bad_escape(t, "\\N{...}, which names a character, is not known");
  if (*s == 'x' || *s == 'u' || *s == 'U') {
    size_t n = *s == 'x' ? 2 : *s == 'u' ? 4 : 8;
    *used = n + 1;
    return add_code_point(t, read_hex(s + 1, left - 1, n), out);
  }
  if (*s >= '0' && *s <= '7') {
    uint32_t c = 0;
    for (*used = 0; *used < 3 && *used < left && s[*used] >= '0' && s[*used] <= '7'; ++*used)
      c = c * 8 + (uint32_t)(s[*used] - '0');
    return add_code_point(t, c, out);
  }
  builder_bytes(out, "\\", 1);
  *used = 0;
  return NULL;
}

clave_status lex_string(const token *t, builder *out) {
  const char *s = t->text.data + 1, *end = t->text.data + t->text.size - 1;
  while (s < end) {
    const char *slash = memchr(s, '\\', (size_t)(end - s));
    if (!slash) slash = end;
    builder_bytes(out, s, (size_t)(slash - s));
    s = slash;
    if (s == end) break;
    size_t used;
    TRY(read_escape(t, s + 1, (size_t)(end - s - 1), &used, out));
    s += 1 + used;
  }
  return NULL;
}
