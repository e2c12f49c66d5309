#ifndef JINJA_PARSER_H
#define JINJA_PARSER_H
/* What parse_expr.c and parser.c share: the place among the tokens, and nodes. */
#include "jinja/ast.h"
#include "jinja/lexer.h"

enum { PARSE_MAX_DEPTH = 200 };

typedef struct parser {
  jinja_template *template;
  arena arena;
  const token *at; /* the next token */
  int depth;
  bool soft;        /* within an if: unknown filters are an error when they are reached */
  int loops;        /* that break and continue can leave */
  int within_loops; /* macros within loops count, too */
} parser;

clave_status parse_error(const parser *parser, const char *format, ...)
    STATUS_PRINTF(2, 3) STATUS_CHECK STATUS_NEVER_NULL;
clave_status new_node(parser *parser, node_kind kind, const token *at, node **out) STATUS_CHECK;
/* A copy of the token's text, that ends in NUL. */
clave_status copy_name(parser *parser, const token *token, const char **out) STATUS_CHECK;
bool at_operator(const parser *parser, const char *op);
bool at_name(const parser *parser, const char *name);
bool skip_operator(parser *parser, const char *op);
bool skip_name(parser *parser, const char *name);
clave_status expect_operator(parser *parser, const char *op) STATUS_CHECK;
clave_status expect_name(parser *parser, const token **out) STATUS_CHECK;
clave_status enter(parser *parser) STATUS_CHECK; /* and parser->depth-- on the way out */

clave_status parse_expression(parser *parser, bool with_cond, node **out) STATUS_CHECK;
/* Expressions between commas; one without a comma is itself. end: a name that ends them, or NULL.
 * in_parentheses: may be empty. */
clave_status parse_tuple(parser *parser, bool with_cond, const char *end, bool in_parentheses,
                         node **out) STATUS_CHECK;
/* A name, attribute of a namespace, or a tuple of them. */
clave_status parse_target(parser *parser, bool with_namespace, node **out) STATUS_CHECK;
clave_status parse_postfix(parser *parser, node **node) STATUS_CHECK;
/* `| name(...)`, any number of them; inline: the first without its bar. */
clave_status parse_filters(parser *parser, node *input, bool inline_first, node **out) STATUS_CHECK;

#endif
