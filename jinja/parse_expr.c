/* Parses expressions, from the lowest precedence to the highest. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "jinja/parser.h"

static clave_status parse_unary(parser *parser, bool with_filter, node **out);

static clave_status binary(parser *parser, node_kind kind, int op, node *left, node *right,
                           node **out) {
  const token *at = parser->at;
  TRY(new_node(parser, kind, at, out));
  (*out)->line = left->line;
  (*out)->column = left->column;
  (*out)->op = (int16_t)op;
  (*out)->a = left;
  (*out)->b = right;
  return NULL;
}

/* ---------------------------------------------------------------- lists, calls */

static bool ends_tuple(const parser *parser, const char *end) {
  return parser->at->kind == TOKEN_PRINT_END || parser->at->kind == TOKEN_BLOCK_END ||
         at_operator(parser, ")") || (end && at_name(parser, end));
}

clave_status parse_tuple(parser *parser, bool with_cond, const char *end, bool in_parentheses,
                         node **out) {
  const token *begin = parser->at;
  node *items = NULL, **last = &items;
  bool is_tuple = false;
  while (!ends_tuple(parser, end)) {
    TRY(parse_expression(parser, with_cond, last));
    last = &(*last)->next;
    if (!at_operator(parser, ",")) break;
    is_tuple = true;
    parser->at++;
  }
  if (!is_tuple && items) {
    *out = items;
    return NULL;
  }
  if (!items && !in_parentheses) return parse_error(parser, "expected an expression");
  TRY(new_node(parser, NODE_TUPLE, begin, out));
  (*out)->a = items;
  return NULL;
}

static clave_status parse_items(parser *parser, const char *close, bool pairs, node **out) {
  while (!at_operator(parser, close)) {
    TRY(parse_expression(parser, true, out));
    out = &(*out)->next;
    if (pairs) {
      TRY(expect_operator(parser, ":"));
      TRY(parse_expression(parser, true, out));
      out = &(*out)->next;
    }
    if (!skip_operator(parser, ",")) break;
  }
  return expect_operator(parser, close);
}

/* Parses one argument. *seen: kind of the arguments before it, 0: positional, 1: *a, 2: named, 3:
 * **a. */
static clave_status parse_argument(parser *parser, int *seen, node **out) {
  const token *at = parser->at;
  int kind = at_operator(parser, "**")  ? 3
             : at_operator(parser, "*") ? 1
             : at->kind == TOKEN_NAME && at[1].kind == TOKEN_OPERATOR && at[1].text.size == 1 &&
                     *at[1].text.data == '='
                 ? 2
                 : 0;
  if (kind < *seen || (kind == *seen && (kind == 1 || kind == 3)) || *seen == 3)
    return parse_error(parser, "this kind of argument cannot follow the argument before it");
  *seen = kind;
  if (kind == 0) return parse_expression(parser, true, out);
  TRY(new_node(parser, kind == 2 ? NODE_KEYWORD : NODE_SPREAD, at, out));
  (*out)->op = kind == 3 ? 2 : 1;
  if (kind == 2) TRY(copy_name(parser, at, &(*out)->name));
  parser->at += kind == 2 ? 2 : 1;
  return parse_expression(parser, true, &(*out)->a);
}

static clave_status parse_call_arguments(parser *parser, node **out) {
  int seen = 0;
  TRY(expect_operator(parser, "("));
  while (!at_operator(parser, ")")) {
    TRY(parse_argument(parser, &seen, out));
    out = &(*out)->next;
    if (!at_operator(parser, ")")) TRY(expect_operator(parser, ","));
  }
  return expect_operator(parser, ")");
}

/* ---------------------------------------------------------------- literals */

static clave_status parse_strings(parser *parser, node **out) {
  builder builder = {0};
  TRY(new_node(parser, NODE_CONST, parser->at, out));
  clave_status st = NULL;
  for (; !st && parser->at->kind == TOKEN_STRING; parser->at++)
    st = lex_string(parser->at, &builder);
  if (st) {
    builder_free(&builder);
    return st;
  }
  TRY(builder_string(&parser->arena, &builder, &(*out)->constant));
  jinja_template *template = parser->template;
  if (!array_reserve(&template->literals, &template->literal_capacity, template->n_literals + 1,
                     sizeof *template->literals))
    return status_no_memory();
  template->literals[template->n_literals++] = (*out)->constant.u.text;
  return NULL;
}

