/* Statements, and a template as a whole. */
#include "jinja/parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* ---------------------------------------------------------------- nodes, tokens */

clave_status error_at(const node *n, status_code code, const char *format, ...) {
  text message = {0};
  va_list args;
  va_start(args, format);
  text_vprintf(&message, format, args);
  va_end(args);
  clave_status st = message.failed ? status_no_memory()
                                   : status_new(code, "line %u, column %u: %s", n->line, n->column,
                                                message.data ? message.data : "");
  text_free(&message);
  return st;
}

clave_status parse_error(const parser *p, const char *format, ...) {
  enum { SHOWN = 30 };
  text message = {0};
  va_list args;
  va_start(args, format);
  text_vprintf(&message, format, args);
  va_end(args);
  span s = p->at->text;
  clave_status st = status_no_memory();
  if (!message.failed && p->at->kind == TOKEN_END)
    st = INVALID("line %u, column %u: %s, at the template's end", p->at->line, p->at->column,
                 message.data);
  if (!message.failed && p->at->kind != TOKEN_END)
    st = INVALID("line %u, column %u: %s, at '%.*s'", p->at->line, p->at->column, message.data,
                 (int)(s.size < SHOWN ? s.size : SHOWN), s.data);
  text_free(&message);
  return st;
}

clave_status new_node(parser *p, node_kind kind, const token *at, node **out) {
  *out = mem_pool_alloc(p->t->pool, 1, sizeof **out);
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

static clave_status new_scope(parser *p, scope **out) {
  *out = mem_pool_alloc(p->t->pool, 1, sizeof **out);
  return *out ? NULL : status_no_memory();
}

clave_status copy_name(parser *p, const token *t, const char **out) {
  *out = mem_pool_strdup(p->t->pool, t->text.data, t->text.size);
  return *out ? NULL : status_no_memory();
}

static bool is_text(const token *t, token_kind kind, const char *s) {
  return t->kind == kind && t->text.size == strlen(s) && memcmp(t->text.data, s, t->text.size) == 0;
}
bool at_operator(const parser *p, const char *op) { return is_text(p->at, TOKEN_OPERATOR, op); }
bool at_name(const parser *p, const char *name) { return is_text(p->at, TOKEN_NAME, name); }

bool skip_operator(parser *p, const char *op) {
  bool is = at_operator(p, op);
  p->at += is;
  return is;
}
bool skip_name(parser *p, const char *name) {
  bool is = at_name(p, name);
  p->at += is;
  return is;
}
clave_status expect_operator(parser *p, const char *op) {
  return skip_operator(p, op) ? NULL : parse_error(p, "expected '%s'", op);
}
clave_status expect_name(parser *p, const token **out) {
  *out = p->at;
  if (p->at->kind != TOKEN_NAME) return parse_error(p, "expected a name");
  p->at++;
  return NULL;
}
static clave_status expect_end(parser *p) {
  if (p->at->kind != TOKEN_BLOCK_END) return parse_error(p, "expected the block's end");
  p->at++;
  return NULL;
}
clave_status enter(parser *p) {
  return ++p->depth > PARSE_MAX_DEPTH ? parse_error(p, "nested too deeply") : NULL;
}

/* ---------------------------------------------------------------- statements */

static clave_status parse_statement(parser *p, node **out);

/* Statements up to a block whose name is one of `ends`, at which the parser stands afterwards;
 * NULL: up to the template's end. */
static clave_status parse_body(parser *p, const char *const *ends, node **out) {
  for (; p->at->kind != TOKEN_END; out = &(*out)->next) {
    const token *begin = p->at;
    if (p->at->kind == TOKEN_DATA) {
      TRY(new_node(p, NODE_DATA, p->at++, out));
      TRY(make_string(&p->arena, begin->text.data, begin->text.size, &(*out)->constant));
      jinja_template *t = p->t;
      if (!array_reserve(&t->literals, &t->literal_capacity, t->n_literals + 1,
                         sizeof *t->literals))
        return status_no_memory();
      t->literals[t->n_literals++] = (*out)->constant.u.text;
    } else if (p->at->kind == TOKEN_PRINT_BEGIN) {
      p->at++;
      TRY(new_node(p, NODE_OUTPUT, begin, out));
      TRY(parse_tuple(p, true, NULL, false, &(*out)->a));
      if (p->at->kind != TOKEN_PRINT_END) return parse_error(p, "expected '}}'");
      p->at++;
    } else {
      p->at++;
      for (size_t i = 0; ends && ends[i]; i++) {
        if (at_name(p, ends[i])) return NULL;
      }
      TRY(enter(p));
      TRY(parse_statement(p, out));
      p->depth--;
      TRY(expect_end(p));
    }
  }
  return ends ? parse_error(p, "expected {%% %s %%}", ends[0]) : NULL;
}

/* A body up to `end`, from behind the block that it begins with. */
static clave_status parse_block(parser *p, const char *end, node **out) {
  TRY(expect_end(p));
  TRY(parse_body(p, (const char *const[]){end, NULL}, out));
  p->at++;
  return NULL;
}

static clave_status parse_for(parser *p, node *n) {
  bool soft = p->soft;
  p->soft = false;
  p->within_loops++;
  TRY(parse_target(p, false, &n->a));
  if (!skip_name(p, "in")) return parse_error(p, "expected in");
  TRY(parse_tuple(p, false, "recursive", false, &n->b));
  if (skip_name(p, "if")) TRY(parse_expression(p, true, &n->e));
  if (at_name(p, "recursive"))
    return error_at(n, STATUS_UNSUPPORTED, "recursive loops are not supported");
  TRY(new_scope(p, &n->scope));
  TRY(new_scope(p, &n->else_scope));
  TRY(new_scope(p, &n->test_scope));
  TRY(expect_end(p));
  p->loops++;
  TRY(parse_body(p, (const char *const[]){"endfor", "else", NULL}, &n->c));
  p->loops--;
  if (skip_name(p, "else")) {
    TRY(parse_block(p, "endfor", &n->d));
  } else {
    p->at++;
  }
  p->soft = soft;
  p->within_loops--;
  return NULL;
}

static clave_status parse_if(parser *p, node *n) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  node *branch = n, **elif = &n->c;
  bool soft = p->soft;
  p->soft = true;
  for (;;) {
    TRY(parse_tuple(p, false, NULL, false, &branch->a));
    TRY(expect_end(p));
    TRY(parse_body(p, ends, &branch->b));
    const token *at = p->at;
    if (!skip_name(p, "elif")) break;
    TRY(new_node(p, NODE_IF, at, elif));
    branch = *elif;
    elif = &branch->next;
  }
  if (skip_name(p, "else")) {
    TRY(parse_block(p, "endif", &n->d));
  } else {
    p->at++;
  }
  p->soft = soft;
  return NULL;
}

