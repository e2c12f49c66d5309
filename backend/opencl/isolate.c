/* The text of a kernel as part of a larger one: a function, all of whose names at file scope and
 * macros begin with a prefix of its own, so that kernels of the same files with other macros lie in
 * one program. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "base/ascii.h"

/* Names, sorted once they are all there. */
typedef struct name_list {
  span *items; /* owned; what they point to is the text's */
  size_t n, capacity;
  bool failed;
} name_list;

typedef struct isolation {
  const char *prefix;
  name_list names;  /* declared at file scope, or macros */
  name_list pasted; /* what names that are put together by ## begin with */
} isolation;

static void add_name(name_list *l, span name) {
  if (!array_reserve(&l->items, &l->capacity, l->n + 1, sizeof *l->items)) {
    l->failed = true;
    return;
  }
  l->items[l->n++] = name;
}

static int compare_names(const void *a, const void *b) {
  const span *x = a, *y = b;
  const int by = memcmp(x->data, y->data, x->size < y->size ? x->size : y->size);
  return by ? by : (x->size > y->size) - (x->size < y->size);
}

static void sort_names(name_list *l) {
  if (l->n) qsort(l->items, l->n, sizeof *l->items, compare_names);
}

static bool has_name(const name_list *l, span name) {
  return l->n && bsearch(&name, l->items, l->n, sizeof *l->items, compare_names);
}

static bool is_word(span s, const char *word) {
  return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

/* ---------------------------------------------------------------- tokens */

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_SPACE, TOKEN_OTHER } token_kind;

static bool is_name_char(char c) { return is_ascii_alnum(c) || c == '_'; }

/* Numbers are OTHER as a whole, so that their suffixes are no names; so are strings. */
static token_kind next_token(const char *at, span *token) {
  const char *end = at;
  token_kind kind = TOKEN_OTHER;
  if (!*at) {
    kind = TOKEN_END;
  } else if (is_ascii_space(*at)) {
    kind = TOKEN_SPACE;
    while (is_ascii_space(*end)) end++;
  } else if (is_ascii_digit(*at)) {
    while (is_name_char(*end) || *end == '.') end++;
  } else if (is_name_char(*at)) {
    kind = TOKEN_NAME;
    while (is_name_char(*end)) end++;
  } else if (*at == '"') {
    for (end++; *end && *end != '"'; end++)
      if (*end == '\\' && end[1]) end++;
    if (*end) end++;
  } else {
    end++;
  }
  *token = (span){at, (size_t)(end - at)};
  return kind;
}

static const char *skip_spaces(const char *at) {
  while (is_ascii_space(*at)) at++;
  return at;
}

/* ---------------------------------------------------------------- lines */

/* What is left of a text without its comments. */
static void append_code(const char *at, text *out) {
  while (*at) {
    const char *open = strchr(at, '/');
    if (!open) open = at + strlen(at);
    text_append(out, at, (size_t)(open - at));
    at = open;
    if (at[0] == '/' && at[1] == '*') {
      const char *close = strstr(at + 2, "*/");
      at = close ? close + 2 : at + strlen(at);
      text_append(out, " ", 1);
    } else if (at[0] == '/' && at[1] == '/') {
      at += strcspn(at, "\n");
    } else if (*at) {
      text_append(out, at++, 1);
    }
  }
}

/* left_out: a header's text, which is there as often as it is included. */
static void append_without(const char *at, const char *left_out, text *out) {
  text rest = {0};
  for (const char *found; *left_out && (found = strstr(at, left_out));
       at = found + strlen(left_out))
    text_append(&rest, at, (size_t)(found - at));
  text_puts(&rest, at);
  if (rest.failed)
    out->failed = 1;
  else if (rest.data)
    append_code(rest.data, out);
  text_free(&rest);
}

static bool begins(const char *line, const char *head) {
  return strncmp(line, head, strlen(head)) == 0;
}

/* Leaves blocks of `#if TEAM > 1` out, up to their #else or #endif. */
static void drop_teams(const char *at, text *out) {
  int depth = 0, team = 0; /* team: the depth of the block that is left out; 0: none */
  for (size_t n; *at; at += n) {
    n = strcspn(at, "\n");
    n += at[n] == '\n';
    if (begins(at, "#if")) depth++;
    if (!team && begins(at, "#if TEAM > 1")) {
      team = depth;
      text_puts(out, "#if 0\n");
    }
    if (team == depth && (begins(at, "#else") || begins(at, "#endif"))) team = 0;
    if (!team) text_append(out, at, n);
    if (begins(at, "#endif")) depth--;
  }
}

