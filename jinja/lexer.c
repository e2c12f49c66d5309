/* Tokens of templates: text, and the contents of {{ }}, {% %} and {# #}. */
#include "jinja/lexer.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/unicode.h"

typedef struct lexer {
  span source;
  size_t at;
  size_t line_at; /* start of line number `line` */
  uint32_t line;
  size_t counted;   /* line breaks before this position are counted in `line` */
  bool line_starts; /* the last token ended a line */
  token_list *out;
  char open[64]; /* stack of open brackets in a block */
  size_t n_open;
} lexer;

static void locate(lexer *lexer, size_t at, uint32_t *line, uint32_t *column) {
  for (; lexer->counted < at; lexer->counted++) {
    if (lexer->source.data[lexer->counted] != '\n') continue;
    lexer->line++;
    lexer->line_at = lexer->counted + 1;
  }
  *line = lexer->line;
  *column = (uint32_t)(at - lexer->line_at + 1);
}

static clave_status lex_error(lexer *lexer, size_t at, const char *what) STATUS_NEVER_NULL;
static clave_status lex_error(lexer *lexer, size_t at, const char *what) {
  uint32_t line, column;
  locate(lexer, at, &line, &column);
  return INVALID("line %u, column %u: %s", line, column, what);
}

static clave_status lexer_add_token(lexer *lexer, token_kind kind, size_t from, size_t to) {
  token_list *list = lexer->out;
  if (!array_reserve(&list->items, &list->capacity, list->count + 1, sizeof *list->items))
    return status_no_memory();
  token *lexeme = &list->items[list->count++];
  *lexeme = (token){.kind = kind, .text = {lexer->source.data + from, to - from}};
  locate(lexer, from, &lexeme->line, &lexeme->column);
  return NULL;
}

static bool starts(const lexer *lexer, size_t at, const char *word) {
  size_t n = strlen(word);
  return lexer->source.size - at >= n && memcmp(lexer->source.data + at, word, n) == 0;
}

static char byte_at(const lexer *lexer, size_t at) {
  return at < lexer->source.size ? lexer->source.data[at] : '\0';
}

static size_t lexer_skip_space(const lexer *lexer, size_t at) {
  size_t n;
  while (at < lexer->source.size &&
         (n = space_at(lexer->source.data + at, lexer->source.size - at)))
    at += n;
  return at;
}

/* ---------------------------------------------------------------- text and the blocks in it */

/* Returns the size of the marker that ends a block, including the white space that it removes; 0 if
 * there is no such marker at `at`. kind: '%', '}' or '#'. */
static size_t lexer_block_end(const lexer *lexer, size_t at, char kind) {
  size_t sign = byte_at(lexer, at) == '-' || (byte_at(lexer, at) == '+' && kind != '}');
  const char close[] = {kind, '}', '\0'};
  if (!starts(lexer, at + sign, close)) return 0;
  size_t end = at + sign + 2;
  if (byte_at(lexer, at) == '-') return lexer_skip_space(lexer, end) - at;
  if (!sign && kind != '}' && byte_at(lexer, end) == '\n') end++;
  return end - at;
}

/* Returns the end of the text before a block that opens with '-', '+' or no sign. */
static size_t trim_before(const lexer *lexer, size_t from, size_t to, char sign, bool is_print) {
  const char *text = lexer->source.data;
  if (sign == '-') {
    size_t n;
    while (to > from && (n = space_before(text + from, to - from))) to -= n;
    return to;
  }
  if (sign == '+' || is_print) return to;
  size_t line = to;
  while (line > from && text[line - 1] != '\n') line--;
  if (line == from && !lexer->line_starts) return to;
  return lexer_skip_space(lexer, line) >= to ? line : to;
}

static clave_status add_data(lexer *lexer, size_t from, size_t to) {
  return to > from ? lexer_add_token(lexer, TOKEN_DATA, from, to) : NULL;
}

