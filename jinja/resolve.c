/* Which slot each name stands for. As in Jinja2 a scope (the template, a macro, a loop's body, ...)
 * is looked through as a whole before anything in it runs: a name that it assigns is its own, and
 * begins as the outer one of that name, as the context's, or as undefined. Ifs are no scopes. */
#include <stdlib.h>
#include <string.h>

#include "jinja/ast.h"

enum { RESOLVE_MAX_DEPTH = 900 };

typedef struct function {
  uint32_t level, n_slots;
} function;

typedef struct frame {
  struct frame *parent;
  function *function;
  scope *scope; /* complete once its names were collected */
} frame;

typedef struct resolver {
  arena *arena;
  int depth;
} resolver;

static clave_status go_deeper(resolver *r, const node *n) {
  if (++r->depth > RESOLVE_MAX_DEPTH) return error_at(n, STATUS_INVALID, "nested too deeply");
  return NULL;
}

static load *find_load(const scope *s, const char *name) {
  for (size_t i = 0; i < s->count; i++) {
    if (strcmp(s->loads[i].name, name) == 0) return &s->loads[i];
  }
  return NULL;
}

/* In the frames around `f`; *level: how many functions up. */
static const load *find_outer(const frame *f, const char *name, uint32_t *level) {
  uint32_t own = f->function->level;
  for (f = f->parent; f; f = f->parent) {
    const load *l = find_load(f->scope, name);
    *level = own - f->function->level;
    if (l) return l;
  }
  return NULL;
}

/* ---------------------------------------------------------------- the names of a scope */

/* Names while they are collected: those of branches are copies of those before. A name has the same
 * slot in all: `slots` are the ones of the frame. */
typedef struct names {
  frame *frame;
  scope *slots;
  scope now;
} names;

static clave_status add_load(resolver *r, scope *s, load l, load **out) {
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 8;
    load *grown;
    TRY(arena_alloc(r->arena, capacity, sizeof *grown, &grown));
    if (s->count) memcpy(grown, s->loads, s->count * sizeof *grown);
    s->loads = grown;
    s->capacity = capacity;
  }
  s->loads[s->count] = l;
  *out = &s->loads[s->count++];
  return NULL;
}

static clave_status define(resolver *r, names *n, load l) {
  load *known = find_load(n->slots, l.name), *own = find_load(&n->now, l.name);
  if (!known) {
    l.slot = n->frame->function->n_slots++;
    TRY(add_load(r, n->slots, l, &known));
  }
  l.slot = known->slot;
  if (!own) TRY(add_load(r, &n->now, l, &own));
  l.stored |= own->stored;
  *own = l;
  return NULL;
}

static clave_status load_name(resolver *r, names *n, const char *name) {
  uint32_t level;
  if (find_load(&n->now, name) || find_outer(n->frame, name, &level)) return NULL;
  return define(r, n, (load){.name = name, .kind = LOAD_CONTEXT});
}

static clave_status store_name(resolver *r, names *n, const char *name) {
  load *own = find_load(&n->now, name), l = {.name = name, .kind = LOAD_UNDEFINED, .stored = true};
  if (own) {
    own->stored = true;
    return NULL;
  }
  const load *outer = find_outer(n->frame, name, &l.level);
  if (outer) {
    l.kind = LOAD_ALIAS;
    l.from = outer->slot;
  }
  return define(r, n, l);
}

static clave_status declare_parameter(resolver *r, names *n, const char *name) {
  return define(r, n, (load){.name = name, .kind = LOAD_PARAMETER, .stored = true});
}

typedef enum target_use { USE_STORE, USE_PARAMETER } target_use;

static clave_status collect(resolver *r, names *n, const node *nodes);

static clave_status collect_target(resolver *r, names *n, const node *t, target_use use) {
  if (t->kind == NODE_MEMBER) return load_name(r, n, t->name);
  if (t->kind == NODE_NAME)
    return use == USE_STORE ? store_name(r, n, t->name) : declare_parameter(r, n, t->name);
  for (t = t->a; t; t = t->next) TRY(collect_target(r, n, t, use));
  return NULL;
}

static clave_status copy_scope(resolver *r, const scope *from, scope *to) {
  load *l;
  *to = (scope){0};
  for (size_t i = 0; i < from->count; i++) TRY(add_load(r, to, from->loads[i], &l));
  return NULL;
}

static clave_status collect_branch(resolver *r, names *n, const node *nodes, scope *out) {
  scope before = n->now;
  TRY(copy_scope(r, &before, &n->now));
  TRY(collect(r, n, nodes));
  *out = n->now;
  n->now = before;
  return NULL;
}

