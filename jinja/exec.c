/* Execution of statements, and jinja_render. */
#include <stdalign.h>
#include <string.h>

#include "jinja/render.h"

/* ---------------------------------------------------------------- scopes, assignment */

static value from_context(const render *render, const char *name) {
  value result = value_undefined(name);
  for (size_t i = render->options->n_inputs; i-- > 0;) {
    const char *own = render->options->inputs[i].name;
    if (own && *own == *name && strcmp(own, name) == 0) return render->inputs[i];
    const value *member = NULL;
    if (!own)
      member = dict_find_text(render->inputs[i].u.dict, &(string){name, strlen(name), 0, 0, 0});
    if (member) return *member;
  }
  (void)find_global(name, &result);
  return result;
}

static value initial(render *render, const load *load) {
  if (load->kind == LOAD_CONTEXT) return from_context(render, load->name);
  if (load->kind == LOAD_UNDEFINED) return value_undefined(load->name);
  const activation *activation = render->current;
  for (uint32_t i = 0; i < load->level; i++) activation = activation->parent;
  return activation->slots[load->from];
}

clave_status enter_scope(render *render, const scope *scope) {
  for (size_t i = 0; i < scope->count; i++) {
    const load *load = &scope->loads[i];
    if (load->kind != LOAD_PARAMETER) render->current->slots[load->slot] = initial(render, load);
  }
  return NULL;
}

static clave_status assign_member(render *render, const node *node, value result) {
  const activation *activation = render->current;
  for (uint32_t i = 0; i < node->level; i++) activation = activation->parent;
  value object = activation->slots[node->slot];
  const string *name = node->constant.u.text;
  if (object.kind != VALUE_NAMESPACE)
    return INVALID("cannot assign attribute on non-namespace object '%s'", node->name);
  if (name->size && *name->data == '_')
    return INVALID("a namespace has no attribute that begins with _: '%s'", name->data);
  return dict_set(&render->arena, object.u.dict, node->constant, result);
}

static clave_status assign_each(render *render, const node *op_node, value value) {
  list items;
  size_t n = 0;
  TRY(value_items(&render->arena, value, &items));
  for (const node *i = op_node->a; i; i = i->next) n++;
  if (items.count != n) return INVALID("cannot unpack %zu values into %zu names", items.count, n);
  n = 0;
  for (const node *i = op_node->a; i; i = i->next) TRY(assign(render, i, items.items[n++]));
  return NULL;
}

static clave_status assign_to(render *render, const node *node, value value) {
  if (node->kind == NODE_NAME) {
    render->current->slots[node->slot] = value;
    return NULL;
  }
  return node->kind == NODE_MEMBER ? assign_member(render, node, value)
                                   : assign_each(render, node, value);
}

clave_status assign(render *render, const node *node, value value) {
  clave_status st = assign_to(render, node, value);
  if (!st || render->has_position) return st;
  render->has_position = true;
  return status_while(st, "line %u, column %u", node->line, node->column);
}

/* ---------------------------------------------------------------- blocks */

static clave_status apply_filters(render *render, const node *node, value input, value *out) {
  call_args args;
  if (node->a) TRY(apply_filters(render, node->a, input, &input));
  if (node->op < 0) return INVALID("unknown filter '%s'", node->name);
  TRY(eval_args(render, node->b, &args));
  return call_filter(render, node->op, input, &args, out);
}

clave_status exec_to_string(render *render, const node *body, const node *filters, value *out) {
  builder builder = {0}, *before = render->out;
  render->out = &builder;
  clave_status st = exec(render, body);
  render->out = before;
  if (st) {
    builder_free(&builder);
    return st;
  }
  TRY(builder_string(&render->arena, &builder, out));
  return filters ? apply_filters(render, filters, *out, out) : NULL;
}

static clave_status print(render *render, value value) {
  TRY(append_str(&render->arena, render->out, value));
  return render->out->data.size > JINJA_MAX_OUTPUT
             ? INVALID("the result is longer than %d bytes", JINJA_MAX_OUTPUT)
             : NULL;
}

static clave_status exec_data(render *render, const node *node) {
  return print(render, node->constant);
}

/* Maximum number of operands of a sum that are printed one by one. */
enum { MAX_PARTS = 16 };

/* Stores the operands of a chain of +, from left to right. Returns their number; 0 if there are too
 * many. */