static clave_status parse_set(parser *p, node *n) {
  TRY(parse_target(p, true, &n->a));
  if (skip_operator(p, "=")) return parse_tuple(p, true, NULL, false, &n->b);
  n->kind = NODE_SET_BLOCK;
  TRY(parse_filters(p, NULL, false, &n->b));
  TRY(new_scope(p, &n->scope));
  return parse_block(p, "endset", &n->c);
}

/* Jinja2 refuses two parameters of a name, and `caller` without a default. */
static clave_status check_parameter(const parser *p, const node *all, const node *new,
                                    bool has_default) {
  if (!has_default && strcmp(new->name, "caller") == 0)
    return parse_error(p, "the parameter caller needs a default");
  for (const node *other = all; other != new; other = other->next)
    if (strcmp(other->name, new->name) == 0)
      return parse_error(p, "two parameters '%.100s'", new->name);
  return NULL;
}

static clave_status parse_signature(parser *p, node *n) {
  node **parameter = &n->a, **given = &n->b;
  TRY(expect_operator(p, "("));
  while (!at_operator(p, ")")) {
    if (n->a) TRY(expect_operator(p, ","));
    const token *name;
    TRY(expect_name(p, &name));
    TRY(new_node(p, NODE_NAME, name, parameter));
    TRY(copy_name(p, name, &(*parameter)->name));
    TRY(check_parameter(p, n->a, *parameter, at_operator(p, "=")));
    parameter = &(*parameter)->next;
    if (skip_operator(p, "=")) {
      TRY(parse_expression(p, true, given));
      given = &(*given)->next;
    } else if (n->b) {
      return parse_error(p, "a parameter without a default follows one that has one");
    }
  }
  return expect_operator(p, ")");
}

static clave_status parse_macro_body(parser *p, node *n, const char *end) {
  bool soft = p->soft;
  int loops = p->loops;
  p->soft = false;
  p->loops = 0;
  TRY(new_scope(p, &n->scope));
  TRY(parse_block(p, end, &n->c));
  p->soft = soft;
  p->loops = loops;
  return NULL;
}

static clave_status parse_macro(parser *p, node *n) {
  const token *name;
  TRY(expect_name(p, &name));
  TRY(copy_name(p, name, &n->name));
  TRY(parse_signature(p, n));
  return parse_macro_body(p, n, "endmacro");
}

