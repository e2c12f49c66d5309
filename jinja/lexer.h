#ifndef JINJA_LEXER_H
#define JINJA_LEXER_H
/* Splits a template into tokens, with Jinja2's white-space control. */
#include "base/memory.h"
#include "jinja/value.h"

typedef enum token_kind {
  TOKEN_END,
  TOKEN_DATA, /* text outside of blocks */
  TOKEN_PRINT_BEGIN,
  TOKEN_PRINT_END,
  TOKEN_BLOCK_BEGIN,
  TOKEN_BLOCK_END,
  TOKEN_NAME,
  TOKEN_STRING, /* including its quotes */
  TOKEN_INTEGER,
  TOKEN_FLOAT,
  TOKEN_OPERATOR
} token_kind;

typedef struct token {
  token_kind kind;
  span text;
  uint32_t line, column; /* starting at 1 */
} token;

typedef struct token_list {
  token *items; /* owned; the last is TOKEN_END */
  size_t count, capacity;
} token_list;
/* source: must have "\n" as its only line ends; tokens point into it. */
clave_status lex_template(span source, token_list *out) STATUS_CHECK;
/* Appends the value of a string token. */
clave_status lex_string(const token *token, builder *out) STATUS_CHECK;

#endif