static size_t sum_parts(const node *sum, const node *parts[MAX_PARTS]) {
  size_t count = 1, i;
  for (const node *left = sum; left->kind == NODE_BINARY && left->op == OP_ADD; left = left->a)
    count++;
  if (count > MAX_PARTS) return 0;
  for (i = count; i > 1; sum = sum->a) parts[--i] = sum->b;
  parts[0] = sum;
  return count;
}

/* Prints the operands one by one, and computes the sum only if an operand is not plain text. */
static clave_status print_sum(render *render, const node *op_node) {
  const node *parts[MAX_PARTS];
  value value[MAX_PARTS], sum;
  size_t count = sum_parts(op_node, parts);
  bool plain = count > 0;
  for (size_t i = 0; i < count; i++) {
    TRY(eval(render, parts[i], &value[i]));
    plain = plain && value[i].kind == VALUE_STRING && !value[i].u.text->escaped;
  }
  for (size_t i = 0; i < count && plain; i++) TRY(print(render, value[i]));
  if (plain) return NULL;
  if (!count) TRY(eval(render, op_node, &sum));
  if (count) sum = value[0];
  for (size_t i = 1; i < count; i++) TRY(arithmetic(render, OP_ADD, sum, value[i], &sum));
  return print(render, sum);
}

static clave_status exec_output(render *render, const node *node) {
  value value;
  if (node->a->kind == NODE_BINARY && node->a->op == OP_ADD) return print_sum(render, node->a);
  TRY(eval(render, node->a, &value));
  return print(render, value);
}

static clave_status exec_set(render *render, const node *node) {
  value value;
  TRY(eval(render, node->b, &value));
  return assign(render, node->a, value);
}

static clave_status exec_set_block(render *render, const node *node) {
  value value;
  TRY(enter_scope(render, node->scope));
  TRY(exec_to_string(render, node->c, node->b, &value));
  return assign(render, node->a, value);
}

static clave_status exec_if(render *render, const node *op_node) {
  value value;
  TRY(eval(render, op_node->a, &value));
  if (value_truth(value)) return exec(render, op_node->b);
  for (const node *elif = op_node->c; elif; elif = elif->next) {
    TRY(eval(render, elif->a, &value));
    if (value_truth(value)) return exec(render, elif->b);
  }
  return exec(render, op_node->d);
}

static clave_status exec_macro(render *render, const node *node) {
  return make_macro(render, node, &render->current->slots[node->slot]);
}

static clave_status exec_call_block(render *render, const node *node) {
  value callee, caller, result;
  call_args args;
  named_value *named;
  TRY(eval(render, node->a->a, &callee));
  TRY(eval_args(render, node->a->b, &args));
  TRY(make_macro(render, node->b, &caller));
  TRY(arena_alloc(&render->arena, args.n_named + 1, sizeof *named, &named));
  if (args.n_named) memcpy(named, args.named, args.n_named * sizeof *named);
  named[args.n_named++] = (named_value){"caller", caller};
  args.named = named;
  TRY(call_value(render, callee, &args, &result));
  return print(render, result);
}

static clave_status exec_generation(render *render, const node *node) {
  value body, result;
  TRY(make_macro(render, node->b, &body));
  TRY(call_value(render, body, &(call_args){0}, &result));
  return print(render, result);
}

static clave_status exec_filter_block(render *render, const node *node) {
  value value;
  TRY(enter_scope(render, node->scope));
  TRY(exec_to_string(render, node->c, node->b, &value));
  return print(render, value);
}

static clave_status exec_with(render *render, const node *op_node) {
  const node *target = op_node->a;
  TRY(enter_scope(render, op_node->scope));
  for (const node *i = op_node->b; i; i = i->next, target = target->next) {
    value value;
    TRY(eval(render, i, &value));
    TRY(assign(render, target, value));
  }
  return exec(render, op_node->c);
}

static clave_status exec_jump(render *render, const node *node) {
  render->flow = node->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
  return NULL;
}

/* ---------------------------------------------------------------- loops */

/* Keeps the items for which the loop's condition is true. The condition's scope has its own slots
 * for the target's names. */
static clave_status keep_items(render *render, const node *node, list *items) {
  list kept = {0};
  for (size_t i = 0; i < items->count; i++) {
    value value;
    TRY(enter_scope(render, node->test_scope));
    TRY(assign(render, node->a, items->items[i]));
    for (size_t k = 0; k < node->test_scope->count; k++) {
      const load *load = &node->test_scope->loads[k];
      if (load->kind == LOAD_PARAMETER)
        render->current->slots[load->slot] = render->current->slots[load->from];
    }
    TRY(eval(render, node->e, &value));
    if (value_truth(value)) TRY(list_add(&render->arena, &kept, items->items[i]));
  }
  *items = kept;
  return NULL;
}

