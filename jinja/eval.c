/* Expressions. */
#include <string.h>

#include "jinja/render.h"

clave_status refuse_undefined(value v) {
  if (v.kind != VALUE_UNDEFINED) return NULL;
  return v.u.name ? INVALID("'%.200s' is undefined", v.u.name) : INVALID("a value is undefined");
}

/* ---------------------------------------------------------------- names, literals */

static activation *outer(render *r, uint32_t level) {
  activation *a = r->now;
  while (level--) a = a->parent;
  return a;
}

static clave_status eval_name(render *r, const node *n, value *out) {
  *out = outer(r, n->level)->slots[n->slot];
  if (out->kind == VALUE_UNDEFINED && !out->u.name) out->u.name = n->name;
  return NULL;
}

static clave_status eval_items(render *r, const node *n, value *out) {
  TRY(make_list(&r->arena, n->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE, 0, out));
  for (const node *i = n->a; i; i = i->next) {
    value v;
    TRY(eval(r, i, &v));
    TRY(list_add(&r->arena, out->u.list, v));
  }
  return NULL;
}

static clave_status eval_dict(render *r, const node *n, value *out) {
  TRY(make_dict(&r->arena, VALUE_DICT, out));
  for (const node *i = n->a; i; i = i->next->next) {
    value key, v;
    TRY(eval(r, i, &key));
    TRY(eval(r, i->next, &v));
    TRY(dict_set(&r->arena, out->u.dict, key, v));
  }
  return NULL;
}

/* ---------------------------------------------------------------- operators */

static clave_status eval_unary(render *r, const node *n, value *out) {
  value v;
  TRY(eval(r, n->a, &v));
  TRY(refuse_undefined(v));
  if (!value_number(v)) return INVALID("bad operand type for unary %c: '%s'", n->op, value_type(v));
  if (n->op == '-') return negate(v, out);
  *out = v.kind == VALUE_BOOL ? value_int((int64_t)v.u.truth) : v;
  return NULL;
}

static clave_status eval_binary(render *r, const node *n, value *out) {
  value x, y;
  TRY(eval(r, n->a, &x));
  TRY(eval(r, n->b, &y));
  return arithmetic(r, (binary_op)n->op, x, y, out);
}

static clave_status eval_concat(render *r, const node *n, value *out) {
  builder b = {0};
  clave_status st = NULL;
  for (const node *i = n->a; i && !st; i = i->next) {
    value v;
    st = eval(r, i, &v);
    if (!st) st = append_str(&r->arena, &b, v);
  }
  if (!st) return builder_string(&r->arena, &b, out);
  builder_free(&b);
  return st;
}

static clave_status eval_compare(render *r, const node *n, value *out) {
  value x, y;
  bool truth = true;
  TRY(eval(r, n->a, &x));
  for (const node *o = n->b; o && truth; o = o->next) {
    TRY(eval(r, o->a, &y));
    TRY(compare(r, (binary_op)o->op, x, y, &truth));
    x = y;
  }
  *out = value_bool(truth);
  return NULL;
}

static clave_status eval_logic(render *r, const node *n, value *out) {
  TRY(eval(r, n->a, out));
  return value_truth(*out) == (n->kind == NODE_AND) ? eval(r, n->b, out) : NULL;
}

static clave_status eval_not(render *r, const node *n, value *out) {
  value v;
  TRY(eval(r, n->a, &v));
  *out = value_bool(!value_truth(v));
  return NULL;
}

static clave_status eval_cond(render *r, const node *n, value *out) {
  value v;
  TRY(eval(r, n->a, &v));
  if (value_truth(v)) return eval(r, n->b, out);
  if (n->c) return eval(r, n->c, out);
  *out = value_undefined("the inline if without an else");
  return NULL;
}

/* ---------------------------------------------------------------- look-ups */

static clave_status eval_attribute(render *r, const node *n, value *out) {
  value of;
  TRY(eval(r, n->a, &of));
  if (of.kind == VALUE_LOOP && n->op >= 0) {
    *out = get_loop(of.u.loop, n->op);
    if (out->kind != VALUE_UNDEFINED) return NULL;
  }
  if (of.kind == VALUE_DICT && !n->is_method) {
    const value *item = dict_find_text(of.u.dict, n->constant.u.text);
    *out = item ? *item : value_undefined(n->constant.u.text->data);
    return NULL;
  }
  TRY(refuse_undefined(of));
  return get_attribute(r, of, n->constant.u.text, out);
}

static clave_status eval_slice(render *r, value of, const node *n, value *out) {
  const node *parts[] = {n->a, n->b, n->c};
  value bounds[3];
  for (int i = 0; i < 3; i++) {
    bounds[i] = value_none();
    if (parts[i]) TRY(eval(r, parts[i], &bounds[i]));
  }
  return get_slice(r, of, bounds, out);
}

static clave_status eval_item(render *r, const node *n, value *out) {
  value of, key;
  TRY(eval(r, n->a, &of));
  if (n->b->kind == NODE_SLICE) {
    TRY(refuse_undefined(of));
    return eval_slice(r, of, n->b, out);
  }
  TRY(eval(r, n->b, &key));
  TRY(refuse_undefined(of));
  return get_item(r, of, key, out);
}

/* ---------------------------------------------------------------- calls, filters, tests */

