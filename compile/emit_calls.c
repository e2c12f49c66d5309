/* The functions of model.c: what a command calls, with arguments as its recording has them and
 * addresses in place of slots. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/cpu/kernels/conv/conv_integer_steps.h"
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/cpu/kernels/gemm/matmul_integer.h"
#include "backend/cpu/recorded.h"
#include "compile/emitter.h"
#include "compile/fields.h"
#include "compile/packed.h"

/* ---------------------------------------------------------------- addresses */

static void write_block(const emitter *e, uint32_t index, int64_t offset, text *to) {
  const block *b = &e->p->blocks[index];
  const char *base = b->kind == BLOCK_CONSTANT ? "model_weights"
                     : b->kind == BLOCK_STATE  ? "m->state"
                                               : "m->arena";
  if (b->kind == BLOCK_REBASED) {
    text_printf(to, "model_at(m->rebased[%zu], %" PRId64 ")", e->k->place[index], offset);
    return;
  }
  if (b->kind == BLOCK_CONSTANT) e->used->constants[b->slot] = true;
  const bool is_slots = b->kind == BLOCK_CONSTANT || b->kind == BLOCK_STATE;
  const size_t at = is_slots ? e->k->slot_place[b->slot] : e->k->place[index];
  text_printf(to, "model_at(%s, %" PRId64 ")", base, (int64_t)at + offset);
}

/* What has no memory is of no elements. */
void write_storage(const emitter *e, uint32_t in, int64_t offset, text *to) {
  const uint32_t b = in == NO_INDEX ? NO_INDEX : e->p->storages[in].block[0];
  if (b == NO_INDEX) {
    text_puts(to, "m->arena");
  } else {
    write_block(e, b, offset, to);
  }
}

int64_t byte_offset(const tensor *t) { return t->offset * (int64_t)dtype_size(t->type); }

static void write_slot(const emitter *e, uint32_t slot, int64_t offset, text *to) {
  const uint32_t n = slot_count(e->k->prog);
  if (slot < n) {
    write_storage(e, e->now[slot].storage, offset, to);
  } else if (slot == n && e->source) {
    text_printf(to, "model_at(%s, %" PRId64 ")", e->source, offset);
  } else {
    write_storage(e, slot == n ? e->copy->x.storage : e->copy->out.storage, offset, to);
  }
}

/* ---------------------------------------------------------------- calls */

enum { NO_FORM = -1 }; /* of those that others make, none is made */

static int find_kernel(const kernel_desc *k) {
  int i = 0;
  while (kernel_infos[i].kernel != k) i++; /* all of them are there */
  return i;
}

typedef struct call_writer {
  const emitter *e;
  const cpu_command *c;
  const int *forms; /* of the recording: their numbers in the model */
} call_writer;

static bool write_pointer(void *ctx, size_t at, text *to) {
  const call_writer *w = ctx;
  for (int i = 0; i < w->c->n_operands; i++) {
    const cpu_operand_place *o = &w->c->operands[i];
    if (o->at != at) continue;
    const bool is_there = !o->is_packed || w->forms[o->slot] != NO_FORM;
    if (!is_there || (o->unless && w->forms[o->unless - 1] != NO_FORM)) {
      text_puts(to, "NULL");
    } else if (o->is_packed) {
      text_printf(to, "m->forms[%d]", w->forms[o->slot]);
    } else {
      write_slot(w->e, o->slot, o->offset, to);
    }
    return true;
  }
  return false;
}

/* Programs are built with the kinds of elementwise steps that they have. */
static void mark_steps(emitted *used, const kstep *steps, int n) {
  for (int i = 0; i < n; i++) {
    uint64_t *bits =
        dtype_has_fractions(steps[i].operand_type) ? used->float_steps : used->int_steps;
    bits[steps[i].kind / 64] |= (uint64_t)1 << steps[i].kind % 64;
  }
}

static void mark_short_steps(emitted *used, const short_elementwise_args *few) {
  mark_steps(used, few->steps, few->head.n_steps);
}

static void mark_used(emitted *used, int kernel, const cpu_command *c) {
  const elementwise_args *all = c->args;
  const conv_integer_steps_args *sums = c->args;
  const matmul_integer_steps_args *products = c->args;
  const void *few = (const char *)c->args + (c->k->steps ? c->k->steps - 1 : 0);
  used->kernels[kernel] = true;
  if (c->k == &kernel_conv_integer_steps)
    mark_steps(used, sums->steps.steps, sums->steps.head.n_steps);
  if (c->k == &kernel_matmul_integer_steps)
    mark_steps(used, products->steps.steps, products->steps.head.n_steps);
  if (c->k == &kernel_elementwise) mark_steps(used, all->steps, all->head.n_steps);
  if (c->k->steps) mark_short_steps(used, few);
}

