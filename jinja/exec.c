/* Statements, and a rendering as a whole. */
#include <stdalign.h>
#include <string.h>

#include "jinja/render.h"

/* ---------------------------------------------------------------- scopes, assignment */

static value from_context(const render *r, const char *name) {
  value v = value_undefined(name);
  for (size_t i = r->options->n_inputs; i-- > 0;) {
    const char *own = r->options->inputs[i].name;
    if (own && *own == *name && strcmp(own, name) == 0) return r->inputs[i];
    const value *member = NULL;
    if (!own) member = dict_find_text(r->inputs[i].u.dict, &(string){name, strlen(name), 0, 0, 0});
    if (member) return *member;
  }
  (void)find_global(name, &v);
  return v;
}

static value initial(render *r, const load *l) {
  if (l->kind == LOAD_CONTEXT) return from_context(r, l->name);
  if (l->kind == LOAD_UNDEFINED) return value_undefined(l->name);
  const activation *a = r->now;
  for (uint32_t i = 0; i < l->level; i++) a = a->parent;
  return a->slots[l->from];
}

clave_status enter_scope(render *r, const scope *s) {
  for (size_t i = 0; i < s->count; i++) {
    const load *l = &s->loads[i];
    if (l->kind != LOAD_PARAMETER) r->now->slots[l->slot] = initial(r, l);
  }
  return NULL;
}

static clave_status assign_member(render *r, const node *t, value v) {
  const activation *a = r->now;
  for (uint32_t i = 0; i < t->level; i++) a = a->parent;
  value of = a->slots[t->slot];
  const string *name = t->constant.u.text;
  if (of.kind != VALUE_NAMESPACE)
    return INVALID("cannot assign attribute on non-namespace object '%s'", t->name);
  if (name->size && *name->data == '_')
    return INVALID("a namespace has no attribute that begins with _: '%s'", name->data);
  return dict_set(&r->arena, of.u.dict, t->constant, v);
}

static clave_status assign_each(render *r, const node *t, value v) {
  list items;
  size_t n = 0;
  TRY(value_items(&r->arena, v, &items));
  for (const node *i = t->a; i; i = i->next) n++;
  if (items.count != n) return INVALID("%zu values for %zu names", items.count, n);
  n = 0;
  for (const node *i = t->a; i; i = i->next) TRY(assign(r, i, items.items[n++]));
  return NULL;
}

static clave_status assign_to(render *r, const node *t, value v) {
  if (t->kind == NODE_NAME) {
    r->now->slots[t->slot] = v;
    return NULL;
  }
  return t->kind == NODE_MEMBER ? assign_member(r, t, v) : assign_each(r, t, v);
}

clave_status assign(render *r, const node *t, value v) {
  clave_status st = assign_to(r, t, v);
  if (!st || r->located) return st;
  r->located = true;
  return status_while(st, "line %u, column %u", t->line, t->column);
}

/* ---------------------------------------------------------------- blocks */

static clave_status apply_filters(render *r, const node *n, value input, value *out) {
  call_args args;
  if (n->a) TRY(apply_filters(r, n->a, input, &input));
  if (n->op < 0) return INVALID("no filter '%s'", n->name);
  TRY(eval_args(r, n->b, &args));
  return call_filter(r, n->op, input, &args, out);
}

clave_status exec_to_string(render *r, const node *body, const node *filters, value *out) {
  builder b = {0}, *before = r->out;
  r->out = &b;
  clave_status st = exec(r, body);
  r->out = before;
  if (st) {
    builder_free(&b);
    return st;
  }
  TRY(builder_string(&r->arena, &b, out));
  return filters ? apply_filters(r, filters, *out, out) : NULL;
}

static clave_status print(render *r, value v) {
  TRY(append_str(&r->arena, r->out, v));
  return r->out->data.size > JINJA_MAX_OUTPUT
             ? INVALID("a text of more than %d bytes", JINJA_MAX_OUTPUT)
             : NULL;
}

static clave_status exec_data(render *r, const node *n) { return print(r, n->constant); }

/* Parts of a sum of texts, which are printed one by one. */
enum { MAX_PARTS = 16 };

/* The operands of a chain of +, from the left; 0: too many. */
static size_t sum_parts(const node *n, const node *parts[MAX_PARTS]) {
  size_t count = 1, i;
  for (const node *s = n; s->kind == NODE_BINARY && s->op == OP_ADD; s = s->a) count++;
  if (count > MAX_PARTS) return 0;
  for (i = count; i > 1; n = n->a) parts[--i] = n->b;
  parts[0] = n;
  return count;
}