static clave_status spread_list(render *r, value v, call_args *out, size_t *capacity);

static clave_status add_item(render *r, value v, call_args *out, size_t *capacity) {
  list l = {out->items, out->count, *capacity};
  TRY(list_add(&r->arena, &l, v));
  out->items = l.items;
  out->count = l.count;
  *capacity = l.capacity;
  return NULL;
}

static clave_status spread_list(render *r, value v, call_args *out, size_t *capacity) {
  list items;
  TRY(value_items(&r->arena, v, &items));
  for (size_t i = 0; i < items.count; i++) TRY(add_item(r, items.items[i], out, capacity));
  return NULL;
}

static clave_status add_named(render *r, const char *name, value v, call_args *out) {
  for (size_t i = 0; i < out->n_named; i++) {
    if (strcmp(out->named[i].name, name) == 0)
      return INVALID("two values for the argument '%.100s'", name);
  }
  if (out->n_named % 8 == 0) {
    named_value *grown;
    TRY(arena_alloc(&r->arena, out->n_named + 8, sizeof *grown, &grown));
    if (out->n_named) memcpy(grown, out->named, out->n_named * sizeof *grown);
    out->named = grown;
  }
  out->named[out->n_named++] = (named_value){name, v};
  return NULL;
}

static clave_status spread_dict(render *r, value v, call_args *out) {
  if (v.kind != VALUE_DICT) return INVALID("what follows ** is no dict");
  for (size_t i = 0; i < v.u.dict->count; i++) {
    const dict_entry *e = &v.u.dict->entries[i];
    if (e->key.kind != VALUE_STRING) return INVALID("keywords must be strings");
    char *name;
    TRY(arena_alloc(&r->arena, e->key.u.text->size + 1, 1, &name));
    memcpy(name, e->key.u.text->data, e->key.u.text->size);
    TRY(add_named(r, name, e->value, out));
  }
  return NULL;
}

clave_status eval_args(render *r, const node *arguments, call_args *out) {
  size_t capacity = 0;
  *out = (call_args){0};
  for (const node *n = arguments; n; n = n->next) {
    value v;
    bool wraps = n->kind == NODE_KEYWORD || n->kind == NODE_SPREAD;
    TRY(eval(r, wraps ? n->a : n, &v));
    if (n->kind == NODE_KEYWORD) {
      TRY(add_named(r, n->name, v, out));
    } else if (n->kind == NODE_SPREAD && n->op == 2) {
      TRY(spread_dict(r, v, out));
    } else if (n->kind == NODE_SPREAD) {
      TRY(spread_list(r, v, out, &capacity));
    } else {
      TRY(add_item(r, v, out, &capacity));
    }
  }
  return NULL;
}

static clave_status eval_call(render *r, const node *n, value *out) {
  value callee;
  call_args args;
  TRY(eval(r, n->a, &callee));
  TRY(eval_args(r, n->b, &args));
  return call_value(r, callee, &args, out);
}

static clave_status eval_filter(render *r, const node *n, value *out) {
  value input;
  call_args args;
  TRY(eval(r, n->a, &input));
  if (n->op < 0) return INVALID("no filter '%s'", n->name);
  TRY(eval_args(r, n->b, &args));
  return call_filter(r, n->op, input, &args, out);
}

static clave_status eval_test(render *r, const node *n, value *out) {
  value input;
  call_args args;
  bool truth;
  TRY(eval(r, n->a, &input));
  if (n->op < 0) return INVALID("no test '%s'", n->name);
  TRY(eval_args(r, n->b, &args));
  TRY(call_test(r, n->op, input, &args, &truth));
  *out = value_bool(truth);
  return NULL;
}

/* ---------------------------------------------------------------- the table */

static clave_status eval_const(render *r, const node *n, value *out) {
  (void)r;
  *out = n->constant;
  return NULL;
}

static clave_status (*const evaluate[])(render *r, const node *n, value *out) = {
    [NODE_CONST] = eval_const,   [NODE_NAME] = eval_name,      [NODE_LIST] = eval_items,
    [NODE_TUPLE] = eval_items,   [NODE_DICT] = eval_dict,      [NODE_UNARY] = eval_unary,
    [NODE_BINARY] = eval_binary, [NODE_CONCAT] = eval_concat,  [NODE_COMPARE] = eval_compare,
    [NODE_AND] = eval_logic,     [NODE_OR] = eval_logic,       [NODE_NOT] = eval_not,
    [NODE_COND] = eval_cond,     [NODE_ATTR] = eval_attribute, [NODE_ITEM] = eval_item,
    [NODE_CALL] = eval_call,     [NODE_FILTER] = eval_filter,  [NODE_TEST] = eval_test};

clave_status eval(render *r, const node *n, value *out) {
  if (n->kind == NODE_CONST) {
    *out = n->constant;
    return NULL;
  }
  clave_status st = arena_charge(&r->arena, 1);
  if (!st && ++r->depth > RENDER_MAX_DEPTH) st = INVALID("nested too deeply");
  if (!st && n->kind == NODE_SLICE) st = UNSUPPORTED("a slice among several subscripts");
  if (!st) st = evaluate[n->kind](r, n, out);
  r->depth--;
  if (!st || r->located) return st;
  r->located = true;
  return status_while(st, "line %u, column %u", n->line, n->column);
}
