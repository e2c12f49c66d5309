/* Parses statements and whole templates. */
#include "jinja/parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* ---------------------------------------------------------------- nodes, tokens */

clave_status error_at(const node *node, status_code code, const char *format, ...) {
  text message = {0};
  va_list args;
  va_start(args, format);
  text_vprintf(&message, format, args);
  va_end(args);
  clave_status st = message.failed ? status_no_memory()
                                   : status_new(code, "line %u, column %u: %s", node->line,
                                                node->column, message.data ? message.data : "");
  text_free(&message);
  return st;
}

clave_status parse_error(const parser *parser, const char *format, ...) {
  enum { SHOWN = 30 };
  text message = {0};
  va_list args;
  va_start(args, format);
  text_vprintf(&message, format, args);
  va_end(args);
  span span = parser->at->text;
  clave_status st = status_no_memory();
  if (!message.failed && parser->at->kind == TOKEN_END)
    st = INVALID("line %u, column %u: %s, at the template's end", parser->at->line,
                 parser->at->column, message.data);
  if (!message.failed && parser->at->kind != TOKEN_END)
    st = INVALID("line %u, column %u: %s, at '%.*s'", parser->at->line, parser->at->column,
                 message.data, (int)(span.size < SHOWN ? span.size : SHOWN), span.data);
  text_free(&message);
  return st;
}

clave_status new_node(parser *parser, node_kind kind, const token *at, node **out) {
  *out = mem_pool_alloc(parser->template->pool, 1, sizeof **out);
  if (!*out) return status_no_memory();
  **out = (node){.kind = (uint8_t)kind,
                 .line = at->line,
                 .column = at->column,
                 .slot = SLOT_NONE,
                 .loop = SLOT_NONE,
                 .caller = SLOT_NONE,
                 .kwargs = SLOT_NONE,
                 .varargs = SLOT_NONE};
  return NULL;
}

static clave_status new_scope(parser *parser, scope **out) {
  *out = mem_pool_alloc(parser->template->pool, 1, sizeof **out);
  return *out ? NULL : status_no_memory();
}

clave_status copy_name(parser *parser, const token *token, const char **out) {
  *out = mem_pool_strdup(parser->template->pool, token->text.data, token->text.size);
  return *out ? NULL : status_no_memory();
}

static bool parser_is_text(const token *token, token_kind kind, const char *text) {
  return token->kind == kind && token->text.size == strlen(text) &&
         memcmp(token->text.data, text, token->text.size) == 0;
}
bool at_operator(const parser *parser, const char *op) {
  return parser_is_text(parser->at, TOKEN_OPERATOR, op);
}
bool at_name(const parser *parser, const char *name) {
  return parser_is_text(parser->at, TOKEN_NAME, name);
}

bool skip_operator(parser *parser, const char *op) {
  bool is = at_operator(parser, op);
  parser->at += is;
  return is;
}
bool skip_name(parser *parser, const char *name) {
  bool is = at_name(parser, name);
  parser->at += is;
  return is;
}
clave_status expect_operator(parser *parser, const char *op) {
  return skip_operator(parser, op) ? NULL : parse_error(parser, "expected '%s'", op);
}
clave_status expect_name(parser *parser, const token **out) {
  *out = parser->at;
  if (parser->at->kind != TOKEN_NAME) return parse_error(parser, "expected a name");
  parser->at++;
  return NULL;
}
static clave_status expect_end(parser *parser) {
  if (parser->at->kind != TOKEN_BLOCK_END) return parse_error(parser, "expected the block's end");
  parser->at++;
  return NULL;
}
clave_status enter(parser *parser) {
  return ++parser->depth > PARSE_MAX_DEPTH
             ? parse_error(parser, "the template is nested too deeply")
             : NULL;
}

/* ---------------------------------------------------------------- statements */

static clave_status parse_statement(parser *parser, node **out);

/* Parses statements up to a block named in `ends`, and stops there. If `ends` is NULL, parses up to
 * the template's end. */