/* The sum itself is made only where an operand is no plain text. */
static clave_status print_sum(render *r, const node *n) {
  const node *parts[MAX_PARTS];
  value v[MAX_PARTS], sum;
  size_t count = sum_parts(n, parts);
  bool plain = count > 0;
  for (size_t i = 0; i < count; i++) {
    TRY(eval(r, parts[i], &v[i]));
    plain = plain && v[i].kind == VALUE_STRING && !v[i].u.text->escaped;
  }
  for (size_t i = 0; i < count && plain; i++) TRY(print(r, v[i]));
  if (plain) return NULL;
  if (!count) TRY(eval(r, n, &sum));
  if (count) sum = v[0];
  for (size_t i = 1; i < count; i++) TRY(arithmetic(r, OP_ADD, sum, v[i], &sum));
  return print(r, sum);
}

static clave_status exec_output(render *r, const node *n) {
  value v;
  if (n->a->kind == NODE_BINARY && n->a->op == OP_ADD) return print_sum(r, n->a);
  TRY(eval(r, n->a, &v));
  return print(r, v);
}

static clave_status exec_set(render *r, const node *n) {
  value v;
  TRY(eval(r, n->b, &v));
  return assign(r, n->a, v);
}

static clave_status exec_set_block(render *r, const node *n) {
  value v;
  TRY(enter_scope(r, n->scope));
  TRY(exec_to_string(r, n->c, n->b, &v));
  return assign(r, n->a, v);
}

static clave_status exec_if(render *r, const node *n) {
  value v;
  TRY(eval(r, n->a, &v));
  if (value_truth(v)) return exec(r, n->b);
  for (const node *elif = n->c; elif; elif = elif->next) {
    TRY(eval(r, elif->a, &v));
    if (value_truth(v)) return exec(r, elif->b);
  }
  return exec(r, n->d);
}

static clave_status exec_macro(render *r, const node *n) {
  return make_macro(r, n, &r->now->slots[n->slot]);
}

static clave_status exec_call_block(render *r, const node *n) {
  value callee, caller, v;
  call_args args;
  named_value *named;
  TRY(eval(r, n->a->a, &callee));
  TRY(eval_args(r, n->a->b, &args));
  TRY(make_macro(r, n->b, &caller));
  TRY(arena_alloc(&r->arena, args.n_named + 1, sizeof *named, &named));
  if (args.n_named) memcpy(named, args.named, args.n_named * sizeof *named);
  named[args.n_named++] = (named_value){"caller", caller};
  args.named = named;
  TRY(call_value(r, callee, &args, &v));
  return print(r, v);
}

static clave_status exec_generation(render *r, const node *n) {
  value body, v;
  TRY(make_macro(r, n->b, &body));
  TRY(call_value(r, body, &(call_args){0}, &v));
  return print(r, v);
}

static clave_status exec_filter_block(render *r, const node *n) {
  value v;
  TRY(enter_scope(r, n->scope));
  TRY(exec_to_string(r, n->c, n->b, &v));
  return print(r, v);
}

static clave_status exec_with(render *r, const node *n) {
  const node *target = n->a;
  TRY(enter_scope(r, n->scope));
  for (const node *i = n->b; i; i = i->next, target = target->next) {
    value v;
    TRY(eval(r, i, &v));
    TRY(assign(r, target, v));
  }
  return exec(r, n->c);
}

static clave_status exec_jump(render *r, const node *n) {
  r->flow = n->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
  return NULL;
}

/* ---------------------------------------------------------------- loops */

/* The condition's scope has slots of its own for the target's names. */
static clave_status keep_items(render *r, const node *n, list *items) {
  list kept = {0};
  for (size_t i = 0; i < items->count; i++) {
    value v;
    TRY(enter_scope(r, n->test_scope));
    TRY(assign(r, n->a, items->items[i]));
    for (size_t k = 0; k < n->test_scope->count; k++) {
      const load *l = &n->test_scope->loads[k];
      if (l->kind == LOAD_PARAMETER) r->now->slots[l->slot] = r->now->slots[l->from];
    }
    TRY(eval(r, n->e, &v));
    if (value_truth(v)) TRY(list_add(&r->arena, &kept, items->items[i]));
  }
  *items = kept;
  return NULL;
}

