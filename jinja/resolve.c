/* Assigns a slot to each name. As in Jinja2, a scope (the template, a macro, a loop's body, ...)
 * is analyzed as a whole before anything in it runs. A name that it assigns belongs to it, and
 * starts with the value of the outer name, or of the context, or undefined. An if is not a scope.
 */
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
  scope *scope; /* complete once its names are collected */
} frame;

typedef struct resolver {
  arena *arena;
  int depth;
} resolver;

static clave_status go_deeper(resolver *resolver, const node *node) {
  if (++resolver->depth > RESOLVE_MAX_DEPTH)
    return error_at(node, STATUS_INVALID, "nested too deeply");
  return NULL;
}

static load *find_load(const scope *scope, const char *name) {
  for (size_t i = 0; i < scope->count; i++) {
    if (strcmp(scope->loads[i].name, name) == 0) return &scope->loads[i];
  }
  return NULL;
}

/* Finds a name in the frames around `frame`. Sets *level to the number of functions between
 * them. */
static const load *find_outer(const frame *frame, const char *name, uint32_t *level) {
  uint32_t own = frame->function->level;
  for (frame = frame->parent; frame; frame = frame->parent) {
    const load *load = find_load(frame->scope, name);
    *level = own - frame->function->level;
    if (load) return load;
  }
  return NULL;
}

/* ---------------------------------------------------------------- names of a scope */

/* The names of a scope while they are collected. `current` is a copy for each branch, which starts
 * with the names before the branch. `slots` belongs to the frame, so a name has the same slot in
 * all branches. */
typedef struct names {
  frame *frame;
  scope *slots;
  scope current;
} names;

static clave_status add_load(resolver *resolver, scope *scope, load left, load **out) {
  if (scope->count == scope->capacity) {
    size_t capacity = scope->capacity ? 2 * scope->capacity : 8;
    load *grown;
    TRY(arena_alloc(resolver->arena, capacity, sizeof *grown, &grown));
    if (scope->count) memcpy(grown, scope->loads, scope->count * sizeof *grown);
    scope->loads = grown;
    scope->capacity = capacity;
  }
  scope->loads[scope->count] = left;
  *out = &scope->loads[scope->count++];
  return NULL;
}

static clave_status define(resolver *resolver, names *names, load loading) {
  load *known = find_load(names->slots, loading.name),
       *own = find_load(&names->current, loading.name);
  if (!known) {
    loading.slot = names->frame->function->n_slots++;
    TRY(add_load(resolver, names->slots, loading, &known));
  }
  loading.slot = known->slot;
  if (!own) TRY(add_load(resolver, &names->current, loading, &own));
  loading.stored |= own->stored;
  *own = loading;
  return NULL;
}

static clave_status load_name(resolver *resolver, names *names, const char *name) {
  uint32_t level;
  if (find_load(&names->current, name) || find_outer(names->frame, name, &level)) return NULL;
  return define(resolver, names, (load){.name = name, .kind = LOAD_CONTEXT});
}

static clave_status store_name(resolver *resolver, names *names, const char *name) {
  load *own = find_load(&names->current, name),
       loading = {.name = name, .kind = LOAD_UNDEFINED, .stored = true};
  if (own) {
    own->stored = true;
    return NULL;
  }
  const load *outer = find_outer(names->frame, name, &loading.level);
  if (outer) {
    loading.kind = LOAD_ALIAS;
    loading.from = outer->slot;
  }
  return define(resolver, names, loading);
}

static clave_status declare_parameter(resolver *resolver, names *names, const char *name) {
  return define(resolver, names, (load){.name = name, .kind = LOAD_PARAMETER, .stored = true});
}

typedef enum target_use { USE_STORE, USE_PARAMETER } target_use;

static clave_status resolve_collect(resolver *resolver, names *names, const node *nodes);

static clave_status collect_target(resolver *resolver, names *names, const node *node,
                                   target_use use) {
  if (node->kind == NODE_MEMBER) return load_name(resolver, names, node->name);
  if (node->kind == NODE_NAME)
    return use == USE_STORE ? store_name(resolver, names, node->name)
                            : declare_parameter(resolver, names, node->name);
  for (node = node->a; node; node = node->next) TRY(collect_target(resolver, names, node, use));
  return NULL;
}

static clave_status copy_scope(resolver *resolver, const scope *from, scope *to) {
  load *load;
  *to = (scope){0};
  for (size_t i = 0; i < from->count; i++) TRY(add_load(resolver, to, from->loads[i], &load));
  return NULL;
}

static clave_status collect_branch(resolver *resolver, names *names, const node *nodes,
                                   scope *out) {
  scope before = names->current;
  TRY(copy_scope(resolver, &before, &names->current));
  TRY(resolve_collect(resolver, names, nodes));
  *out = names->current;
  names->current = before;
  return NULL;
}

/* Merges the names of branches. A name assigned in some but not all of them starts with the value
 * of the outer name, or of the context. */
