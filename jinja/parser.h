#ifndef JINJA_PARSER_H
#define JINJA_PARSER_H
/* What parse_expr.c and parser.c share: the place among the tokens, and nodes. */
#include "jinja/ast.h"
#include "jinja/lexer.h"

enum { PARSE_MAX_DEPTH = 200 };

typedef struct parser {
  jinja_template *t;
  arena arena;
  const token *at; /* the next token */
  int depth;
  bool soft;        /* within an if: unknown filters are an error when they are reached */
  int loops;        /* that break and continue can leave */
  int within_loops; /* macros within loops count, too */
} parser;

clave_status parse_error(const parser *p, const char *format, ...)
    STATUS_PRINTF(2, 3) STATUS_CHECK STATUS_NEVER_NULL;
clave_status new_node(parser *p, node_kind kind, const token *at, node **out) STATUS_CHECK;
/* A copy of the token's text, that ends in NUL. */
clave_status copy_name(parser *p, const token *t, const char **out) STATUS_CHECK;
bool at_operator(const parser *p, const char *op);
bool at_name(const parser *p, const char *name);
bool skip_operator(parser *p, const char *op);
bool skip_name(parser *p, const char *name);
clave_status expect_operator(parser *p, const char *op) STATUS_CHECK;
clave_status expect_name(parser *p, const token **out) STATUS_CHECK;
clave_status enter(parser *p) STATUS_CHECK; /* and p->depth-- on the way out */

clave_status parse_expression(parser *p, bool with_cond, node **out) STATUS_CHECK;
/* Expressions between commas; one without a comma is itself. end: a name that ends them, or NULL.
 * in_parentheses: may be empty. */
clave_status parse_tuple(parser *p, bool with_cond, const char *end, bool in_parentheses,
                         node **out) STATUS_CHECK;
/* A name, attribute of a namespace, or a tuple of them. */
clave_status parse_target(parser *p, bool with_namespace, node **out) STATUS_CHECK;
clave_status parse_postfix(parser *p, node **n) STATUS_CHECK;
/* `| name(...)`, any number of them; inline: the first without its bar. */
clave_status parse_filters(parser *p, node *input, bool inline_first, node **out) STATUS_CHECK;

#endif