static clave_status parse_body(parser *parser, const char *const *ends, node **out) {
  for (; parser->at->kind != TOKEN_END; out = &(*out)->next) {
    const token *begin = parser->at;
    if (parser->at->kind == TOKEN_DATA) {
      TRY(new_node(parser, NODE_DATA, parser->at++, out));
      TRY(make_string(&parser->arena, begin->text.data, begin->text.size, &(*out)->constant));
      jinja_template *template = parser->template;
      if (!array_reserve(&template->literals, &template->literal_capacity, template->n_literals + 1,
                         sizeof *template->literals))
        return status_no_memory();
      template->literals[template->n_literals++] = (*out)->constant.u.text;
    } else if (parser->at->kind == TOKEN_PRINT_BEGIN) {
      parser->at++;
      TRY(new_node(parser, NODE_OUTPUT, begin, out));
      TRY(parse_tuple(parser, true, NULL, false, &(*out)->a));
      if (parser->at->kind != TOKEN_PRINT_END) return parse_error(parser, "expected '}}'");
      parser->at++;
    } else {
      parser->at++;
      for (size_t i = 0; ends && ends[i]; i++) {
        if (at_name(parser, ends[i])) return NULL;
      }
      TRY(enter(parser));
      TRY(parse_statement(parser, out));
      parser->depth--;
      TRY(expect_end(parser));
    }
  }
  return ends ? parse_error(parser, "expected {%% %s %%}", ends[0]) : NULL;
}

/* Parses a body up to `end`, starting after the name and arguments of its opening block. */
static clave_status parse_block(parser *parser, const char *end, node **out) {
  TRY(expect_end(parser));
  TRY(parse_body(parser, (const char *const[]){end, NULL}, out));
  parser->at++;
  return NULL;
}

static clave_status parse_for(parser *parser, node *node) {
  bool lenient = parser->lenient;
  parser->lenient = false;
  parser->within_loops++;
  TRY(parse_target(parser, false, &node->a));
  if (!skip_name(parser, "in")) return parse_error(parser, "expected in");
  TRY(parse_tuple(parser, false, "recursive", false, &node->b));
  if (skip_name(parser, "if")) TRY(parse_expression(parser, true, &node->e));
  if (at_name(parser, "recursive"))
    return error_at(node, STATUS_UNSUPPORTED, "recursive loops are not supported");
  TRY(new_scope(parser, &node->scope));
  TRY(new_scope(parser, &node->else_scope));
  TRY(new_scope(parser, &node->test_scope));
  TRY(expect_end(parser));
  parser->loops++;
  TRY(parse_body(parser, (const char *const[]){"endfor", "else", NULL}, &node->c));
  parser->loops--;
  if (skip_name(parser, "else")) {
    TRY(parse_block(parser, "endfor", &node->d));
  } else {
    parser->at++;
  }
  parser->lenient = lenient;
  parser->within_loops--;
  return NULL;
}

static clave_status parse_if(parser *parser, node *op_node) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  node *branch = op_node, **elif = &op_node->c;
  bool lenient = parser->lenient;
  parser->lenient = true;
  for (;;) {
    TRY(parse_tuple(parser, false, NULL, false, &branch->a));
    TRY(expect_end(parser));
    TRY(parse_body(parser, ends, &branch->b));
    const token *at = parser->at;
    if (!skip_name(parser, "elif")) break;
    TRY(new_node(parser, NODE_IF, at, elif));
    branch = *elif;
    elif = &branch->next;
  }
  if (skip_name(parser, "else")) {
    TRY(parse_block(parser, "endif", &op_node->d));
  } else {
    parser->at++;
  }
  parser->lenient = lenient;
  return NULL;
}

static clave_status parse_set(parser *parser, node *node) {
  TRY(parse_target(parser, true, &node->a));
  if (skip_operator(parser, "=")) return parse_tuple(parser, true, NULL, false, &node->b);
  node->kind = NODE_SET_BLOCK;
  TRY(parse_filters(parser, NULL, false, &node->b));
  TRY(new_scope(parser, &node->scope));
  return parse_block(parser, "endset", &node->c);
}