static clave_status parse_number(parser *parser, node **out) {
  char digits[400];
  size_t n = 0;
  const token *token = parser->at++;
  TRY(new_node(parser, NODE_CONST, token, out));
  for (size_t i = 0; i < token->text.size && n + 1 < sizeof digits; i++) {
    if (token->text.data[i] != '_') digits[n++] = token->text.data[i];
  }
  digits[n] = '\0';
  errno = 0;
  (*out)->constant = token->kind == TOKEN_FLOAT ? value_float(number_read(digits, NULL))
                                                : value_int(strtoll(digits, NULL, 10));
  if (token->kind == TOKEN_FLOAT && !isfinite((*out)->constant.u.real))
    return error_at(*out, STATUS_UNSUPPORTED, "a float beyond the range is not supported");
  if (token->kind == TOKEN_INTEGER && errno)
    return error_at(*out, STATUS_UNSUPPORTED, "an integer of more than 64 bits");
  return NULL;
}

static clave_status parse_name(parser *parser, node **out) {
  static const struct {
    const char *name;
    int truth; /* -1 for none */
  } words[] = {{"true", 1}, {"True", 1}, {"false", 0}, {"False", 0}, {"none", -1}, {"None", -1}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (!at_name(parser, words[i].name)) continue;
    TRY(new_node(parser, NODE_CONST, parser->at++, out));
    (*out)->constant = words[i].truth < 0 ? value_none() : value_bool(words[i].truth);
    return NULL;
  }
  TRY(new_node(parser, NODE_NAME, parser->at, out));
  return copy_name(parser, parser->at++, &(*out)->name);
}

static clave_status parse_brackets(parser *parser, node **out) {
  const token *at = parser->at;
  if (skip_operator(parser, "(")) {
    TRY(parse_tuple(parser, true, NULL, true, out));
    return expect_operator(parser, ")");
  }
  bool is_list = skip_operator(parser, "[");
  if (!is_list && !skip_operator(parser, "{")) return parse_error(parser, "expected an expression");
  TRY(new_node(parser, is_list ? NODE_LIST : NODE_DICT, at, out));
  return parse_items(parser, is_list ? "]" : "}", !is_list, &(*out)->a);
}

static clave_status parse_primary(parser *parser, node **out) {
  switch (parser->at->kind) {
    case TOKEN_NAME:
      return parse_name(parser, out);
    case TOKEN_STRING:
      return parse_strings(parser, out);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
      return parse_number(parser, out);
    default:
      return parse_brackets(parser, out);
  }
}

/* ---------------------------------------------------------------- postfix */

static clave_status parse_subscript(parser *parser, node **out) {
  node *parts[3] = {0};
  const token *at = parser->at;
  int n = 0;
  if (!at_operator(parser, ":")) TRY(parse_expression(parser, true, &parts[0]));
  if (!at_operator(parser, ":")) {
    *out = parts[0];
    return NULL;
  }
  while (n < 2 && skip_operator(parser, ":")) {
    n++;
    if (!at_operator(parser, ":") && !at_operator(parser, "]") && !at_operator(parser, ","))
      TRY(parse_expression(parser, true, &parts[n]));
  }
  TRY(new_node(parser, NODE_SLICE, at, out));
  (*out)->a = parts[0];
  (*out)->b = parts[1];
  (*out)->c = parts[2];
  return NULL;
}

static clave_status parse_item(parser *parser, node *of, node **out) {
  node *items = NULL, **last = &items;
  const token *at = parser->at;
  bool is_tuple = false;
  parser->at++;
  while (!at_operator(parser, "]")) {
    if (items) {
      TRY(expect_operator(parser, ","));
      is_tuple = true;
    }
    TRY(parse_subscript(parser, last));
    last = &(*last)->next;
  }
  parser->at++;
  TRY(new_node(parser, NODE_ITEM, at, out));
  (*out)->a = of;
  (*out)->b = items;
  if (items && !is_tuple) return NULL;
  TRY(new_node(parser, NODE_TUPLE, at, &(*out)->b));
  (*out)->b->a = items;
  return NULL;
}