static clave_status join_branches(resolver *resolver, names *names, const scope branches[3]) {
  scope before;
  TRY(copy_scope(resolver, &names->current, &before));
  for (int b = 0; b < 3; b++) {
    for (size_t i = 0; i < branches[b].count; i++)
      TRY(define(resolver, names, branches[b].loads[i]));
  }
  for (size_t i = 0; i < names->current.count; i++) {
    load *loading = &names->current.loads[i];
    const load *earlier = find_load(&before, loading->name);
    if (!loading->stored || (earlier && earlier->stored)) continue;
    int stores = 0;
    for (int b = 0; b < 3; b++) {
      const load *in = find_load(&branches[b], loading->name);
      stores += in && in->stored;
    }
    if (stores == 3) continue;
    const load *outer = find_outer(names->frame, loading->name, &loading->level);
    loading->kind = outer ? LOAD_ALIAS : LOAD_CONTEXT;
    loading->from = outer ? outer->slot : 0;
  }
  return NULL;
}

static clave_status collect_if(resolver *resolver, names *names, const node *node) {
  scope branches[3];
  TRY(resolve_collect(resolver, names, node->a));
  TRY(collect_branch(resolver, names, node->b, &branches[0]));
  TRY(collect_branch(resolver, names, node->c, &branches[1]));
  TRY(collect_branch(resolver, names, node->d, &branches[2]));
  return join_branches(resolver, names, branches);
}

static clave_status collect_one(resolver *resolver, names *names, const node *node) {
  switch (node->kind) {
    case NODE_NAME:
      return load_name(resolver, names, node->name);
    case NODE_SET:
      TRY(resolve_collect(resolver, names, node->b));
      return collect_target(resolver, names, node->a, USE_STORE);
    case NODE_SET_BLOCK:
      return collect_target(resolver, names, node->a, USE_STORE);
    case NODE_FOR:
      return resolve_collect(resolver, names, node->b);
    case NODE_IF:
      return collect_if(resolver, names, node);
    case NODE_MACRO:
      return store_name(resolver, names, node->name);
    case NODE_CALL_BLOCK:
      return resolve_collect(resolver, names, node->a);
    case NODE_GENERATION:
      return NULL;
    case NODE_FILTER_BLOCK:
    case NODE_WITH:
      return resolve_collect(resolver, names, node->b);
    default:
      TRY(resolve_collect(resolver, names, node->a));
      TRY(resolve_collect(resolver, names, node->b));
      return resolve_collect(resolver, names, node->c);
  }
}

static clave_status resolve_collect(resolver *resolver, names *names, const node *nodes) {
  for (; nodes; nodes = nodes->next) {
    TRY(go_deeper(resolver, nodes));
    TRY(collect_one(resolver, names, nodes));
    resolver->depth--;
  }
  return NULL;
}

/* ---------------------------------------------------------------- slots */

static clave_status resolve_place(resolver *resolver, frame *frame, node *nodes);