/* *completed: the body ran to its end once, without break or continue. */
static clave_status run_loop(render *r, const node *n, loop_state *loop, bool *completed) {
  *completed = false;
  for (loop->at = 0; loop->at < loop->items.count; loop->at++) {
    TRY(enter_scope(r, n->scope));
    if (n->loop != SLOT_NONE) r->now->slots[n->loop] = (value){VALUE_LOOP, {.loop = loop}};
    TRY(assign(r, n->a, loop->items.items[loop->at]));
    TRY(exec(r, n->c));
    flow left = r->flow;
    r->flow = FLOW_NEXT;
    if (left == FLOW_BREAK) break;
    if (left == FLOW_NEXT) *completed = true;
  }
  return NULL;
}

static clave_status exec_for(render *r, const node *n) {
  loop_state *loop;
  value over;
  bool completed;
  TRY(eval(r, n->b, &over));
  TRY(arena_alloc(&r->arena, 1, sizeof *loop, &loop));
  *loop = (loop_state){.depth = 1};
  TRY(value_items(&r->arena, over, &loop->items));
  if (n->e) TRY(keep_items(r, n, &loop->items));
  TRY(run_loop(r, n, loop, &completed));
  if (completed || !n->d) return NULL;
  TRY(enter_scope(r, n->else_scope));
  return exec(r, n->d);
}

/* ---------------------------------------------------------------- the table */

static clave_status (*const execute[])(render *r, const node *n) = {
    [NODE_DATA] = exec_data,
    [NODE_OUTPUT] = exec_output,
    [NODE_SET] = exec_set,
    [NODE_SET_BLOCK] = exec_set_block,
    [NODE_FOR] = exec_for,
    [NODE_IF] = exec_if,
    [NODE_MACRO] = exec_macro,
    [NODE_CALL_BLOCK] = exec_call_block,
    [NODE_FILTER_BLOCK] = exec_filter_block,
    [NODE_WITH] = exec_with,
    [NODE_GENERATION] = exec_generation,
    [NODE_BREAK] = exec_jump,
    [NODE_CONTINUE] = exec_jump};

static clave_status exec_one(render *r, const node *n) {
  TRY(arena_charge(&r->arena, 1));
  if (++r->depth > RENDER_MAX_DEPTH) return INVALID("nested too deeply");
  TRY(execute[n->kind](r, n));
  r->depth--;
  return NULL;
}

clave_status exec(render *r, const node *n) {
  for (; n && r->flow == FLOW_NEXT; n = n->next) {
    clave_status st = exec_one(r, n);
    if (!st) continue;
    if (r->located) return st;
    r->located = true;
    return status_while(st, "line %u, column %u", n->line, n->column);
  }
  return NULL;
}

/* ---------------------------------------------------------------- rendering */

/* About as much as is printed, so that it is rarely moved. */
static clave_status reserve_output(const render *r, builder *out) {
  size_t given = 256;
  for (size_t i = 0; i < r->options->n_inputs; i++) given += r->options->inputs[i].size;
  return array_reserve(&out->data.data, &out->data.capacity, given, 1) ? NULL : status_no_memory();
}

static clave_status run(render *r, builder *out) {
  activation top = {0};
  r->out = out;
  r->now = &top;
  TRY(reserve_output(r, out));
  TRY(arena_alloc(&r->arena, r->t->n_slots, sizeof *top.slots, &top.slots));
  r->located = true; /* inputs have no place in the template */
  TRY(read_inputs(r));
  r->located = false;
  TRY(enter_scope(r, &r->t->scope));
  TRY(exec(r, r->t->body));
  return out->data.failed ? status_no_memory() : NULL;
}

clave_status jinja_render(const jinja_template *t, const jinja_options *options,
                          jinja_output *out) {
  enum { FIRST_BLOCK = 16384 }; /* what most renderings take */
  alignas(ARENA_ALIGNMENT) unsigned char block[FIRST_BLOCK];
  builder b = {0};
  render r = {.t = t,
              .options = options,
              .arena = {.at = block,
                        .end = block + sizeof block,
                        .limit = JINJA_MAX_MEMORY,
                        .steps = JINJA_MAX_STEPS}};
  *out = (jinja_output){0};
  clave_status st = run(&r, &b);
  mem_pool_destroy(r.arena.pool);
  if (!st && b.written && !b.mask.size && b.data.size) {
    if (array_reserve(&b.mask.data, &b.mask.capacity, b.data.size, 1)) {
      memset(b.mask.data, 1, b.data.size);
      b.mask.size = b.data.size;
    } else {
      st = status_no_memory();
    }
  }
  if (st) {
    builder_free(&b);
    return st;
  }
  *out = (jinja_output){b.data, b.mask};
  return NULL;
}

void jinja_output_free(jinja_output *o) {
  text_free(&o->text);
  text_free(&o->written);
}
