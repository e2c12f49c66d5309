/* Expressions, from what binds least to what binds most. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "jinja/parser.h"

static clave_status parse_unary(parser *p, bool with_filter, node **out);

static clave_status binary(parser *p, node_kind kind, int op, node *a, node *b, node **out) {
  const token *at = p->at;
  TRY(new_node(p, kind, at, out));
  (*out)->line = a->line;
  (*out)->column = a->column;
  (*out)->op = (int16_t)op;
  (*out)->a = a;
  (*out)->b = b;
  return NULL;
}

/* ---------------------------------------------------------------- lists, calls */

static bool ends_tuple(const parser *p, const char *end) {
  return p->at->kind == TOKEN_PRINT_END || p->at->kind == TOKEN_BLOCK_END || at_operator(p, ")") ||
         (end && at_name(p, end));
}

clave_status parse_tuple(parser *p, bool with_cond, const char *end, bool in_parentheses,
                         node **out) {
  const token *begin = p->at;
  node *items = NULL, **last = &items;
  bool is_tuple = false;
  while (!ends_tuple(p, end)) {
    TRY(parse_expression(p, with_cond, last));
    last = &(*last)->next;
    if (!at_operator(p, ",")) break;
    is_tuple = true;
    p->at++;
  }
  if (!is_tuple && items) {
    *out = items;
    return NULL;
  }
  if (!items && !in_parentheses) return parse_error(p, "expected an expression");
  TRY(new_node(p, NODE_TUPLE, begin, out));
  (*out)->a = items;
  return NULL;
}

static clave_status parse_items(parser *p, const char *close, bool pairs, node **out) {
  while (!at_operator(p, close)) {
    TRY(parse_expression(p, true, out));
    out = &(*out)->next;
    if (pairs) {
      TRY(expect_operator(p, ":"));
      TRY(parse_expression(p, true, out));
      out = &(*out)->next;
    }
    if (!skip_operator(p, ",")) break;
  }
  return expect_operator(p, close);
}

/* One argument; *seen: the kind of the arguments before it, 0: positional, 1: *a, 2: named, 3: **a.
 */
static clave_status parse_argument(parser *p, int *seen, node **out) {
  const token *at = p->at;
  int kind = at_operator(p, "**")  ? 3
             : at_operator(p, "*") ? 1
             : at->kind == TOKEN_NAME && at[1].kind == TOKEN_OPERATOR && at[1].text.size == 1 &&
                     *at[1].text.data == '='
                 ? 2
                 : 0;
  if (kind < *seen || (kind == *seen && (kind == 1 || kind == 3)) || *seen == 3)
    return parse_error(p, "an argument that cannot follow the one before it");
  *seen = kind;
  if (kind == 0) return parse_expression(p, true, out);
  TRY(new_node(p, kind == 2 ? NODE_KEYWORD : NODE_SPREAD, at, out));
  (*out)->op = kind == 3 ? 2 : 1;
  if (kind == 2) TRY(copy_name(p, at, &(*out)->name));
  p->at += kind == 2 ? 2 : 1;
  return parse_expression(p, true, &(*out)->a);
}

static clave_status parse_arguments(parser *p, node **out) {
  int seen = 0;
  TRY(expect_operator(p, "("));
  while (!at_operator(p, ")")) {
    TRY(parse_argument(p, &seen, out));
    out = &(*out)->next;
    if (!at_operator(p, ")")) TRY(expect_operator(p, ","));
  }
  return expect_operator(p, ")");
}

/* ---------------------------------------------------------------- literals */

static clave_status parse_strings(parser *p, node **out) {
  builder b = {0};
  TRY(new_node(p, NODE_CONST, p->at, out));
  clave_status st = NULL;
  for (; !st && p->at->kind == TOKEN_STRING; p->at++) st = lex_string(p->at, &b);
  if (st) {
    builder_free(&b);
    return st;
  }
  TRY(builder_string(&p->arena, &b, &(*out)->constant));
  jinja_template *t = p->t;
  if (!array_reserve(&t->literals, &t->literal_capacity, t->n_literals + 1, sizeof *t->literals))
    return status_no_memory();
  t->literals[t->n_literals++] = (*out)->constant.u.text;
  return NULL;
}

