/* Calls: arguments by their names, macros. */
#include <string.h>

#include "jinja/render.h"

/* ---------------------------------------------------------------- arguments */

static size_t count_names(const signature *s) {
  size_t n = 0;
  while (n < MAX_PARAMETERS && s->names[n]) n++;
  return n;
}

static clave_status bind_named(const char *what, const signature *s, size_t n, named_value v,
                               bound *out) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(s->names[i], v.name) != 0) continue;
    if (out->given[i]) return INVALID("%s got two values for '%s'", what, v.name);
    out->v[i] = v.v;
    out->given[i] = true;
    return NULL;
  }
  return INVALID("%s takes no argument '%.100s'", what, v.name);
}

clave_status bind_args(const char *what, const signature *s, const call_args *args, bound *out) {
  size_t n = count_names(s);
  *out = (bound){0};
  if (args->count > n)
    return INVALID("%s takes at most %zu arguments, not %zu", what, n, args->count);
  for (size_t i = 0; i < args->count; i++) {
    out->v[i] = args->items[i];
    out->given[i] = true;
  }
  for (size_t i = 0; i < args->n_named; i++) TRY(bind_named(what, s, n, args->named[i], out));
  for (size_t i = 0; i < s->required; i++) {
    if (!out->given[i]) return INVALID("%s needs an argument '%s'", what, s->names[i]);
  }
  return NULL;
}

clave_status want_integer(value v, int64_t *out) {
  if (v.kind != VALUE_INT && v.kind != VALUE_BOOL)
    return INVALID("'%s' object cannot be interpreted as an integer", value_type(v));
  *out = v.kind == VALUE_INT ? v.u.integer : (int64_t)v.u.truth;
  return NULL;
}

clave_status bound_integer(const bound *b, size_t i, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  return b->given[i] ? want_integer(b->v[i], out) : NULL;
}

clave_status want_string(value v, const string **out) {
  if (v.kind != VALUE_STRING) return INVALID("expected a str, got '%s'", value_type(v));
  *out = v.u.text;
  return NULL;
}

/* ---------------------------------------------------------------- macros */

clave_status make_macro(render *r, const node *n, value *out) {
  macro *m;
  TRY(arena_alloc(&r->arena, 1, sizeof *m, &m));
  *m = (macro){n, r->now};
  *out = (value){VALUE_MACRO, {.macro = m}};
  return NULL;
}

static clave_status bind_rest(render *r, const node *n, const call_args *args, size_t n_parameters,
                              const bool *used) {
  value varargs, kwargs;
  TRY(make_list(&r->arena, VALUE_TUPLE, 0, &varargs));
  TRY(make_dict(&r->arena, VALUE_DICT, &kwargs));
  for (size_t i = n_parameters; i < args->count; i++)
    TRY(list_add(&r->arena, varargs.u.list, args->items[i]));
  for (size_t i = 0; i < args->n_named; i++) {
    value key;
    if (used[i]) continue;
    if (n->kwargs == SLOT_NONE || strcmp(args->named[i].name, "caller") == 0)
      return INVALID("macro '%s' takes no argument '%.100s'", n->name, args->named[i].name);
    TRY(make_puts(&r->arena, args->named[i].name, &key));
    TRY(dict_set(&r->arena, kwargs.u.dict, key, args->named[i].v));
  }
  if (varargs.u.list->count && n->varargs == SLOT_NONE)
    return INVALID("macro '%s' takes at most %zu arguments, not %zu", n->name, n_parameters,
                   args->count);
  if (n->varargs != SLOT_NONE) r->now->slots[n->varargs] = varargs;
  if (n->kwargs != SLOT_NONE) r->now->slots[n->kwargs] = kwargs;
  return NULL;
}

static const value *find_named(const call_args *args, const char *name, bool *used) {
  for (size_t i = 0; i < args->n_named; i++) {
    if (strcmp(args->named[i].name, name) != 0) continue;
    used[i] = true;
    return &args->named[i].v;
  }
  return NULL;
}

/* One parameter: given by place or name, by default, or undefined. */
static clave_status bind_parameter(render *r, const node *p, const value *given,
                                   const node *otherwise) {
  value v = value_undefined(p->name);
  if (given) v = *given;
  if (!given && otherwise) TRY(eval(r, otherwise, &v));
  r->now->slots[p->slot] = v;
  return NULL;
}

static clave_status bind_macro(render *r, const node *n, const call_args *args) {
  size_t count = 0, defaults = 0, i = 0;
  bool *used;
  TRY(arena_alloc(&r->arena, args->n_named, sizeof *used, &used));
  for (const node *p = n->a; p; p = p->next) count++;
  for (const node *d = n->b; d; d = d->next) defaults++;
  const node *otherwise = n->b;
  for (const node *p = n->a; p; p = p->next, i++) {
    const value *given = find_named(args, p->name, used);
    if (given && i < args->count)
      return INVALID("macro '%s' got two values for '%s'", n->name, p->name);
    if (i < args->count) given = &args->items[i];
    bool has_default = i >= count - defaults;
    TRY(bind_parameter(r, p, given, has_default ? otherwise : NULL));
    if (has_default) otherwise = otherwise->next;
  }
  if (n->caller != SLOT_NONE) {
    const value *caller = find_named(args, "caller", used);
    r->now->slots[n->caller] = caller ? *caller : value_undefined("caller");
  }
  return bind_rest(r, n, args, count, used);
}

static clave_status run_macro(render *r, const macro *m, const call_args *args, value *out) {
  TRY(enter_scope(r, m->node->scope));
  TRY(bind_macro(r, m->node, args));
  return exec_to_string(r, m->node->c, NULL, out);
}

static clave_status call_macro(render *r, const macro *m, const call_args *args, value *out) {
  activation own = {.parent = m->closure}, *kept, *before = r->now;
  flow left = r->flow;
  if (++r->calls > RENDER_MAX_CALLS) return INVALID("macros call each other too deeply");
  TRY(arena_alloc(&r->arena, 1, sizeof *kept, &kept));
  TRY(arena_alloc(&r->arena, m->node->n_slots, sizeof *own.slots, &own.slots));
  *kept = own;
  r->now = kept;
  r->flow = FLOW_NEXT;
  clave_status st = run_macro(r, m, args, out);
  r->now = before;
  r->flow = left;
  r->calls--;
  return st;
}

clave_status call_value(render *r, value callee, const call_args *args, value *out) {
  TRY(refuse_undefined(callee));
  switch ((value_kind)callee.kind) {
    case VALUE_MACRO:
      return call_macro(r, callee.u.macro, args, out);
    case VALUE_METHOD:
      return call_method(r, callee.u.method, args, out);
    case VALUE_FUNCTION:
      return call_function(r, callee.u.function, args, out);
    case VALUE_LOOP:
      return UNSUPPORTED("recursive loops are not supported");
    default:
      return INVALID("'%s' object is not callable", value_type(callee));
  }
}
