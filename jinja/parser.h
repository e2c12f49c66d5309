#ifndef JINJA_PARSER_H
#define JINJA_PARSER_H
/* Declarations shared by parse_expr.c and parser.c: the parser's state, tokens and nodes. */
#include "jinja/ast.h"
#include "jinja/lexer.h"

enum { PARSE_MAX_DEPTH = 200 };

typedef struct parser {
  jinja_template *template;
  arena arena;
  const token *at; /* the next token */
  int depth;
  bool lenient;     /* within an if: unknown filters are errors only when they are evaluated */
  int loops;        /* enclosing loops that break and continue can leave */
  int within_loops; /* enclosing loops, including those outside of a macro */
} parser;

clave_status parse_error(const parser *parser, const char *format, ...)
    STATUS_PRINTF(2, 3) STATUS_CHECK STATUS_NEVER_NULL;
clave_status new_node(parser *parser, node_kind kind, const token *at, node **out) STATUS_CHECK;
/* Copies the token's text, NUL-terminated. */
clave_status copy_name(parser *parser, const token *token, const char **out) STATUS_CHECK;
/* at_* returns true if the next token is the given one. skip_* does the same and consumes the token
 * if it is. expect_* consumes the token or fails. */
bool at_operator(const parser *parser, const char *op);
bool at_name(const parser *parser, const char *name);
bool skip_operator(parser *parser, const char *op);
bool skip_name(parser *parser, const char *name);
clave_status expect_operator(parser *parser, const char *op) STATUS_CHECK;
clave_status expect_name(parser *parser, const token **out) STATUS_CHECK;
clave_status enter(parser *parser) STATUS_CHECK; /* the caller decrements parser->depth when done */

clave_status parse_expression(parser *parser, bool with_cond, node **out) STATUS_CHECK;
/* Parses expressions separated by commas. A single expression without a comma is not a tuple. end:
 * a name that ends the list, or NULL. in_parentheses: the list may be empty. */
clave_status parse_tuple(parser *parser, bool with_cond, const char *end, bool in_parentheses,
                         node **out) STATUS_CHECK;
/* Parses an assignment target: a name, a namespace attribute, or a tuple of targets. */
clave_status parse_target(parser *parser, bool with_namespace, node **out) STATUS_CHECK;
/* Parses what may follow a value: attributes, items and calls. */
clave_status parse_postfix(parser *parser, node **node) STATUS_CHECK;
/* Parses any number of `| name(...)`; inline_first: the first filter has no bar. */
clave_status parse_filters(parser *parser, node *input, bool inline_first, node **out) STATUS_CHECK;

#endif