/* call: "model_call(m" or "model_form(m, 3", to which kernel and arguments are added. */
static void write_call(emitter *e, const cpu_command *c, const int *forms, const char *call,
                       text *to) {
  const int kernel = find_kernel(c->k);
  const kernel_info *info = &kernel_infos[kernel];
  const call_writer w = {e, c, forms};
  mark_used(e->used, kernel, c);
  text_printf(to, "  {\n    const %s args = ", info->args->name);
  write_struct(to, info->args, c->args, &(pointer_writer){write_pointer, (void *)(uintptr_t)&w});
  text_printf(to, ";\n    %s, &%s, &args);\n  }\n", call, info->name);
}

static void write_calls(emitter *e, const recording *r, const int *forms, const char *call,
                        text *to) {
  int n;
  const cpu_command *c = cpu_recorded_commands(r, &n);
  for (int i = 0; i < n; i++) {
    char limited[48];
    (void)snprintf(limited, sizeof limited, "model_call_on(m, %d", c[i].n_threads);
    write_call(e, &c[i], forms, c[i].n_threads ? limited : call, to);
  }
}

/* ---------------------------------------------------------------- forms */

static clave_status add_form(form_list *l, const packed_weight_request *f, int *number,
                             bool *is_new) {
  for (size_t i = 0; i < l->n; i++) {
    *number = (int)i;
    *is_new = false;
    if (packed_weights_equal(&l->items[i], f)) return NULL;
  }
  if (!array_reserve(&l->items, &l->capacity, l->n + 1, sizeof *l->items))
    return status_no_memory();
  *number = (int)l->n;
  *is_new = true;
  l->items[l->n++] = *f;
  return NULL;
}

/* The processors that the program may run on, as plan_scratch has them. */
static const char *levels_of(const compile_options *o) {
  return o->is_portable ? "portable" : NULL;
}

/* How form `number` comes about when the program starts. */
static clave_status emit_form(emitter *e, const packed_weight_request *f, int number) {
  char call[48];
  bool is_packed;
  TRY(packed_add(e->k, e->o, number, f, &e->used->packed, &is_packed));
  if (e->o->packed_only && !is_packed)
    return INVALID(
        "without plain weights there must be packed ones for this processor (%s), and the program "
        "has none",
        e->k->cpu->info.weight_layout);
  if (e->o->packed_only) {
    text_printf(&e->pack, "  model_packed_form(m, %d);\n", number);
    return NULL;
  }
  (void)snprintf(call, sizeof call, "model_form(m, %d", number);
  write_calls(e, f->pack, NULL, call, &e->pack);
  e->form_bytes += plan_aligned(plan_scratch(f->pack, levels_of(e->o)));
  return NULL;
}

/* f itself, or the form of another command that serves it; NULL: there is none. */
static const packed_weight_request *made_form(const emitter *e, const packed_weight_request *f) {
  if (f->pack) return f;
  for (uint32_t i = 0; i < e->p->n_commands; i++) {
    const recording *r = e->p->commands[i].recorded;
    for (int k = 0; r && k < r->n_weights; k++)
      if (r->weights[k].pack && packed_weight_serves(&r->weights[k], f)) return &r->weights[k];
  }
  return NULL;
}

/* numbers: of those that the recording reads. */
static clave_status emit_forms(emitter *e, const recording *r, int numbers[MAX_PACKED_WEIGHTS]) {
  for (int i = 0; i < r->n_weights; i++) {
    const packed_weight_request *f = made_form(e, &r->weights[i]);
    bool is_new = false;
    numbers[i] = NO_FORM;
    if (f) TRY(add_form(&e->forms, f, &numbers[i], &is_new));
    if (is_new) TRY(emit_form(e, f, numbers[i]));
  }
  return NULL;
}

/* ---------------------------------------------------------------- commands */

static void write_node(const emitter *e, uint32_t instruction, text *to) {
  const graph *g = e->k->g;
  if (instruction >= g->n) { /* a state's update */
    text_puts(to, "NULL");
    return;
  }
  text name = {0};
  const ir_instruction *ins = &g->instructions[instruction];
  text_printf(&name, "node %u (%s, %s)", g->source[instruction], op_table[ins->op_type].name,
              ins->name);
  if (name.failed) to->failed = 1;
  if (!name.failed) write_string(to, name.data);
  text_free(&name);
}

clave_status emit_function(emitter *e, const command *c, const char *name, const char *parameters) {
  int forms[MAX_PACKED_WEIGHTS];
  TRY(emit_forms(e, c->recorded, forms));
  text_printf(&e->functions, "static void %s(model *m%s) {\n  if (!model_begin(m, ", name,
              parameters);
  write_node(e, c->instruction, &e->functions);
  text_puts(&e->functions, ")) return;\n");
  const size_t scratch = plan_scratch(c->recorded, levels_of(e->o));
  if (scratch > e->scratch_bytes) e->scratch_bytes = scratch;
  e->copy = c;
  write_calls(e, c->recorded, forms, "model_call(m", &e->functions);
  text_puts(&e->functions, "}\n\n");
  return NULL;
}