static void read_past(lexer *lexer, size_t end) {
  lexer->at = end;
  lexer->line_starts = end > 0 && lexer->source.data[end - 1] == '\n';
}

/* True if the `{%` at `at` begins the tag `word`. Sets *inner to the position of the tag's end. */
static bool lexer_is_tag(const lexer *lexer, size_t at, const char *word, size_t *inner) {
  at += 2;
  if (byte_at(lexer, at) == '-' || byte_at(lexer, at) == '+') at++;
  at = lexer_skip_space(lexer, at);
  if (!starts(lexer, at, word)) return false;
  *inner = lexer_skip_space(lexer, at + strlen(word));
  return lexer_block_end(lexer, *inner, '%') > 0;
}

/* Reads {% raw %}: everything up to {% endraw %} is text. */
static clave_status lex_raw(lexer *lexer, size_t begin, size_t inner) {
  size_t from = inner + (byte_at(lexer, inner) == '-' ? lexer_block_end(lexer, inner, '%') : 2),
         end;
  if (byte_at(lexer, inner) == '+')
    return lex_error(lexer, begin, "the raw tag cannot end with +%}");
  read_past(lexer, from);
  for (size_t at = from; at + 2 <= lexer->source.size; at++) {
    if (!starts(lexer, at, "{%") || !lexer_is_tag(lexer, at, "endraw", &end)) continue;
    TRY(add_data(lexer, from, trim_before(lexer, from, at, byte_at(lexer, at + 2), false)));
    read_past(lexer, end + lexer_block_end(lexer, end, '%'));
    return NULL;
  }
  return lex_error(lexer, begin, "the raw block has no endraw");
}

static clave_status lex_comment(lexer *lexer, size_t begin) {
  for (size_t at = begin + 2; at + 2 <= lexer->source.size; at++) {
    size_t n = lexer_block_end(lexer, at, '#');
    if (!n) continue;
    read_past(lexer, at + n);
    return NULL;
  }
  return lex_error(lexer, begin, "the comment has no end");
}

static clave_status lex_inside(lexer *lexer, char kind);

static clave_status lex_block(lexer *lexer, size_t begin) {
  char kind = lexer->source.data[begin + 1], sign = byte_at(lexer, begin + 2);
  bool is_print = kind == '{';
  size_t inner;
  if (sign != '-' && sign != '+') sign = '\0';
  TRY(add_data(lexer, lexer->at, trim_before(lexer, lexer->at, begin, sign, is_print)));
  if (kind == '#') return lex_comment(lexer, begin);
  if (!is_print && lexer_is_tag(lexer, begin, "raw", &inner)) return lex_raw(lexer, begin, inner);
  bool has_sign = sign == '-' || (sign == '+' && !is_print);
  TRY(lexer_add_token(lexer, is_print ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, begin, begin + 2));
  lexer->at = begin + 2 + has_sign;
  return lex_inside(lexer, is_print ? '}' : '%');
}

clave_status lex_template(span source, token_list *out) {
  lexer lexer = {.source = source, .line = 1, .line_starts = true, .out = out};
  size_t begin = 0;
  while (begin < source.size) {
    const char *brace = memchr(source.data + begin, '{', source.size - begin);
    if (!brace) break;
    begin = (size_t)(brace - source.data);
    if (!byte_at(&lexer, begin + 1) || !strchr("{%#", byte_at(&lexer, begin + 1))) {
      begin++;
      continue;
    }
    TRY(lex_block(&lexer, begin));
    begin = lexer.at;
  }
  TRY(add_data(&lexer, lexer.at, source.size));
  return lexer_add_token(&lexer, TOKEN_END, source.size, source.size);
}

/* ---------------------------------------------------------------- within blocks */

static bool lexer_is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) {
  return lexer_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (unsigned char)c >= 0x80;
}