static clave_status parse_number(parser *p, node **out) {
  char digits[400];
  size_t n = 0;
  const token *t = p->at++;
  TRY(new_node(p, NODE_CONST, t, out));
  for (size_t i = 0; i < t->text.size && n + 1 < sizeof digits; i++) {
    if (t->text.data[i] != '_') digits[n++] = t->text.data[i];
  }
  digits[n] = '\0';
  errno = 0;
  (*out)->constant = t->kind == TOKEN_FLOAT ? value_float(number_read(digits, NULL))
                                            : value_int(strtoll(digits, NULL, 10));
  if (t->kind == TOKEN_FLOAT && !isfinite((*out)->constant.u.real))
    return error_at(*out, STATUS_UNSUPPORTED, "a float beyond the range is not supported");
  if (t->kind == TOKEN_INTEGER && errno)
    return error_at(*out, STATUS_UNSUPPORTED, "an integer of more than 64 bits");
  return NULL;
}

static clave_status parse_name(parser *p, node **out) {
  static const struct {
    const char *name;
    int truth; /* -1: none */
  } words[] = {{"true", 1}, {"True", 1}, {"false", 0}, {"False", 0}, {"none", -1}, {"None", -1}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (!at_name(p, words[i].name)) continue;
    TRY(new_node(p, NODE_CONST, p->at++, out));
    (*out)->constant = words[i].truth < 0 ? value_none() : value_bool(words[i].truth);
    return NULL;
  }
  TRY(new_node(p, NODE_NAME, p->at, out));
  return copy_name(p, p->at++, &(*out)->name);
}

static clave_status parse_brackets(parser *p, node **out) {
  const token *at = p->at;
  if (skip_operator(p, "(")) {
    TRY(parse_tuple(p, true, NULL, true, out));
    return expect_operator(p, ")");
  }
  bool is_list = skip_operator(p, "[");
  if (!is_list && !skip_operator(p, "{")) return parse_error(p, "expected an expression");
  TRY(new_node(p, is_list ? NODE_LIST : NODE_DICT, at, out));
  return parse_items(p, is_list ? "]" : "}", !is_list, &(*out)->a);
}

static clave_status parse_primary(parser *p, node **out) {
  switch (p->at->kind) {
    case TOKEN_NAME:
      return parse_name(p, out);
    case TOKEN_STRING:
      return parse_strings(p, out);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
      return parse_number(p, out);
    default:
      return parse_brackets(p, out);
  }
}

/* ---------------------------------------------------------------- what follows a value */

static clave_status parse_subscript(parser *p, node **out) {
  node *parts[3] = {0};
  const token *at = p->at;
  int n = 0;
  if (!at_operator(p, ":")) TRY(parse_expression(p, true, &parts[0]));
  if (!at_operator(p, ":")) {
    *out = parts[0];
    return NULL;
  }
  while (n < 2 && skip_operator(p, ":")) {
    n++;
    if (!at_operator(p, ":") && !at_operator(p, "]") && !at_operator(p, ","))
      TRY(parse_expression(p, true, &parts[n]));
  }
  TRY(new_node(p, NODE_SLICE, at, out));
  (*out)->a = parts[0];
  (*out)->b = parts[1];
  (*out)->c = parts[2];
  return NULL;
}