static clave_status place_name(const frame *frame, node *node) {
  const load *load = find_load(frame->scope, node->name);
  node->level = 0;
  if (!load) load = find_outer(frame, node->name, &node->level);
  if (!load)
    return error_at(node, STATUS_UNSUPPORTED, "the name '%s' here is not supported", node->name);
  node->slot = load->slot;
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

static void begin_names(names *known, frame *frame, scope *slots) {
  *slots = (scope){0};
  *known = (names){.frame = frame, .slots = slots};
}

/* ---- loops */

static clave_status place_loop_body(resolver *resolver, frame *outer, node *node) {
  frame frame = {outer, outer->function, node->scope};
  scope slots;
  names names;
  begin_names(&names, &frame, &slots);
  bool extended = mentions(node->c, "loop");
  if (extended) TRY(declare_parameter(resolver, &names, "loop"));
  TRY(collect_target(resolver, &names, node->a, USE_PARAMETER));
  TRY(resolve_collect(resolver, &names, node->c));
  *node->scope = names.current;
  if (extended) node->loop = find_load(node->scope, "loop")->slot;
  TRY(resolve_place(resolver, &frame, node->a));
  return resolve_place(resolver, &frame, node->c);
}

/* Assigns slots for a loop's condition, which has its own slots for the target. The body must have
 * its slots. */
static clave_status place_loop_test(resolver *resolver, frame *outer, node *node) {
  frame frame = {outer, outer->function, node->test_scope};
  scope slots;
  names names;
  if (!node->e) return NULL;
  begin_names(&names, &frame, &slots);
  TRY(collect_target(resolver, &names, node->a, USE_PARAMETER));
  TRY(resolve_collect(resolver, &names, node->e));
  *node->test_scope = names.current;
  for (size_t i = 0; i < names.current.count; i++) {
    load *load = &node->test_scope->loads[i];
    if (load->kind == LOAD_PARAMETER) load->from = find_load(node->scope, load->name)->slot;
  }
  return resolve_place(resolver, &frame, node->e);
}

static clave_status place_loop_else(resolver *resolver, frame *outer, node *node) {
  frame frame = {outer, outer->function, node->else_scope};
  scope slots;
  names names;
  begin_names(&names, &frame, &slots);
  TRY(resolve_collect(resolver, &names, node->d));
  *node->else_scope = names.current;
  return resolve_place(resolver, &frame, node->d);
}

static clave_status check_loop_target(const node *node) {
  if (node->kind == NODE_NAME && strcmp(node->name, "loop") == 0)
    return error_at(node, STATUS_INVALID, "loop cannot be assigned to by a loop");
  for (node = node->kind == NODE_TUPLE ? node->a : NULL; node; node = node->next)
    TRY(check_loop_target(node));
  return NULL;
}

static clave_status place_for(resolver *resolver, frame *frame, node *node) {
  TRY(check_loop_target(node->a));
  TRY(resolve_place(resolver, frame, node->b));
  TRY(place_loop_body(resolver, frame, node));
  TRY(place_loop_test(resolver, frame, node));
  return place_loop_else(resolver, frame, node);
}

/* ---- functions */

static clave_status declare_special(resolver *resolver, names *names, const node *op_node,
                                    const char *name, bool *declared) {
  for (const node *p = op_node->a; p; p = p->next) {
    if (strcmp(p->name, name) == 0) return NULL;
  }
  *declared = mentions(op_node->c, name);
  return *declared ? declare_parameter(resolver, names, name) : NULL;
}

static clave_status place_function(resolver *resolver, frame *outer, node *op_node) {
  function fn = {outer->function->level + 1, 0};
  frame frame = {outer, &fn, op_node->scope};
  scope slots;
  names names;
  bool caller = false, kwargs = false, varargs = false;
  begin_names(&names, &frame, &slots);
  for (const node *p = op_node->a; p; p = p->next)
    TRY(declare_parameter(resolver, &names, p->name));
  TRY(declare_special(resolver, &names, op_node, "caller", &caller));
  TRY(declare_special(resolver, &names, op_node, "kwargs", &kwargs));
  TRY(declare_special(resolver, &names, op_node, "varargs", &varargs));
  TRY(resolve_collect(resolver, &names, op_node->b));
  TRY(resolve_collect(resolver, &names, op_node->c));
  *op_node->scope = names.current;
  if (caller) op_node->caller = find_load(op_node->scope, "caller")->slot;
  if (kwargs) op_node->kwargs = find_load(op_node->scope, "kwargs")->slot;
  if (varargs) op_node->varargs = find_load(op_node->scope, "varargs")->slot;
  TRY(resolve_place(resolver, &frame, op_node->a));
  TRY(resolve_place(resolver, &frame, op_node->b));
  TRY(resolve_place(resolver, &frame, op_node->c));
  op_node->n_slots = fn.n_slots;
  return NULL;
}

/* ---- other scopes */

static clave_status place_inner(resolver *resolver, frame *outer, node *op_node) {
  frame frame = {outer, outer->function, op_node->scope};
  scope slots;
  names names;
  begin_names(&names, &frame, &slots);
  bool with = op_node->kind == NODE_WITH;
  for (const node *t = with ? op_node->a : NULL; t; t = t->next)
    TRY(collect_target(resolver, &names, t, USE_PARAMETER));
  if (!with) TRY(resolve_collect(resolver, &names, op_node->b));
  TRY(resolve_collect(resolver, &names, op_node->c));
  *op_node->scope = names.current;
  TRY(resolve_place(resolver, with ? outer : &frame, op_node->b));
  TRY(resolve_place(resolver, with ? &frame : outer, op_node->a));
  return resolve_place(resolver, &frame, op_node->c);
}

static clave_status resolve_place_one(resolver *resolver, frame *frame, node *node) {
  switch (node->kind) {
    case NODE_NAME:
    case NODE_MEMBER:
      return place_name(frame, node);
    case NODE_FOR:
      return place_for(resolver, frame, node);
    case NODE_MACRO:
      TRY(place_name(frame, node));
      return place_function(resolver, frame, node);
    case NODE_CALL_BLOCK:
      TRY(resolve_place(resolver, frame, node->a));
      return place_function(resolver, frame, node->b);
    case NODE_GENERATION:
      return place_function(resolver, frame, node->b);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
    case NODE_WITH:
      return place_inner(resolver, frame, node);
    default:
      TRY(resolve_place(resolver, frame, node->a));
      TRY(resolve_place(resolver, frame, node->b));
      TRY(resolve_place(resolver, frame, node->c));
      return resolve_place(resolver, frame, node->d);
  }
}

static clave_status resolve_place(resolver *resolver, frame *frame, node *nodes) {
  for (; nodes; nodes = nodes->next) {
    TRY(go_deeper(resolver, nodes));
    TRY(resolve_place_one(resolver, frame, nodes));
    resolver->depth--;
  }
  return NULL;
}

clave_status resolve_names(jinja_template *template, arena *arena) {
  resolver resolver = {.arena = arena};
  function fn = {0};
  frame frame = {NULL, &fn, &template->scope};
  scope slots;
  names names;
  begin_names(&names, &frame, &slots);
  TRY(resolve_collect(&resolver, &names, template->body));
  template->scope = names.current;
  TRY(resolve_place(&resolver, &frame, template->body));
  template->n_slots = fn.n_slots;
  return NULL;
}
