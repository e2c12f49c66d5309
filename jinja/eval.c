/* Evaluation of expressions. */
#include <string.h>

#include "jinja/render.h"

clave_status refuse_undefined(value value) {
  if (value.kind != VALUE_UNDEFINED) return NULL;
  return value.u.name ? INVALID("'%.200s' is undefined", value.u.name)
                      : INVALID("a value is undefined");
}

/* ---------------------------------------------------------------- names, literals */

static activation *outer(render *render, uint32_t level) {
  activation *activation = render->current;
  while (level--) activation = activation->parent;
  return activation;
}

static clave_status eval_name(render *render, const node *node, value *out) {
  *out = outer(render, node->level)->slots[node->slot];
  if (out->kind == VALUE_UNDEFINED && !out->u.name) out->u.name = node->name;
  return NULL;
}

static clave_status eval_items(render *render, const node *op_node, value *out) {
  TRY(make_list(&render->arena, op_node->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE, 0, out));
  for (const node *i = op_node->a; i; i = i->next) {
    value value;
    TRY(eval(render, i, &value));
    TRY(list_add(&render->arena, out->u.list, value));
  }
  return NULL;
}

static clave_status eval_dict(render *render, const node *op_node, value *out) {
  TRY(make_dict(&render->arena, VALUE_DICT, out));
  for (const node *i = op_node->a; i; i = i->next->next) {
    value key, value;
    TRY(eval(render, i, &key));
    TRY(eval(render, i->next, &value));
    TRY(dict_set(&render->arena, out->u.dict, key, value));
  }
  return NULL;
}

/* ---------------------------------------------------------------- operators */

static clave_status eval_unary(render *render, const node *node, value *out) {
  value value;
  TRY(eval(render, node->a, &value));
  TRY(refuse_undefined(value));
  if (!value_number(value))
    return INVALID("bad operand type for unary %c: '%s'", node->op, value_type(value));
  if (node->op == '-') return negate(value, out);
  *out = value.kind == VALUE_BOOL ? value_int((int64_t)value.u.truth) : value;
  return NULL;
}

static clave_status eval_binary(render *render, const node *node, value *out) {
  value left, right;
  TRY(eval(render, node->a, &left));
  TRY(eval(render, node->b, &right));
  return arithmetic(render, (binary_op)node->op, left, right, out);
}

static clave_status eval_concat(render *render, const node *op_node, value *out) {
  builder builder = {0};
  clave_status st = NULL;
  for (const node *i = op_node->a; i && !st; i = i->next) {
    value value;
    st = eval(render, i, &value);
    if (!st) st = append_str(&render->arena, &builder, value);
  }
  if (!st) return builder_string(&render->arena, &builder, out);
  builder_free(&builder);
  return st;
}

static clave_status eval_compare(render *render, const node *op_node, value *out) {
  value value, result;
  bool truth = true;
  TRY(eval(render, op_node->a, &value));
  for (const node *o = op_node->b; o && truth; o = o->next) {
    TRY(eval(render, o->a, &result));
    TRY(compare(render, (binary_op)o->op, value, result, &truth));
    value = result;
  }
  *out = value_bool(truth);
  return NULL;
}

static clave_status eval_logic(render *render, const node *node, value *out) {
  TRY(eval(render, node->a, out));
  return value_truth(*out) == (node->kind == NODE_AND) ? eval(render, node->b, out) : NULL;
}

static clave_status eval_not(render *render, const node *node, value *out) {
  value value;
  TRY(eval(render, node->a, &value));
  *out = value_bool(!value_truth(value));
  return NULL;
}

static clave_status eval_cond(render *render, const node *node, value *out) {
  value value;
  TRY(eval(render, node->a, &value));
  if (value_truth(value)) return eval(render, node->b, out);
  if (node->c) return eval(render, node->c, out);
  *out = value_undefined("the inline if without an else");
  return NULL;
}

/* ---------------------------------------------------------------- lookups */

static clave_status eval_attribute(render *render, const node *node, value *out) {
  value object;
  TRY(eval(render, node->a, &object));
  if (object.kind == VALUE_LOOP && node->op >= 0) {
    *out = get_loop(object.u.loop, node->op);
    if (out->kind != VALUE_UNDEFINED) return NULL;
  }
  if (object.kind == VALUE_DICT && !node->is_method) {
    const value *item = dict_find_text(object.u.dict, node->constant.u.text);
    *out = item ? *item : value_undefined(node->constant.u.text->data);
    return NULL;
  }
  TRY(refuse_undefined(object));
  return get_attribute(render, object, node->constant.u.text, out);
}

static clave_status eval_slice(render *render, value object, const node *op_node, value *out) {
  const node *parts[] = {op_node->a, op_node->b, op_node->c};
  value bounds[3];
  for (int i = 0; i < 3; i++) {
    bounds[i] = value_none();
    if (parts[i]) TRY(eval(render, parts[i], &bounds[i]));
  }
  return get_slice(render, object, bounds, out);
}

static clave_status eval_item(render *render, const node *node, value *out) {
  value object, key;
  TRY(eval(render, node->a, &object));
  if (node->b->kind == NODE_SLICE) {
    TRY(refuse_undefined(object));
    return eval_slice(render, object, node->b, out);
  }
  TRY(eval(render, node->b, &key));
  TRY(refuse_undefined(object));
  return get_item(render, object, key, out);
}