static clave_status parse_item(parser *p, node *of, node **out) {
  node *items = NULL, **last = &items;
  const token *at = p->at;
  bool is_tuple = false;
  p->at++;
  while (!at_operator(p, "]")) {
    if (items) {
      TRY(expect_operator(p, ","));
      is_tuple = true;
    }
    TRY(parse_subscript(p, last));
    last = &(*last)->next;
  }
  p->at++;
  TRY(new_node(p, NODE_ITEM, at, out));
  (*out)->a = of;
  (*out)->b = items;
  if (items && !is_tuple) return NULL;
  TRY(new_node(p, NODE_TUPLE, at, &(*out)->b));
  (*out)->b->a = items;
  return NULL;
}

static clave_status parse_attribute(parser *p, node *of, node **out) {
  const token *at = ++p->at;
  if (at->kind == TOKEN_INTEGER) {
    TRY(new_node(p, NODE_ITEM, at, out));
    (*out)->a = of;
    return parse_number(p, &(*out)->b);
  }
  TRY(expect_name(p, &at));
  TRY(new_node(p, NODE_ATTR, at, out));
  (*out)->a = of;
  TRY(make_string(&p->arena, at->text.data, at->text.size, &(*out)->constant));
  (*out)->op = (int16_t)find_loop_name((*out)->constant.u.text);
  (*out)->is_method = find_method(VALUE_DICT, (*out)->constant.u.text) != -1;
  return NULL;
}

static clave_status parse_call(parser *p, node *of, node **out) {
  TRY(new_node(p, NODE_CALL, p->at, out));
  (*out)->a = of;
  return parse_arguments(p, &(*out)->b);
}

clave_status parse_postfix(parser *p, node **n) {
  for (;;) {
    if (at_operator(p, ".")) {
      TRY(parse_attribute(p, *n, n));
    } else if (at_operator(p, "[")) {
      TRY(parse_item(p, *n, n));
    } else if (at_operator(p, "(")) {
      TRY(parse_call(p, *n, n));
    } else {
      return NULL;
    }
  }
}

/* The name of a filter or test, which may have dots. */
static clave_status parse_dotted(parser *p, const char **out) {
  const token *name;
  TRY(expect_name(p, &name));
  if (at_operator(p, ".")) return parse_error(p, "a name with a dot, which no filter or test has");
  return copy_name(p, name, out);
}

clave_status parse_filters(parser *p, node *input, bool inline_first, node **out) {
  *out = input;
  while (inline_first || at_operator(p, "|")) {
    if (!inline_first) p->at++;
    inline_first = false;
    node *f;
    TRY(new_node(p, NODE_FILTER, p->at, &f));
    f->a = *out;
    TRY(parse_dotted(p, &f->name));
    f->op = (int16_t)filter_index(f->name);
    if (f->op == -2)
      return error_at(f, STATUS_UNSUPPORTED, "the filter '%s' is not supported", f->name);
    if (f->op < 0 && !p->soft) return error_at(f, STATUS_INVALID, "no filter '%s'", f->name);
    if (at_operator(p, "(")) TRY(parse_arguments(p, &f->b));
    *out = f;
  }
  return NULL;
}

static bool begins_argument(const parser *p) {
  token_kind k = p->at->kind;
  if (k == TOKEN_NAME) return !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and");
  return k == TOKEN_STRING || k == TOKEN_INTEGER || k == TOKEN_FLOAT || at_operator(p, "[") ||
         at_operator(p, "{");
}

static clave_status parse_test(parser *p, node *of, node **out) {
  bool is_not;
  p->at++;
  is_not = skip_name(p, "not");
  node *t;
  TRY(new_node(p, NODE_TEST, p->at, &t));
  t->a = of;
  TRY(parse_dotted(p, &t->name));
  t->op = (int16_t)test_index(t->name);
  if (t->op == -2)
    return error_at(t, STATUS_UNSUPPORTED, "the test '%s' is not supported", t->name);
  if (t->op < 0 && !p->soft) return error_at(t, STATUS_INVALID, "no test '%s'", t->name);
  if (at_operator(p, "(")) {
    TRY(parse_arguments(p, &t->b));
  } else if (begins_argument(p)) {
    if (at_name(p, "is")) return parse_error(p, "tests with is cannot be chained");
    TRY(parse_primary(p, &t->b));
    TRY(parse_postfix(p, &t->b));
  }
  *out = t;
  if (!is_not) return NULL;
  TRY(new_node(p, NODE_NOT, p->at, out));
  (*out)->a = t;
  return NULL;
}