static clave_status parse_attribute(parser *parser, node *of, node **out) {
  const token *at = ++parser->at;
  if (at->kind == TOKEN_INTEGER) {
    TRY(new_node(parser, NODE_ITEM, at, out));
    (*out)->a = of;
    return parse_number(parser, &(*out)->b);
  }
  TRY(expect_name(parser, &at));
  TRY(new_node(parser, NODE_ATTR, at, out));
  (*out)->a = of;
  TRY(make_string(&parser->arena, at->text.data, at->text.size, &(*out)->constant));
  (*out)->op = (int16_t)find_loop_name((*out)->constant.u.text);
  (*out)->is_method = find_method(VALUE_DICT, (*out)->constant.u.text) != -1;
  return NULL;
}

static clave_status parse_call(parser *parser, node *of, node **out) {
  TRY(new_node(parser, NODE_CALL, parser->at, out));
  (*out)->a = of;
  return parse_call_arguments(parser, &(*out)->b);
}

clave_status parse_postfix(parser *parser, node **node) {
  for (;;) {
    if (at_operator(parser, ".")) {
      TRY(parse_attribute(parser, *node, node));
    } else if (at_operator(parser, "[")) {
      TRY(parse_item(parser, *node, node));
    } else if (at_operator(parser, "(")) {
      TRY(parse_call(parser, *node, node));
    } else {
      return NULL;
    }
  }
}

/* Reads the name of a filter or test. Jinja2's grammar permits dots, but no filter or test has
 * one. */
static clave_status parse_dotted(parser *parser, const char **out) {
  const token *name;
  TRY(expect_name(parser, &name));
  if (at_operator(parser, "."))
    return parse_error(parser, "unknown filter or test: its name has a dot");
  return copy_name(parser, name, out);
}

clave_status parse_filters(parser *parser, node *input, bool inline_first, node **out) {
  *out = input;
  while (inline_first || at_operator(parser, "|")) {
    if (!inline_first) parser->at++;
    inline_first = false;
    node *node;
    TRY(new_node(parser, NODE_FILTER, parser->at, &node));
    node->a = *out;
    TRY(parse_dotted(parser, &node->name));
    node->op = (int16_t)filter_index(node->name);
    if (node->op == -2)
      return error_at(node, STATUS_UNSUPPORTED, "the filter '%s' is not supported", node->name);
    if (node->op < 0 && !parser->lenient)
      return error_at(node, STATUS_INVALID, "unknown filter '%s'", node->name);
    if (at_operator(parser, "(")) TRY(parse_call_arguments(parser, &node->b));
    *out = node;
  }
  return NULL;
}

static bool begins_argument(const parser *parser) {
  token_kind k = parser->at->kind;
  if (k == TOKEN_NAME)
    return !at_name(parser, "else") && !at_name(parser, "or") && !at_name(parser, "and");
  return k == TOKEN_STRING || k == TOKEN_INTEGER || k == TOKEN_FLOAT || at_operator(parser, "[") ||
         at_operator(parser, "{");
}

static clave_status parse_test(parser *parser, node *of, node **out) {
  bool is_not;
  parser->at++;
  is_not = skip_name(parser, "not");
  node *node;
  TRY(new_node(parser, NODE_TEST, parser->at, &node));
  node->a = of;
  TRY(parse_dotted(parser, &node->name));
  node->op = (int16_t)test_index(node->name);
  if (node->op == -2)
    return error_at(node, STATUS_UNSUPPORTED, "the test '%s' is not supported", node->name);
  if (node->op < 0 && !parser->lenient)
    return error_at(node, STATUS_INVALID, "unknown test '%s'", node->name);
  if (at_operator(parser, "(")) {
    TRY(parse_call_arguments(parser, &node->b));
  } else if (begins_argument(parser)) {
    if (at_name(parser, "is")) return parse_error(parser, "tests with is cannot be chained");
    TRY(parse_primary(parser, &node->b));
    TRY(parse_postfix(parser, &node->b));
  }
  *out = node;
  if (!is_not) return NULL;
  TRY(new_node(parser, NODE_NOT, parser->at, out));
  (*out)->a = node;
  return NULL;
}