/* Rejects duplicate parameters and a parameter `caller` without a default, as Jinja2 does. */
static clave_status parser_check_parameter(const parser *parser, const node *all, const node *new,
                                           bool has_default) {
  if (!has_default && strcmp(new->name, "caller") == 0)
    return parse_error(parser, "the parameter caller needs a default");
  for (const node *other = all; other != new; other = other->next)
    if (strcmp(other->name, new->name) == 0)
      return parse_error(parser, "the parameter '%.100s' appears twice", new->name);
  return NULL;
}

static clave_status parse_signature(parser *parser, node *op_node) {
  node **parameter = &op_node->a, **given = &op_node->b;
  TRY(expect_operator(parser, "("));
  while (!at_operator(parser, ")")) {
    if (op_node->a) TRY(expect_operator(parser, ","));
    const token *name;
    TRY(expect_name(parser, &name));
    TRY(new_node(parser, NODE_NAME, name, parameter));
    TRY(copy_name(parser, name, &(*parameter)->name));
    TRY(parser_check_parameter(parser, op_node->a, *parameter, at_operator(parser, "=")));
    parameter = &(*parameter)->next;
    if (skip_operator(parser, "=")) {
      TRY(parse_expression(parser, true, given));
      given = &(*given)->next;
    } else if (op_node->b) {
      return parse_error(parser,
                         "a parameter without a default follows a parameter with a default");
    }
  }
  return expect_operator(parser, ")");
}

static clave_status parse_macro_body(parser *parser, node *node, const char *end) {
  bool lenient = parser->lenient;
  int loops = parser->loops;
  parser->lenient = false;
  parser->loops = 0;
  TRY(new_scope(parser, &node->scope));
  TRY(parse_block(parser, end, &node->c));
  parser->lenient = lenient;
  parser->loops = loops;
  return NULL;
}

static clave_status parse_macro(parser *parser, node *node) {
  const token *name;
  TRY(expect_name(parser, &name));
  TRY(copy_name(parser, name, &node->name));
  TRY(parse_signature(parser, node));
  return parse_macro_body(parser, node, "endmacro");
}

static clave_status parse_call_block(parser *parser, node *node) {
  TRY(new_node(parser, NODE_MACRO, parser->at, &node->b));
  node->b->name = "caller";
  if (at_operator(parser, "(")) TRY(parse_signature(parser, node->b));
  TRY(parse_expression(parser, true, &node->a));
  if (node->a->kind != NODE_CALL) return parse_error(parser, "expected a call");
  return parse_macro_body(parser, node->b, "endcall");
}

/* Parses a generation block, which is Jinja2's call block without the call: its body is a
 * function. */
static clave_status parse_generation(parser *parser, node *node) {
  TRY(new_node(parser, NODE_MACRO, parser->at, &node->b));
  node->b->name = "generation";
  return parse_macro_body(parser, node->b, "endgeneration");
}

static clave_status parse_filter_block(parser *parser, node *node) {
  TRY(parse_filters(parser, NULL, true, &node->b));
  TRY(new_scope(parser, &node->scope));
  return parse_block(parser, "endfilter", &node->c);
}

static clave_status parse_with(parser *parser, node *op_node) {
  node **target = &op_node->a, **given = &op_node->b;
  while (parser->at->kind != TOKEN_BLOCK_END) {
    if (op_node->a) TRY(expect_operator(parser, ","));
    TRY(parse_target(parser, false, target));
    TRY(expect_operator(parser, "="));
    TRY(parse_expression(parser, true, given));
    target = &(*target)->next;
    given = &(*given)->next;
  }
  TRY(new_scope(parser, &op_node->scope));
  return parse_block(parser, "endwith", &op_node->c);
}

static clave_status parse_print(parser *parser, node *node) {
  TRY(parse_expression(parser, true, &node->a));
  if (!at_operator(parser, ",")) return NULL;
  return error_at(node, STATUS_UNSUPPORTED, "{%% print %%} of several values is not supported");
}

static clave_status parse_jump(parser *parser, node *node) {
  return parser->loops ? NULL
                       : error_at(node, STATUS_INVALID, "%s outside of a loop",
                                  node->kind == NODE_BREAK ? "break" : "continue");
}