/* Skips digits, with single underscores between them. */
static size_t lexer_skip_digits(const lexer *lexer, size_t at) {
  while (lexer_is_digit(byte_at(lexer, at)) ||
         (byte_at(lexer, at) == '_' && lexer_is_digit(byte_at(lexer, at + 1))))
    at++;
  return at;
}

static clave_status lex_number(lexer *lexer) {
  size_t end = lexer_skip_digits(lexer, lexer->at), exponent;
  bool real = false, after_dot = lexer->at > 0 && lexer->source.data[lexer->at - 1] == '.';
  if (!after_dot && byte_at(lexer, end) == '.' && lexer_is_digit(byte_at(lexer, end + 1))) {
    end = lexer_skip_digits(lexer, end + 1);
    real = true;
  }
  exponent = end;
  if (!after_dot && (byte_at(lexer, end) == 'e' || byte_at(lexer, end) == 'E')) {
    exponent = end + 1;
    if (byte_at(lexer, exponent) == '-' || byte_at(lexer, exponent) == '+') exponent++;
  }
  if (exponent > end && lexer_is_digit(byte_at(lexer, exponent))) {
    end = lexer_skip_digits(lexer, exponent);
    real = true;
  }
  if (is_name(byte_at(lexer, end)))
    return lex_error(lexer, lexer->at, "a number is followed by a letter");
  size_t begin = lexer->at;
  if (!real && byte_at(lexer, begin) == '0' && end > begin + 1 &&
      strspn(lexer->source.data + begin, "0_") < end - begin)
    return lex_error(lexer, begin, "unexpected leading zero in an integer");
  lexer->at = end;
  return lexer_add_token(lexer, real ? TOKEN_FLOAT : TOKEN_INTEGER, begin, end);
}

static clave_status lex_quoted(lexer *lexer) {
  char quote = byte_at(lexer, lexer->at);
  for (size_t at = lexer->at + 1; at < lexer->source.size; at++) {
    if (lexer->source.data[at] == '\\') {
      at++;
    } else if (lexer->source.data[at] == quote) {
      TRY(lexer_add_token(lexer, TOKEN_STRING, lexer->at, at + 1));
      lexer->at = at + 1;
      return NULL;
    }
  }
  return lex_error(lexer, lexer->at, "the string has no closing quote");
}

static clave_status count_bracket(lexer *lexer, char c) {
  static const char opens[] = "([{", closes[] = ")]}";
  const char *close = strchr(closes, c);
  if (strchr(opens, c)) {
    if (lexer->n_open == sizeof lexer->open)
      return lex_error(lexer, lexer->at, "brackets are nested too deeply");
    lexer->open[lexer->n_open++] = closes[strchr(opens, c) - opens];
  } else if (close && (lexer->n_open == 0 || lexer->open[--lexer->n_open] != c)) {
    return lex_error(lexer, lexer->at, "the closing bracket does not match");
  }
  return NULL;
}

static clave_status lex_operator(lexer *lexer) {
  static const char *const operators[] = {"**", "//", "==", "!=", ">=", "<="};
  size_t n = 0;
  for (size_t i = 0; i < sizeof operators / sizeof *operators && !n; i++)
    n = starts(lexer, lexer->at, operators[i]) ? 2 : 0;
  char c = byte_at(lexer, lexer->at);
  if (!n && (!c || !strchr("+-/*%~[](){}><=.:|,;", c)))
    return lex_error(lexer, lexer->at, "an unexpected character");
  if (!n) TRY(count_bracket(lexer, c));
  size_t begin = lexer->at;
  lexer->at += n ? n : 1;
  return lexer_add_token(lexer, TOKEN_OPERATOR, begin, lexer->at);
}