/* ---------------------------------------------------------------- what is declared */

/* The name behind `#define`. */
static void note_macro(isolation *s, const char *line) {
  static const char head[] = "#define ";
  span name;
  if (begins(line, head) && next_token(skip_spaces(line + sizeof head - 1), &name) == TOKEN_NAME)
    add_name(&s->names, name);
}

/* What a name that is pasted begins with: ours end with a line, but for those of built-in
 * functions. */
static void note_pasted(isolation *s, span name, const char *before, const char *begin) {
  static const char paste[] = "PASTE(";
  const size_t n = sizeof paste - 1;
  const bool is_first = (size_t)(before - begin) >= n && memcmp(before - n, paste, n) == 0;
  if (name.data[name.size - 1] != '_' || is_word(name, "convert_") || is_word(name, "as_")) return;
  if (is_first || begins(name.data + name.size, "##")) add_name(&s->pasted, name);
}

/* Where a text is read at. */
typedef struct scan {
  int braces, brackets; /* how deep */
  span last, before;    /* the name before, and what came before that, at depth 0 */
  bool is_typedef, after_tag;
} scan;

/* At file scope: a name in front of `(` that follows a type is a function's, one in front of `[` or
 * `=` a constant's. */
static void note_declared(isolation *s, scan *c, span name, const char *next) {
  static const char *const tags[] = {"struct", "union", "enum"};
  const bool is_tag = c->after_tag;
  const bool follows = c->before.size > 0;
  c->after_tag = false;
  for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
    if (is_word(name, tags[i])) c->after_tag = true;
  if (is_tag) add_name(&s->names, name);
  if (c->braces || c->brackets) return;
  if (is_word(name, "typedef")) c->is_typedef = true;
  if (follows && !c->is_typedef && (*next == '(' || *next == '[' || *next == '=') &&
      !begins(name.data, "__"))
    add_name(&s->names, name);
  c->last = name;
}

/* A sign outside of names. is_line: a line begins with it. */
static void note_sign(isolation *s, scan *c, span sign, bool is_line) {
  switch (*sign.data) {
    case '{':
      c->braces++;
      break;
    case '}': /* branches of #if may open a brace each; what is at file scope ends a line's start */
      c->braces = is_line ? 0 : c->braces - 1;
      if (is_line) c->brackets = 0;
      break;
    case '(':
    case '[':
      c->brackets++;
      break;
    case ')':
    case ']':
      c->brackets--;
      break;
    case ';':
      if (c->braces || c->brackets) break;
      if (c->is_typedef) add_name(&s->names, c->last);
      c->is_typedef = false;
      sign.size = 0;
      break;
    default:
      break;
  }
  if (!c->braces && !c->brackets) c->before = sign;
  if (*sign.data == '}' && !c->is_typedef) c->before.size = 0;
}

static const char *end_of_directive(const char *at) {
  for (; *at && *at != '\n'; at++)
    if (*at == '\\' && at[1]) at++;
  return at;
}

static void note_all(isolation *s, const char *code) {
  scan c = {0};
  bool is_line = true;
  const char *directive = code; /* up to here a directive goes, where nothing is declared */
  span token;
  for (const char *at = code;; at += token.size) {
    const token_kind kind = next_token(at, &token);
    if (kind == TOKEN_END) return;
    if (is_line && *at == '#') {
      note_macro(s, at);
      directive = end_of_directive(at);
    }
    if (kind == TOKEN_NAME) note_pasted(s, token, at, code);
    if (at >= directive && kind == TOKEN_NAME) {
      note_declared(s, &c, token, skip_spaces(at + token.size));
      if (!c.braces && !c.brackets) c.before = token;
    }
    if (at >= directive && kind == TOKEN_OTHER) note_sign(s, &c, token, is_line);
    is_line = kind == TOKEN_SPACE && at[token.size - 1] == '\n';
  }
}

/* ---------------------------------------------------------------- written */

static bool is_ours(const isolation *s, span name) {
  if (has_name(&s->names, name)) return true;
  for (size_t i = 0; i < s->pasted.n; i++) {
    const span *p = &s->pasted.items[i];
    if (p->size <= name.size && memcmp(p->data, name.data, p->size) == 0) return true;
  }
  return false;
}