static clave_status parse_filters_and_tests(parser *parser, node **node) {
  for (;;) {
    if (at_operator(parser, "|")) {
      TRY(parse_filters(parser, *node, false, node));
    } else if (at_name(parser, "is")) {
      TRY(parse_test(parser, *node, node));
    } else if (at_operator(parser, "(")) {
      TRY(parse_call(parser, *node, node));
    } else {
      return NULL;
    }
  }
}

/* ---------------------------------------------------------------- operators */

static clave_status parse_sign(parser *parser, node **out) {
  const token *at = parser->at++;
  TRY(new_node(parser, NODE_UNARY, at, out));
  (*out)->op = *at->text.data;
  TRY(enter(parser));
  TRY(parse_unary(parser, false, &(*out)->a));
  parser->depth--;
  return NULL;
}

static clave_status parse_unary(parser *parser, bool with_filter, node **out) {
  if (at_operator(parser, "-") || at_operator(parser, "+")) {
    TRY(parse_sign(parser, out));
  } else {
    TRY(parse_primary(parser, out));
  }
  TRY(parse_postfix(parser, out));
  return with_filter ? parse_filters_and_tests(parser, out) : NULL;
}

typedef struct operator_name {
  const char *text;
  binary_op op;
} operator_name;

static const operator_name powers[] = {{"**", OP_POW}, {0}};
static const operator_name products[] = {
    {"*", OP_MUL}, {"/", OP_DIV}, {"//", OP_FLOORDIV}, {"%", OP_MOD}, {0}};