static const struct {
  const char *name;
  node_kind kind;
  clave_status (*parse)(parser *parser, node *node); /* NULL if not supported */
} statements[] = {{"set", NODE_SET, parse_set},
                  {"if", NODE_IF, parse_if},
                  {"for", NODE_FOR, parse_for},
                  {"macro", NODE_MACRO, parse_macro},
                  {"call", NODE_CALL_BLOCK, parse_call_block},
                  {"filter", NODE_FILTER_BLOCK, parse_filter_block},
                  {"with", NODE_WITH, parse_with},
                  {"print", NODE_OUTPUT, parse_print},
                  {"generation", NODE_GENERATION, parse_generation},
                  {"break", NODE_BREAK, parse_jump},
                  {"continue", NODE_CONTINUE, parse_jump},
                  {"include", NODE_DATA, NULL},
                  {"import", NODE_DATA, NULL},
                  {"from", NODE_DATA, NULL},
                  {"extends", NODE_DATA, NULL},
                  {"block", NODE_DATA, NULL},
                  {"autoescape", NODE_DATA, NULL}};

static clave_status parse_statement(parser *parser, node **out) {
  const token *at = parser->at;
  if (at->kind != TOKEN_NAME) return parse_error(parser, "expected a statement");
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
    if (!at_name(parser, statements[i].name)) continue;
    TRY(new_node(parser, statements[i].kind, at, out));
    if (!statements[i].parse)
      return error_at(*out, STATUS_UNSUPPORTED, "{%% %s %%} is not supported", statements[i].name);
    parser->at++;
    return statements[i].parse(parser, *out);
  }
  return parse_error(parser, "unknown statement");
}

/* ---------------------------------------------------------------- templates */

/* Converts all line ends to "\n" and drops one at the end, like Jinja2. */
static clave_status normalize(mem_pool *pool, const char *source, size_t size, span *out) {
  char *copy = mem_pool_strdup(pool, source, size);
  size_t n = 0;
  if (!copy) return status_no_memory();
  for (size_t i = 0; i < size; i++) {
    bool cr = source[i] == '\r';
    copy[n++] = cr ? '\n' : source[i];
    if (cr && i + 1 < size && source[i + 1] == '\n') i++;
  }
  if (n && copy[n - 1] == '\n') n--;
  *out = (span){copy, n};
  return NULL;
}

static clave_status parse_tokens(jinja_template *template, const token_list *tokens) {
  parser parser = {
      .template = template,
      .arena = {.pool = template->pool, .limit = JINJA_MAX_MEMORY, .steps = JINJA_MAX_STEPS},
      .at = tokens->items};
  TRY(parse_body(&parser, NULL, &template->body));
  return resolve_names(template, &parser.arena);
}

static clave_status parse_source(jinja_template *template, const char *source, size_t size) {
  enum { MAX_SOURCE = 4 << 20 };
  span normal;
  if (size > MAX_SOURCE)
    return INVALID("the template has %zu bytes: expected at most %d", size, MAX_SOURCE);
  if (!utf8_valid(source, size)) return INVALID("the template is not valid UTF-8");
  TRY(mem_pool_create(&template->pool));
  TRY(normalize(template->pool, source, size, &normal));
  token_list tokens = {0};
  clave_status st = lex_template(normal, &tokens);
  if (!st) st = parse_tokens(template, &tokens);
  free(tokens.items);
  return st;
}

clave_status jinja_parse(const char *source, size_t size, jinja_template **out) {
  *out = NULL;
  jinja_template *template = calloc(1, sizeof *template);
  if (!template) return status_no_memory();
  clave_status st = parse_source(template, source, size);
  if (st) {
    jinja_destroy(template);
    return st;
  }
  *out = template;
  return NULL;
}

void jinja_destroy(jinja_template *template) {
  if (!template) return;
  mem_pool_destroy(template->pool);
  free(template->literals);
  free(template);
}

const char *jinja_literal(const jinja_template *template, size_t index, size_t *size) {
  if (index >= template->n_literals) return NULL;
  *size = template->literals[index]->size;
  return template->literals[index]->data;
}