/* What a branch, but not each of them, assigns begins as the context's or the outer one. */
static clave_status join_branches(resolver *r, names *n, const scope branches[3]) {
  scope before;
  TRY(copy_scope(r, &n->now, &before));
  for (int b = 0; b < 3; b++) {
    for (size_t i = 0; i < branches[b].count; i++) TRY(define(r, n, branches[b].loads[i]));
  }
  for (size_t i = 0; i < n->now.count; i++) {
    load *l = &n->now.loads[i];
    const load *was = find_load(&before, l->name);
    if (!l->stored || (was && was->stored)) continue;
    int stores = 0;
    for (int b = 0; b < 3; b++) {
      const load *in = find_load(&branches[b], l->name);
      stores += in && in->stored;
    }
    if (stores == 3) continue;
    const load *outer = find_outer(n->frame, l->name, &l->level);
    l->kind = outer ? LOAD_ALIAS : LOAD_CONTEXT;
    l->from = outer ? outer->slot : 0;
  }
  return NULL;
}

static clave_status collect_if(resolver *r, names *n, const node *s) {
  scope branches[3];
  TRY(collect(r, n, s->a));
  TRY(collect_branch(r, n, s->b, &branches[0]));
  TRY(collect_branch(r, n, s->c, &branches[1]));
  TRY(collect_branch(r, n, s->d, &branches[2]));
  return join_branches(r, n, branches);
}

static clave_status collect_one(resolver *r, names *n, const node *s) {
  switch (s->kind) {
    case NODE_NAME:
      return load_name(r, n, s->name);
    case NODE_SET:
      TRY(collect(r, n, s->b));
      return collect_target(r, n, s->a, USE_STORE);
    case NODE_SET_BLOCK:
      return collect_target(r, n, s->a, USE_STORE);
    case NODE_FOR:
      return collect(r, n, s->b);
    case NODE_IF:
      return collect_if(r, n, s);
    case NODE_MACRO:
      return store_name(r, n, s->name);
    case NODE_CALL_BLOCK:
      return collect(r, n, s->a);
    case NODE_GENERATION:
      return NULL;
    case NODE_FILTER_BLOCK:
    case NODE_WITH:
      return collect(r, n, s->b);
    default:
      TRY(collect(r, n, s->a));
      TRY(collect(r, n, s->b));
      return collect(r, n, s->c);
  }
}

static clave_status collect(resolver *r, names *n, const node *nodes) {
  for (; nodes; nodes = nodes->next) {
    TRY(go_deeper(r, nodes));
    TRY(collect_one(r, n, nodes));
    r->depth--;
  }
  return NULL;
}

/* ---------------------------------------------------------------- slots */

static clave_status place(resolver *r, frame *f, node *nodes);

static clave_status place_name(const frame *f, node *n) {
  const load *l = find_load(f->scope, n->name);
  n->level = 0;
  if (!l) l = find_outer(f, n->name, &n->level);
  if (!l) return error_at(n, STATUS_UNSUPPORTED, "the name '%s' here is not supported", n->name);
  n->slot = l->slot;
  return NULL;
}

static bool mentions(const node *nodes, const char *name) {
  for (; nodes; nodes = nodes->next) {
    if (nodes->kind == NODE_NAME && strcmp(nodes->name, name) == 0) return true;
    if (mentions(nodes->a, name) || mentions(nodes->b, name) || mentions(nodes->c, name) ||
        mentions(nodes->d, name) || mentions(nodes->e, name))
      return true;
  }
  return false;
}

static void begin_names(names *n, frame *f, scope *slots) {
  *slots = (scope){0};
  *n = (names){.frame = f, .slots = slots};
}

/* ---- loops */

static clave_status place_loop_body(resolver *r, frame *outer, node *s) {
  frame f = {outer, outer->function, s->scope};
  scope slots;
  names n;
  begin_names(&n, &f, &slots);
  bool extended = mentions(s->c, "loop");
  if (extended) TRY(declare_parameter(r, &n, "loop"));
  TRY(collect_target(r, &n, s->a, USE_PARAMETER));
  TRY(collect(r, &n, s->c));
  *s->scope = n.now;
  if (extended) s->loop = find_load(s->scope, "loop")->slot;
  TRY(place(r, &f, s->a));
  return place(r, &f, s->c);
}

/* The target has slots of its own while the condition looks at it. The body is placed. */
static clave_status place_loop_test(resolver *r, frame *outer, node *s) {
  frame f = {outer, outer->function, s->test_scope};
  scope slots;
  names n;
  if (!s->e) return NULL;
  begin_names(&n, &f, &slots);
  TRY(collect_target(r, &n, s->a, USE_PARAMETER));
  TRY(collect(r, &n, s->e));
  *s->test_scope = n.now;
  for (size_t i = 0; i < n.now.count; i++) {
    load *l = &s->test_scope->loads[i];
    if (l->kind == LOAD_PARAMETER) l->from = find_load(s->scope, l->name)->slot;
  }
  return place(r, &f, s->e);
}