static const operator_name sums[] = {{"+", OP_ADD}, {"-", OP_SUB}, {0}};
static const operator_name comparisons[] = {
    {"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT}, {"<=", OP_LE}, {">", OP_GT}, {">=", OP_GE}, {0}};

static bool take_operator(parser *parser, const operator_name *names, int *op) {
  for (; names->text; names++) {
    if (!skip_operator(parser, names->text)) continue;
    *op = (int)names->op;
    return true;
  }
  return false;
}

static clave_status parse_concat(parser *parser, node **out);
static clave_status parse_filtered(parser *parser, node **out) {
  return parse_unary(parser, true, out);
}
static clave_status parse_chain(parser *input, const operator_name *names,
                                clave_status (*next)(parser *, node **), node **out) {
  int op;
  TRY(next(input, out));
  while (take_operator(input, names, &op)) {
    node *right;
    TRY(next(input, &right));
    TRY(binary(input, NODE_BINARY, op, *out, right, out));
  }
  return NULL;
}
static clave_status parse_power(parser *parser, node **out) {
  return parse_chain(parser, powers, parse_filtered, out);
}
static clave_status parse_product(parser *parser, node **out) {
  return parse_chain(parser, products, parse_power, out);
}
static clave_status parse_sum(parser *parser, node **out) {
  return parse_chain(parser, sums, parse_concat, out);
}

static clave_status parse_concat(parser *parser, node **out) {
  TRY(parse_product(parser, out));
  if (!at_operator(parser, "~")) return NULL;
  node *first = *out, *last = first;
  while (skip_operator(parser, "~")) {
    TRY(parse_product(parser, &last->next));
    last = last->next;
  }
  TRY(new_node(parser, NODE_CONCAT, parser->at, out));
  (*out)->line = first->line;
  (*out)->column = first->column;
  (*out)->a = first;
  return NULL;
}

static bool take_comparison(parser *parser, int *op) {
  if (take_operator(parser, comparisons, op)) return true;
  if (skip_name(parser, "in")) {
    *op = OP_IN;
    return true;
  }
  if (!at_name(parser, "not") || parser->at[1].kind != TOKEN_NAME || parser->at[1].text.size != 2 ||
      memcmp(parser->at[1].text.data, "in", 2) != 0)
    return false;
  parser->at += 2;
  *op = OP_NOT_IN;
  return true;
}

static clave_status parse_comparison(parser *parser, node **out) {
  int op;
  node *operands = NULL, **last = &operands;
  const token *at = parser->at;
  TRY(parse_sum(parser, out));
  while (take_comparison(parser, &op)) {
    TRY(new_node(parser, NODE_OPERAND, parser->at, last));
    (*last)->op = (int16_t)op;
    TRY(parse_sum(parser, &(*last)->a));
    last = &(*last)->next;
  }
  if (!operands) return NULL;
  node *first = *out;
  TRY(new_node(parser, NODE_COMPARE, at, out));
  (*out)->a = first;
  (*out)->b = operands;
  return NULL;
}

static clave_status parse_not(parser *parser, node **out) {
  const token *at = parser->at;
  if (!skip_name(parser, "not")) return parse_comparison(parser, out);
  TRY(new_node(parser, NODE_NOT, at, out));
  TRY(enter(parser));
  TRY(parse_not(parser, &(*out)->a));
  parser->depth--;
  return NULL;
}

static clave_status parse_and(parser *parser, node **out) {
  TRY(parse_not(parser, out));
  while (skip_name(parser, "and")) {
    node *right;
    TRY(parse_not(parser, &right));
    TRY(binary(parser, NODE_AND, 0, *out, right, out));
  }
  return NULL;
}

static clave_status parse_or(parser *parser, node **out) {
  TRY(parse_and(parser, out));
  while (skip_name(parser, "or")) {
    node *right;
    TRY(parse_and(parser, &right));
    TRY(binary(parser, NODE_OR, 0, *out, right, out));
  }
  return NULL;
}

static clave_status parse_cond(parser *parser, node **out) {
  bool lenient = parser->lenient;
  TRY(parse_or(parser, out));
  while (skip_name(parser, "if")) {
    node *condition, *otherwise = NULL;
    parser->lenient = true;
    TRY(parse_or(parser, &condition));
    if (skip_name(parser, "else")) TRY(parse_expression(parser, true, &otherwise));
    parser->lenient = lenient;
    TRY(binary(parser, NODE_COND, 0, condition, *out, out));
    (*out)->c = otherwise;
  }
  return NULL;
}

clave_status parse_expression(parser *parser, bool with_cond, node **out) {
  TRY(enter(parser));
  TRY(with_cond ? parse_cond(parser, out) : parse_or(parser, out));
  parser->depth--;
  return NULL;
}

/* ---------------------------------------------------------------- targets */

static clave_status parse_one_target(parser *parser, bool with_namespace, node **out) {
  const token *name;
  TRY(expect_name(parser, &name));
  static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    if (name->text.size == strlen(constants[i]) &&
        memcmp(name->text.data, constants[i], name->text.size) == 0)
      return parse_error(parser, "%s cannot be assigned to", constants[i]);
  }
  if (parser->within_loops && name->text.size == 4 && memcmp(name->text.data, "loop", 4) == 0)
    return parse_error(parser, "loop cannot be assigned to within a loop");
  bool member = with_namespace && at_operator(parser, ".");
  TRY(new_node(parser, member ? NODE_MEMBER : NODE_NAME, name, out));
  TRY(copy_name(parser, name, &(*out)->name));
  if (!member) return NULL;
  parser->at++;
  TRY(expect_name(parser, &name));
  return make_string(&parser->arena, name->text.data, name->text.size, &(*out)->constant);
}

static clave_status parse_target_item(parser *parser, bool with_namespace, node **out) {
  if (!skip_operator(parser, "(")) return parse_one_target(parser, with_namespace, out);
  TRY(enter(parser));
  TRY(parse_target(parser, with_namespace, out));
  parser->depth--;
  return expect_operator(parser, ")");
}

clave_status parse_target(parser *parser, bool with_namespace, node **out) {
  const token *begin = parser->at;
  node *items = NULL, **last = &items;
  TRY(parse_target_item(parser, with_namespace, last));
  if (!at_operator(parser, ",")) {
    *out = items;
    return NULL;
  }
  while (skip_operator(parser, ",")) {
    last = &(*last)->next;
    if (parser->at->kind != TOKEN_NAME && !at_operator(parser, "(")) break;
    if (at_name(parser, "in")) return parse_error(parser, "expected another name");
    TRY(parse_target_item(parser, with_namespace, last));
  }
  TRY(new_node(parser, NODE_TUPLE, begin, out));
  (*out)->a = items;
  return NULL;
}
