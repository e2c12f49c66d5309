/* Calls: binding of arguments to parameters, and macros. */
#include <string.h>

#include "jinja/render.h"

/* ---------------------------------------------------------------- arguments */

static size_t count_names(const signature *signature) {
  size_t n = 0;
  while (n < MAX_PARAMETERS && signature->names[n]) n++;
  return n;
}

static clave_status bind_named(const char *what, const signature *signature, size_t n,
                               named_value value, bound *out) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(signature->names[i], value.name) != 0) continue;
    if (out->given[i]) return INVALID("%s got two values for '%s'", what, value.name);
    out->v[i] = value.v;
    out->given[i] = true;
    return NULL;
  }
  return INVALID("%s has no argument '%.100s'", what, value.name);
}

clave_status bind_args(const char *what, const signature *signature, const call_args *args,
                       bound *out) {
  size_t n = count_names(signature);
  *out = (bound){0};
  if (args->count > n)
    return INVALID("%s accepts at most %zu arguments, got %zu", what, n, args->count);
  for (size_t i = 0; i < args->count; i++) {
    out->v[i] = args->items[i];
    out->given[i] = true;
  }
  for (size_t i = 0; i < args->n_named; i++)
    TRY(bind_named(what, signature, n, args->named[i], out));
  for (size_t i = 0; i < signature->required; i++) {
    if (!out->given[i]) return INVALID("%s needs an argument '%s'", what, signature->names[i]);
  }
  return NULL;
}

clave_status want_integer(value value, int64_t *out) {
  if (value.kind != VALUE_INT && value.kind != VALUE_BOOL)
    return INVALID("'%s' object cannot be interpreted as an integer", value_type(value));
  *out = value.kind == VALUE_INT ? value.u.integer : (int64_t)value.u.truth;
  return NULL;
}

clave_status bound_integer(const bound *bound, size_t i, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  return bound->given[i] ? want_integer(bound->v[i], out) : NULL;
}

clave_status want_string(value value, const string **out) {
  if (value.kind != VALUE_STRING) return INVALID("expected a str, got '%s'", value_type(value));
  *out = value.u.text;
  return NULL;
}

/* ---------------------------------------------------------------- macros */

clave_status make_macro(render *render, const node *node, value *out) {
  macro *define;
  TRY(arena_alloc(&render->arena, 1, sizeof *define, &define));
  *define = (macro){node, render->current};
  *out = (value){VALUE_MACRO, {.macro = define}};
  return NULL;
}

static clave_status bind_rest(render *render, const node *node, const call_args *args,
                              size_t n_parameters, const bool *used) {
  value varargs, kwargs;
  TRY(make_list(&render->arena, VALUE_TUPLE, 0, &varargs));
  TRY(make_dict(&render->arena, VALUE_DICT, &kwargs));
  for (size_t i = n_parameters; i < args->count; i++)
    TRY(list_add(&render->arena, varargs.u.list, args->items[i]));
  for (size_t i = 0; i < args->n_named; i++) {
    value key;
    if (used[i]) continue;
    if (node->kwargs == SLOT_NONE || strcmp(args->named[i].name, "caller") == 0)
      return INVALID("macro '%s' has no argument '%.100s'", node->name, args->named[i].name);
    TRY(make_text(&render->arena, args->named[i].name, &key));
    TRY(dict_set(&render->arena, kwargs.u.dict, key, args->named[i].v));
  }
  if (varargs.u.list->count && node->varargs == SLOT_NONE)
    return INVALID("macro '%s' accepts at most %zu arguments, got %zu", node->name, n_parameters,
                   args->count);
  if (node->varargs != SLOT_NONE) render->current->slots[node->varargs] = varargs;
  if (node->kwargs != SLOT_NONE) render->current->slots[node->kwargs] = kwargs;
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

/* Binds one parameter: to the given argument, to its default, or to undefined. */
static clave_status bind_parameter(render *render, const node *first_node, const value *given,
                                   const node *otherwise) {
  value value = value_undefined(first_node->name);
  if (given) value = *given;
  if (!given && otherwise) TRY(eval(render, otherwise, &value));
  render->current->slots[first_node->slot] = value;
  return NULL;
}

static clave_status bind_macro(render *render, const node *op_node, const call_args *args) {
  size_t count = 0, defaults = 0, i = 0;
  bool *used;
  TRY(arena_alloc(&render->arena, args->n_named, sizeof *used, &used));
  for (const node *p = op_node->a; p; p = p->next) count++;
  for (const node *d = op_node->b; d; d = d->next) defaults++;
  const node *otherwise = op_node->b;
  for (const node *p = op_node->a; p; p = p->next, i++) {
    const value *given = find_named(args, p->name, used);
    if (given && i < args->count)
      return INVALID("macro '%s' got two values for '%s'", op_node->name, p->name);
    if (i < args->count) given = &args->items[i];
    bool has_default = i >= count - defaults;
    TRY(bind_parameter(render, p, given, has_default ? otherwise : NULL));
    if (has_default) otherwise = otherwise->next;
  }
  if (op_node->caller != SLOT_NONE) {
    const value *caller = find_named(args, "caller", used);
    render->current->slots[op_node->caller] = caller ? *caller : value_undefined("caller");
  }
  return bind_rest(render, op_node, args, count, used);
}

static clave_status run_macro(render *render, const macro *macro, const call_args *args,
                              value *out) {
  TRY(enter_scope(render, macro->node->scope));
  TRY(bind_macro(render, macro->node, args));
  return exec_to_string(render, macro->node->c, NULL, out);
}

static clave_status call_macro(render *render, const macro *macro, const call_args *args,
                               value *out) {
  activation own = {.parent = macro->closure}, *kept, *before = render->current;
  flow left = render->flow;
  if (++render->calls > RENDER_MAX_CALLS) return INVALID("macros call each other too deeply");
  TRY(arena_alloc(&render->arena, 1, sizeof *kept, &kept));
  TRY(arena_alloc(&render->arena, macro->node->n_slots, sizeof *own.slots, &own.slots));
  *kept = own;
  render->current = kept;
  render->flow = FLOW_NEXT;
  clave_status st = run_macro(render, macro, args, out);
  render->current = before;
  render->flow = left;
  render->calls--;
  return st;
}

clave_status call_value(render *render, value callee, const call_args *args, value *out) {
  TRY(refuse_undefined(callee));
  switch ((value_kind)callee.kind) {
    case VALUE_MACRO:
      return call_macro(render, callee.u.macro, args, out);
    case VALUE_METHOD:
      return call_method(render, callee.u.method, args, out);
    case VALUE_FUNCTION:
      return call_function(render, callee.u.function, args, out);
    case VALUE_LOOP:
      return UNSUPPORTED("recursive loops are not supported");
    default:
      return INVALID("'%s' object is not callable", value_type(callee));
  }
}