/* Sets *completed if the body ran to its end at least once, without break or continue. */
static clave_status run_loop(render *render, const node *node, loop_state *loop, bool *completed) {
  *completed = false;
  for (loop->at = 0; loop->at < loop->items.count; loop->at++) {
    TRY(enter_scope(render, node->scope));
    if (node->loop != SLOT_NONE)
      render->current->slots[node->loop] = (value){VALUE_LOOP, {.loop = loop}};
    TRY(assign(render, node->a, loop->items.items[loop->at]));
    TRY(exec(render, node->c));
    flow left = render->flow;
    render->flow = FLOW_NEXT;
    if (left == FLOW_BREAK) break;
    if (left == FLOW_NEXT) *completed = true;
  }
  return NULL;
}

static clave_status exec_for(render *render, const node *node) {
  loop_state *loop;
  value over;
  bool completed;
  TRY(eval(render, node->b, &over));
  TRY(arena_alloc(&render->arena, 1, sizeof *loop, &loop));
  *loop = (loop_state){.depth = 1};
  TRY(value_items(&render->arena, over, &loop->items));
  if (node->e) TRY(keep_items(render, node, &loop->items));
  TRY(run_loop(render, node, loop, &completed));
  if (completed || !node->d) return NULL;
  TRY(enter_scope(render, node->else_scope));
  return exec(render, node->d);
}

/* ---------------------------------------------------------------- table */

static clave_status (*const execute[])(render *render, const node *node) = {
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

static clave_status exec_one(render *render, const node *node) {
  TRY(arena_charge(&render->arena, 1));
  if (++render->depth > RENDER_MAX_DEPTH) return INVALID("nested too deeply");
  TRY(execute[node->kind](render, node));
  render->depth--;
  return NULL;
}

clave_status exec(render *render, const node *node) {
  for (; node && render->flow == FLOW_NEXT; node = node->next) {
    clave_status st = exec_one(render, node);
    if (!st) continue;
    if (render->has_position) return st;
    render->has_position = true;
    return status_while(st, "line %u, column %u", node->line, node->column);
  }
  return NULL;
}

/* ---------------------------------------------------------------- rendering */

/* Reserves about the size of the output, so that it is rarely reallocated. */
static clave_status exec_reserve_output(const render *render, builder *out) {
  size_t given = 256;
  for (size_t i = 0; i < render->options->n_inputs; i++) given += render->options->inputs[i].size;
  return array_reserve(&out->data.data, &out->data.capacity, given, 1) ? NULL : status_no_memory();
}

static clave_status exec_run(render *render, builder *out) {
  activation top = {0};
  render->out = out;
  render->current = &top;
  TRY(exec_reserve_output(render, out));
  TRY(arena_alloc(&render->arena, render->template->n_slots, sizeof *top.slots, &top.slots));
  render->has_position = true; /* inputs have no position in the template */
  TRY(read_inputs(render));
  render->has_position = false;
  TRY(enter_scope(render, &render->template->scope));
  TRY(exec(render, render->template->body));
  return out->data.failed ? status_no_memory() : NULL;
}

clave_status jinja_render(const jinja_template *template, const jinja_options *options,
                          jinja_output *out) {
  enum { FIRST_BLOCK = 16384 }; /* enough for most renderings */
  alignas(ARENA_ALIGNMENT) unsigned char block[FIRST_BLOCK];
  builder builder = {0};
  render render = {.template = template,
                   .options = options,
                   .arena = {.at = block,
                             .end = block + sizeof block,
                             .limit = JINJA_MAX_MEMORY,
                             .steps = JINJA_MAX_STEPS}};
  *out = (jinja_output){0};
  clave_status st = exec_run(&render, &builder);
  mem_pool_destroy(render.arena.pool);
  if (!st && builder.untrusted && !builder.mask.size && builder.data.size) {
    if (array_reserve(&builder.mask.data, &builder.mask.capacity, builder.data.size, 1)) {
      memset(builder.mask.data, 1, builder.data.size);
      builder.mask.size = builder.data.size;
    } else {
      st = status_no_memory();
    }
  }
  if (st) {
    builder_free(&builder);
    return st;
  }
  *out = (jinja_output){builder.data, builder.mask};
  return NULL;
}

void jinja_output_free(jinja_output *output) {
  text_free(&output->text);
  text_free(&output->untrusted);
}