/* Functions of a work-item's place in its group, and memory of groups: what has them is a kernel
 * for groups of one size. */
static bool is_of_groups(span name) {
  static const char *const words[] = {
      "get_local_id",      "get_group_id", "get_local_size", "get_num_groups", "get_global_size",
      "get_global_offset", "barrier",      "mem_fence",      "__local",        "local"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (is_word(name, words[i])) return true;
  return false;
}

/* Where the function that was a kernel lies: only it knows its work-item. */
static span find_kernel(const char *code, const char *kernel) {
  const char *from = strstr(code, kernel), *end = from ? strstr(from, "\n}") : NULL;
  return end ? (span){from, (size_t)(end - from)} : (span){code, 0};
}

static bool lies_within(const char *at, span part) {
  return at >= part.data && at < part.data + part.size;
}

/* False: the kernel wants groups of its own, or a function that it calls asks for the work-item. */
static bool write_code(const isolation *s, const char *code, span kernel, text *out) {
  span token;
  const char *directive = code;
  for (const char *at = code;; at += token.size) {
    const token_kind kind = next_token(at, &token);
    if (kind == TOKEN_END) return true;
    if (*at == '#' && at >= directive) directive = end_of_directive(at);
    const bool is_place = kind == TOKEN_NAME && is_word(token, "get_global_id");
    if (kind == TOKEN_NAME && is_of_groups(token)) return false;
    if (is_place && at >= directive && !lies_within(at, kernel)) return false;
    if (is_place)
      text_puts(out, "joined_");
    else if (kind == TOKEN_NAME && is_ours(s, token))
      text_puts(out, s->prefix);
    text_append(out, token.data, token.size);
  }
}

/* Macros of the options, ` -D NAME=VALUE`, as lines. */
static void write_macros(const char *options, text *out) {
  static const char define[] = " -D ";
  for (const char *at = options; (at = strstr(at, define));) {
    at += sizeof define - 1;
    const size_t n = strcspn(at, " "), name = strcspn(at, " =");
    if (name < n)
      text_printf(out, "#define %.*s %.*s\n", (int)name, at, (int)(n - name - 1), at + name + 1);
  }
}

/* The kernel's head as a function's, behind the place of its work-item. */
static void write_as_function(const char *code, const char *kernel, text *out) {
  text head = {0};
  text_printf(&head, "__kernel void %s(", kernel);
  const char *at = head.data ? strstr(code, head.data) : NULL;
  if (head.failed || !at) {
    out->failed = 1;
  } else {
    text_append(out, code, (size_t)(at - code));
    text_printf(out, "static inline void %s(const joined_place joined_at, ", kernel);
    text_puts(out, at + head.size);
  }
  text_free(&head);
}

/* Whether TEAM work-items of a group make a row. */
static bool shares_rows(const char *options) {
  static const char team[] = " -D TEAM=";
  const char *at = strstr(options, team);
  return at && strtol(at + sizeof team - 1, NULL, 10) > 1;
}

static void free_isolation(isolation *s) {
  free(s->names.items);
  free(s->pasted.items);
}

clave_status source_isolate(const isolated_kernel *k, const char *prefix, text *out,
                            bool *has_groups) {
  isolation s = {.prefix = prefix};
  text code = {0}, alone = {0}, all = {0}, head = {0};
  *has_groups = true;
  if (shares_rows(k->options)) return NULL; /* drop_teams would leave out how */
  append_without(k->source, k->left_out, &code);
  if (code.data) drop_teams(code.data, &alone);
  write_macros(k->options, &all);
  if (alone.data) write_as_function(alone.data, k->kernel, &all);
  text_puts(&all, k->behind);
  text_printf(&head, "static inline void %s(", k->kernel);
  clave_status st =
      code.failed || alone.failed || head.failed ? status_no_memory() : text_status(&all);
  if (!st) note_all(&s, all.data);
  if (!st && (s.names.failed || s.pasted.failed)) st = status_no_memory();
  sort_names(&s.names);
  if (!st) *has_groups = !write_code(&s, all.data, find_kernel(all.data, head.data), out);
  free_isolation(&s);
  text_free(&code);
  text_free(&alone);
  text_free(&all);
  text_free(&head);
  return st ? st : text_status(out);
}