static clave_status parse_filters_and_tests(parser *p, node **n) {
  for (;;) {
    if (at_operator(p, "|")) {
      TRY(parse_filters(p, *n, false, n));
    } else if (at_name(p, "is")) {
      TRY(parse_test(p, *n, n));
    } else if (at_operator(p, "(")) {
      TRY(parse_call(p, *n, n));
    } else {
      return NULL;
    }
  }
}

/* ---------------------------------------------------------------- operators */

static clave_status parse_sign(parser *p, node **out) {
  const token *at = p->at++;
  TRY(new_node(p, NODE_UNARY, at, out));
  (*out)->op = *at->text.data;
  TRY(enter(p));
  TRY(parse_unary(p, false, &(*out)->a));
  p->depth--;
  return NULL;
}

static clave_status parse_unary(parser *p, bool with_filter, node **out) {
  if (at_operator(p, "-") || at_operator(p, "+")) {
    TRY(parse_sign(p, out));
  } else {
    TRY(parse_primary(p, out));
  }
  TRY(parse_postfix(p, out));
  return with_filter ? parse_filters_and_tests(p, out) : NULL;
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

static bool take_operator(parser *p, const operator_name *names, int *op) {
  for (; names->text; names++) {
    if (!skip_operator(p, names->text)) continue;
    *op = (int)names->op;
    return true;
  }
  return false;
}

static clave_status parse_concat(parser *p, node **out);
static clave_status parse_filtered(parser *p, node **out) { return parse_unary(p, true, out); }
static clave_status parse_chain(parser *p, const operator_name *names,
                                clave_status (*next)(parser *, node **), node **out) {
  int op;
  TRY(next(p, out));
  while (take_operator(p, names, &op)) {
    node *right;
    TRY(next(p, &right));
    TRY(binary(p, NODE_BINARY, op, *out, right, out));
  }
  return NULL;
}
static clave_status parse_power(parser *p, node **out) {
  return parse_chain(p, powers, parse_filtered, out);
}
static clave_status parse_product(parser *p, node **out) {
  return parse_chain(p, products, parse_power, out);
}
static clave_status parse_sum(parser *p, node **out) {
  return parse_chain(p, sums, parse_concat, out);
}

static clave_status parse_concat(parser *p, node **out) {
  TRY(parse_product(p, out));
  if (!at_operator(p, "~")) return NULL;
  node *first = *out, *last = first;
  while (skip_operator(p, "~")) {
    TRY(parse_product(p, &last->next));
    last = last->next;
  }
  TRY(new_node(p, NODE_CONCAT, p->at, out));
  (*out)->line = first->line;
  (*out)->column = first->column;
  (*out)->a = first;
  return NULL;
}

static bool take_comparison(parser *p, int *op) {
  if (take_operator(p, comparisons, op)) return true;
  if (skip_name(p, "in")) {
    *op = OP_IN;
    return true;
  }
  if (!at_name(p, "not") || p->at[1].kind != TOKEN_NAME || p->at[1].text.size != 2 ||
      memcmp(p->at[1].text.data, "in", 2) != 0)
    return false;
  p->at += 2;
  *op = OP_NOT_IN;
  return true;
}

static clave_status parse_comparison(parser *p, node **out) {
  int op;
  node *operands = NULL, **last = &operands;
  const token *at = p->at;
  TRY(parse_sum(p, out));
  while (take_comparison(p, &op)) {
    TRY(new_node(p, NODE_OPERAND, p->at, last));
    (*last)->op = (int16_t)op;
    TRY(parse_sum(p, &(*last)->a));
    last = &(*last)->next;
  }
  if (!operands) return NULL;
  node *first = *out;
  TRY(new_node(p, NODE_COMPARE, at, out));
  (*out)->a = first;
  (*out)->b = operands;
  return NULL;
}

static clave_status parse_not(parser *p, node **out) {
  const token *at = p->at;
  if (!skip_name(p, "not")) return parse_comparison(p, out);
  TRY(new_node(p, NODE_NOT, at, out));
  TRY(enter(p));
  TRY(parse_not(p, &(*out)->a));
  p->depth--;
  return NULL;
}

static clave_status parse_and(parser *p, node **out) {
  TRY(parse_not(p, out));
  while (skip_name(p, "and")) {
    node *right;
    TRY(parse_not(p, &right));
    TRY(binary(p, NODE_AND, 0, *out, right, out));
  }
  return NULL;
}

static clave_status parse_or(parser *p, node **out) {
  TRY(parse_and(p, out));
  while (skip_name(p, "or")) {
    node *right;
    TRY(parse_and(p, &right));
    TRY(binary(p, NODE_OR, 0, *out, right, out));
  }
  return NULL;
}

static clave_status parse_cond(parser *p, node **out) {
  bool soft = p->soft;
  TRY(parse_or(p, out));
  while (skip_name(p, "if")) {
    node *condition, *otherwise = NULL;
    p->soft = true;
    TRY(parse_or(p, &condition));
    if (skip_name(p, "else")) TRY(parse_expression(p, true, &otherwise));
    p->soft = soft;
    TRY(binary(p, NODE_COND, 0, condition, *out, out));
    (*out)->c = otherwise;
  }
  return NULL;
}

clave_status parse_expression(parser *p, bool with_cond, node **out) {
  TRY(enter(p));
  TRY(with_cond ? parse_cond(p, out) : parse_or(p, out));
  p->depth--;
  return NULL;
}

/* ---------------------------------------------------------------- targets */

static clave_status parse_one_target(parser *p, bool with_namespace, node **out) {
  const token *name;
  TRY(expect_name(p, &name));
  static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    if (name->text.size == strlen(constants[i]) &&
        memcmp(name->text.data, constants[i], name->text.size) == 0)
      return parse_error(p, "%s cannot be assigned to", constants[i]);
  }
  if (p->within_loops && name->text.size == 4 && memcmp(name->text.data, "loop", 4) == 0)
    return parse_error(p, "loop cannot be assigned to within a loop");
  bool member = with_namespace && at_operator(p, ".");
  TRY(new_node(p, member ? NODE_MEMBER : NODE_NAME, name, out));
  TRY(copy_name(p, name, &(*out)->name));
  if (!member) return NULL;
  p->at++;
  TRY(expect_name(p, &name));
  return make_string(&p->arena, name->text.data, name->text.size, &(*out)->constant);
}

static clave_status parse_target_item(parser *p, bool with_namespace, node **out) {
  if (!skip_operator(p, "(")) return parse_one_target(p, with_namespace, out);
  TRY(enter(p));
  TRY(parse_target(p, with_namespace, out));
  p->depth--;
  return expect_operator(p, ")");
}

clave_status parse_target(parser *p, bool with_namespace, node **out) {
  const token *begin = p->at;
  node *items = NULL, **last = &items;
  TRY(parse_target_item(p, with_namespace, last));
  if (!at_operator(p, ",")) {
    *out = items;
    return NULL;
  }
  while (skip_operator(p, ",")) {
    last = &(*last)->next;
    if (p->at->kind != TOKEN_NAME && !at_operator(p, "(")) break;
    if (at_name(p, "in")) return parse_error(p, "expected another name");
    TRY(parse_target_item(p, with_namespace, last));
  }
  TRY(new_node(p, NODE_TUPLE, begin, out));
  (*out)->a = items;
  return NULL;
}