static clave_status parse_call_block(parser *p, node *n) {
  TRY(new_node(p, NODE_MACRO, p->at, &n->b));
  n->b->name = "caller";
  if (at_operator(p, "(")) TRY(parse_signature(p, n->b));
  TRY(parse_expression(p, true, &n->a));
  if (n->a->kind != NODE_CALL) return parse_error(p, "expected a call");
  return parse_macro_body(p, n->b, "endcall");
}

/* A generation block is Jinja's call block, without the call: a function of its own. */
static clave_status parse_generation(parser *p, node *n) {
  TRY(new_node(p, NODE_MACRO, p->at, &n->b));
  n->b->name = "generation";
  return parse_macro_body(p, n->b, "endgeneration");
}

static clave_status parse_filter_block(parser *p, node *n) {
  TRY(parse_filters(p, NULL, true, &n->b));
  TRY(new_scope(p, &n->scope));
  return parse_block(p, "endfilter", &n->c);
}

static clave_status parse_with(parser *p, node *n) {
  node **target = &n->a, **given = &n->b;
  while (p->at->kind != TOKEN_BLOCK_END) {
    if (n->a) TRY(expect_operator(p, ","));
    TRY(parse_target(p, false, target));
    TRY(expect_operator(p, "="));
    TRY(parse_expression(p, true, given));
    target = &(*target)->next;
    given = &(*given)->next;
  }
  TRY(new_scope(p, &n->scope));
  return parse_block(p, "endwith", &n->c);
}

static clave_status parse_print(parser *p, node *n) {
  TRY(parse_expression(p, true, &n->a));
  if (!at_operator(p, ",")) return NULL;
  return error_at(n, STATUS_UNSUPPORTED, "{%% print %%} of several values is not supported");
}

static clave_status parse_jump(parser *p, node *n) {
  return p->loops ? NULL
                  : error_at(n, STATUS_INVALID, "%s outside of a loop",
                             n->kind == NODE_BREAK ? "break" : "continue");
}

static const struct {
  const char *name;
  node_kind kind;
  clave_status (*parse)(parser *p, node *n); /* NULL: refused */
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

static clave_status parse_statement(parser *p, node **out) {
  const token *at = p->at;
  if (at->kind != TOKEN_NAME) return parse_error(p, "expected a statement");
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
    if (!at_name(p, statements[i].name)) continue;
    TRY(new_node(p, statements[i].kind, at, out));
    if (!statements[i].parse)
      return error_at(*out, STATUS_UNSUPPORTED, "{%% %s %%} is not supported", statements[i].name);
    p->at++;
    return statements[i].parse(p, *out);
  }
  return parse_error(p, "no such statement");
}

/* ---------------------------------------------------------------- templates */

/* Jinja2 makes "\n" of all line ends and drops one at the end. */
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

static clave_status parse_tokens(jinja_template *t, const token_list *tokens) {
  parser p = {.t = t,
              .arena = {.pool = t->pool, .limit = JINJA_MAX_MEMORY, .steps = JINJA_MAX_STEPS},
              .at = tokens->items};
  TRY(parse_body(&p, NULL, &t->body));
  return resolve_names(t, &p.arena);
}

static clave_status parse_source(jinja_template *t, const char *source, size_t size) {
  enum { MAX_SOURCE = 4 << 20 };
  span normal;
  if (size > MAX_SOURCE) return INVALID("a template of %zu bytes; at most %d", size, MAX_SOURCE);
  if (!utf8_valid(source, size)) return INVALID("the template is not UTF-8");
  TRY(mem_pool_create(&t->pool));
  TRY(normalize(t->pool, source, size, &normal));
  token_list tokens = {0};
  clave_status st = lex_template(normal, &tokens);
  if (!st) st = parse_tokens(t, &tokens);
  free(tokens.items);
  return st;
}

clave_status jinja_parse(const char *source, size_t size, jinja_template **out) {
  *out = NULL;
  jinja_template *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  clave_status st = parse_source(t, source, size);
  if (st) {
    jinja_destroy(t);
    return st;
  }
  *out = t;
  return NULL;
}

void jinja_destroy(jinja_template *t) {
  if (!t) return;
  mem_pool_destroy(t->pool);
  free(t->literals);
  free(t);
}

const char *jinja_literal(const jinja_template *t, size_t index, size_t *size) {
  if (index >= t->n_literals) return NULL;
  *size = t->literals[index]->size;
  return t->literals[index]->data;
}