static clave_status place_loop_else(resolver *r, frame *outer, node *s) {
  frame f = {outer, outer->function, s->else_scope};
  scope slots;
  names n;
  begin_names(&n, &f, &slots);
  TRY(collect(r, &n, s->d));
  *s->else_scope = n.now;
  return place(r, &f, s->d);
}

static clave_status check_loop_target(const node *t) {
  if (t->kind == NODE_NAME && strcmp(t->name, "loop") == 0)
    return error_at(t, STATUS_INVALID, "loop cannot be assigned to by a loop");
  for (t = t->kind == NODE_TUPLE ? t->a : NULL; t; t = t->next) TRY(check_loop_target(t));
  return NULL;
}

static clave_status place_for(resolver *r, frame *f, node *s) {
  TRY(check_loop_target(s->a));
  TRY(place(r, f, s->b));
  TRY(place_loop_body(r, f, s));
  TRY(place_loop_test(r, f, s));
  return place_loop_else(r, f, s);
}

/* ---- functions */

static clave_status declare_special(resolver *r, names *n, const node *m, const char *name,
                                    bool *declared) {
  for (const node *p = m->a; p; p = p->next) {
    if (strcmp(p->name, name) == 0) return NULL;
  }
  *declared = mentions(m->c, name);
  return *declared ? declare_parameter(r, n, name) : NULL;
}

static clave_status place_function(resolver *r, frame *outer, node *m) {
  function fn = {outer->function->level + 1, 0};
  frame f = {outer, &fn, m->scope};
  scope slots;
  names n;
  bool caller = false, kwargs = false, varargs = false;
  begin_names(&n, &f, &slots);
  for (const node *p = m->a; p; p = p->next) TRY(declare_parameter(r, &n, p->name));
  TRY(declare_special(r, &n, m, "caller", &caller));
  TRY(declare_special(r, &n, m, "kwargs", &kwargs));
  TRY(declare_special(r, &n, m, "varargs", &varargs));
  TRY(collect(r, &n, m->b));
  TRY(collect(r, &n, m->c));
  *m->scope = n.now;
  if (caller) m->caller = find_load(m->scope, "caller")->slot;
  if (kwargs) m->kwargs = find_load(m->scope, "kwargs")->slot;
  if (varargs) m->varargs = find_load(m->scope, "varargs")->slot;
  TRY(place(r, &f, m->a));
  TRY(place(r, &f, m->b));
  TRY(place(r, &f, m->c));
  m->n_slots = fn.n_slots;
  return NULL;
}

/* ---- other scopes */

static clave_status place_inner(resolver *r, frame *outer, node *s) {
  frame f = {outer, outer->function, s->scope};
  scope slots;
  names n;
  begin_names(&n, &f, &slots);
  bool with = s->kind == NODE_WITH;
  for (const node *t = with ? s->a : NULL; t; t = t->next)
    TRY(collect_target(r, &n, t, USE_PARAMETER));
  if (!with) TRY(collect(r, &n, s->b));
  TRY(collect(r, &n, s->c));
  *s->scope = n.now;
  TRY(place(r, with ? outer : &f, s->b));
  TRY(place(r, with ? &f : outer, s->a));
  return place(r, &f, s->c);
}

static clave_status place_one(resolver *r, frame *f, node *n) {
  switch (n->kind) {
    case NODE_NAME:
    case NODE_MEMBER:
      return place_name(f, n);
    case NODE_FOR:
      return place_for(r, f, n);
    case NODE_MACRO:
      TRY(place_name(f, n));
      return place_function(r, f, n);
    case NODE_CALL_BLOCK:
      TRY(place(r, f, n->a));
      return place_function(r, f, n->b);
    case NODE_GENERATION:
      return place_function(r, f, n->b);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
    case NODE_WITH:
      return place_inner(r, f, n);
    default:
      TRY(place(r, f, n->a));
      TRY(place(r, f, n->b));
      TRY(place(r, f, n->c));
      return place(r, f, n->d);
  }
}

static clave_status place(resolver *r, frame *f, node *nodes) {
  for (; nodes; nodes = nodes->next) {
    TRY(go_deeper(r, nodes));
    TRY(place_one(r, f, nodes));
    r->depth--;
  }
  return NULL;
}

clave_status resolve_names(jinja_template *t, arena *a) {
  resolver r = {.arena = a};
  function fn = {0};
  frame f = {NULL, &fn, &t->scope};
  scope slots;
  names n;
  begin_names(&n, &f, &slots);
  TRY(collect(&r, &n, t->body));
  t->scope = n.now;
  TRY(place(&r, &f, t->body));
  t->n_slots = fn.n_slots;
  return NULL;
}