/* ---------------------------------------------------------------- calls, filters, tests */

static clave_status spread_list(render *render, value value, call_args *out, size_t *capacity);

static clave_status add_item(render *render, value value, call_args *out, size_t *capacity) {
  list list = {out->items, out->count, *capacity};
  TRY(list_add(&render->arena, &list, value));
  out->items = list.items;
  out->count = list.count;
  *capacity = list.capacity;
  return NULL;
}

static clave_status spread_list(render *render, value value, call_args *out, size_t *capacity) {
  list items;
  TRY(value_items(&render->arena, value, &items));
  for (size_t i = 0; i < items.count; i++) TRY(add_item(render, items.items[i], out, capacity));
  return NULL;
}

static clave_status add_named(render *render, const char *name, value value, call_args *out) {
  for (size_t i = 0; i < out->n_named; i++) {
    if (strcmp(out->named[i].name, name) == 0)
      return INVALID("the argument '%.100s' is given twice", name);
  }
  if (out->n_named % 8 == 0) {
    named_value *grown;
    TRY(arena_alloc(&render->arena, out->n_named + 8, sizeof *grown, &grown));
    if (out->n_named) memcpy(grown, out->named, out->n_named * sizeof *grown);
    out->named = grown;
  }
  out->named[out->n_named++] = (named_value){name, value};
  return NULL;
}

static clave_status spread_dict(render *render, value value, call_args *out) {
  if (value.kind != VALUE_DICT) return INVALID("the argument after ** must be a dict");
  for (size_t i = 0; i < value.u.dict->count; i++) {
    const dict_entry *entry = &value.u.dict->entries[i];
    if (entry->key.kind != VALUE_STRING) return INVALID("keywords must be strings");
    char *name;
    TRY(arena_alloc(&render->arena, entry->key.u.text->size + 1, 1, &name));
    memcpy(name, entry->key.u.text->data, entry->key.u.text->size);
    TRY(add_named(render, name, entry->value, out));
  }
  return NULL;
}

clave_status eval_args(render *render, const node *arguments, call_args *out) {
  size_t capacity = 0;
  *out = (call_args){0};
  for (const node *n = arguments; n; n = n->next) {
    value value;
    bool wraps = n->kind == NODE_KEYWORD || n->kind == NODE_SPREAD;
    TRY(eval(render, wraps ? n->a : n, &value));
    if (n->kind == NODE_KEYWORD) {
      TRY(add_named(render, n->name, value, out));
    } else if (n->kind == NODE_SPREAD && n->op == 2) {
      TRY(spread_dict(render, value, out));
    } else if (n->kind == NODE_SPREAD) {
      TRY(spread_list(render, value, out, &capacity));
    } else {
      TRY(add_item(render, value, out, &capacity));
    }
  }
  return NULL;
}

static clave_status eval_call(render *render, const node *node, value *out) {
  value callee;
  call_args args;
  TRY(eval(render, node->a, &callee));
  TRY(eval_args(render, node->b, &args));
  return call_value(render, callee, &args, out);
}

static clave_status eval_filter(render *render, const node *node, value *out) {
  value input;
  call_args args;
  TRY(eval(render, node->a, &input));
  if (node->op < 0) return INVALID("unknown filter '%s'", node->name);
  TRY(eval_args(render, node->b, &args));
  return call_filter(render, node->op, input, &args, out);
}

static clave_status eval_test(render *render, const node *node, value *out) {
  value input;
  call_args args;
  bool truth;
  TRY(eval(render, node->a, &input));
  if (node->op < 0) return INVALID("unknown test '%s'", node->name);
  TRY(eval_args(render, node->b, &args));
  TRY(call_test(render, node->op, input, &args, &truth));
  *out = value_bool(truth);
  return NULL;
}

/* ---------------------------------------------------------------- table */

static clave_status eval_const(render *render, const node *node, value *out) {
  (void)render;
  *out = node->constant;
  return NULL;
}

static clave_status (*const evaluate[])(render *render, const node *node, value *out) = {
    [NODE_CONST] = eval_const,   [NODE_NAME] = eval_name,      [NODE_LIST] = eval_items,
    [NODE_TUPLE] = eval_items,   [NODE_DICT] = eval_dict,      [NODE_UNARY] = eval_unary,
    [NODE_BINARY] = eval_binary, [NODE_CONCAT] = eval_concat,  [NODE_COMPARE] = eval_compare,
    [NODE_AND] = eval_logic,     [NODE_OR] = eval_logic,       [NODE_NOT] = eval_not,
    [NODE_COND] = eval_cond,     [NODE_ATTR] = eval_attribute, [NODE_ITEM] = eval_item,
    [NODE_CALL] = eval_call,     [NODE_FILTER] = eval_filter,  [NODE_TEST] = eval_test};

clave_status eval(render *render, const node *node, value *out) {
  if (node->kind == NODE_CONST) {
    *out = node->constant;
    return NULL;
  }
  clave_status st = arena_charge(&render->arena, 1);
  if (!st && ++render->depth > RENDER_MAX_DEPTH) st = INVALID("nested too deeply");
  if (!st && node->kind == NODE_SLICE) st = UNSUPPORTED("a slice among several subscripts");
  if (!st) st = evaluate[node->kind](render, node, out);
  render->depth--;
  if (!st || render->has_position) return st;
  render->has_position = true;
  return status_while(st, "line %u, column %u", node->line, node->column);
}