static clave_status lex_inside(lexer *lexer, char kind) {
  lexer->n_open = 0;
  for (;;) {
    size_t end = lexer->n_open ? 0 : lexer_block_end(lexer, lexer->at, kind);
    if (end) {
      TRY(lexer_add_token(lexer, kind == '}' ? TOKEN_PRINT_END : TOKEN_BLOCK_END, lexer->at,
                          lexer->at + 2));
      read_past(lexer, lexer->at + end);
      return NULL;
    }
    size_t next = lexer_skip_space(lexer, lexer->at);
    if (next > lexer->at) {
      lexer->at = next;
      continue;
    }
    if (lexer->at >= lexer->source.size)
      return lex_error(lexer, lexer->at, "the template ends within a block");
    char c = lexer->source.data[lexer->at];
    if (lexer_is_digit(c)) {
      TRY(lex_number(lexer));
    } else if (is_name(c)) {
      size_t begin = lexer->at;
      while (is_name(byte_at(lexer, lexer->at))) lexer->at++;
      TRY(lexer_add_token(lexer, TOKEN_NAME, begin, lexer->at));
    } else if (c == '"' || c == '\'') {
      TRY(lex_quoted(lexer));
    } else {
      TRY(lex_operator(lexer));
    }
  }
}

/* ---------------------------------------------------------------- strings */

static clave_status bad_escape(const token *token, const char *what) {
  return INVALID("line %u, column %u: %s in a string", token->line, token->column, what);
}

/* Reads `n` hexadecimal digits at text, of which `left` bytes remain. Returns UINT32_MAX if there
 * are fewer. */
static uint32_t read_hex(const char *text, size_t left, size_t n) {
  uint32_t c = 0;
  if (left < n) return UINT32_MAX;
  for (size_t i = 0; i < n; i++) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *d = text[i] ? strchr(digits, text[i]) : NULL;
    if (!d) return UINT32_MAX;
    c = c * 16 + (uint32_t)(d - digits) % 16;
  }
  return c;
}

static clave_status add_code_point(const token *token, uint32_t c, builder *out) {
  char bytes[4];
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
    return bad_escape(token, "the escape is not a character");
  builder_bytes(out, bytes, utf8_write(c, bytes));
  return NULL;
}

/* Reads the escape whose backslash precedes text. Sets *used to its size without the backslash. */
static clave_status read_escape(const token *token, const char *text, size_t left, size_t *used,
                                builder *out) {
  static const char letters[] = "\\'\"abfnrtv", characters[] = "\\'\"\a\b\f\n\r\t\v";
  const char *letter = *text ? strchr(letters, *text) : NULL;
  *used = 1;
  if (*text == '\n') return NULL;
  if (letter) {
    builder_bytes(out, &characters[letter - letters], 1);
    return NULL;
  }
  if (*text == 'N') return bad_escape(token, "character names (\\N{...}) are not supported");
  if (*text == 'x' || *text == 'u' || *text == 'U') {
    size_t n = *text == 'x' ? 2 : *text == 'u' ? 4 : 8;
    *used = n + 1;
    return add_code_point(token, read_hex(text + 1, left - 1, n), out);
  }
  if (*text >= '0' && *text <= '7') {
    uint32_t c = 0;
    for (*used = 0; *used < 3 && *used < left && text[*used] >= '0' && text[*used] <= '7'; ++*used)
      c = c * 8 + (uint32_t)(text[*used] - '0');
    return add_code_point(token, c, out);
  }
  builder_bytes(out, "\\", 1);
  *used = 0;
  return NULL;
}

clave_status lex_string(const token *token, builder *out) {
  const char *text = token->text.data + 1, *end = token->text.data + token->text.size - 1;
  while (text < end) {
    const char *slash = memchr(text, '\\', (size_t)(end - text));
    if (!slash) slash = end;
    builder_bytes(out, text, (size_t)(slash - text));
    text = slash;
    if (text == end) break;
    size_t used;
    TRY(read_escape(token, text + 1, (size_t)(end - text - 1), &used, out));
    text += 1 + used;
  }
  return NULL;
}
