/* The recorder, which each op function is given: it collects the node's commands in a recording and
 * answers questions about the device. */
#include "backend/cpu/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/epilogue.h"

/* ---------------------------------------------------------------- operands */

static void *name_place(cpu_recorder *r, place p) {
  if (!array_reserve(&r->places, &r->cap_places, (size_t)r->n_places + 1, sizeof *r->places)) {
    r->failed = true;
    return NULL;
  }
  r->places[r->n_places++] = p;
  return (void *)(uintptr_t)r->n_places;
}

klayout cpu_layout(const tensor *t) {
  klayout l = {.rank = t->rank};
  memcpy(l.dims, t->dims, (size_t)t->rank * sizeof *l.dims);
  memcpy(l.strides, t->strides, (size_t)t->rank * sizeof *l.strides);
  return l;
}

ktensor cpu_view(cpu_recorder *r, const bound_tensor *x, const tensor *t) {
  int64_t offset = x->t.offset * (int64_t)dtype_size(x->t.type);
  ktensor k = {.data = name_place(r, (place){.slot = x->slot, .offset = offset}),
               .type = x->t.type,
               .rank = t->rank};
  memcpy(k.dims, t->dims, (size_t)t->rank * sizeof *k.dims);
  memcpy(k.strides, t->strides, (size_t)t->rank * sizeof *k.strides);
  return k;
}

ktensor cpu_operand(cpu_recorder *r, const bound_tensor *x) {
  return x ? cpu_view(r, x, &x->t) : (ktensor){0};
}

/* The operands of a command, taken out of its arguments. */
static int take_operands(const cpu_recorder *r, const cpu_command *c, cpu_operand_place *out) {
  int n = 0;
  for (const uint16_t *at = c->k->operands; *at; at++) {
    void **data = cpu_data_at(c->args, (uint16_t)(*at - 1));
    uintptr_t number = (uintptr_t)*data;
    *data = NULL;
    if (number == 0) continue;
    const place *p = &r->places[number - 1];
    out[n++] = (cpu_operand_place){.slot = p->slot,
                                   .at = (uint16_t)(*at - 1),
                                   .is_packed = p->is_packed,
                                   .unless = p->unless,
                                   .offset = p->offset};
  }
  return n;
}

/* ---------------------------------------------------------------- recording */

static clave_status add_command(cpu_recording *r, cpu_command **out) {
  if (!array_reserve(&r->commands, &r->capacity, (size_t)r->n + 1, sizeof *r->commands))
    return status_no_memory();
  *out = &r->commands[r->n];
  **out = (cpu_command){0};
  return NULL;
}

static void free_command(const cpu_command *c) {
  free(c->args);
  free(c->operands);
}

kernel_context cpu_kernel_context(const backend *b) {
  return (kernel_context){.n_threads = (int)b->info.compute_units};
}

/* As a stream gives it to kernels of the node. */
static kernel_context context_of(const cpu_recorder *r) {
  kernel_context ctx = cpu_kernel_context(r->b);
  if (r->n_threads) ctx.n_threads = r->n_threads;
  return ctx;
}

clave_status cpu_record_kernel(cpu_recorder *r, const kernel_desc *k, const void *args) {
  cpu_command *c;
  cpu_operand_place operands[KERNEL_MAX_OPERANDS];
  if (r->failed) return status_no_memory();
  TRY(add_command(r->out, &c));
  c->k = k;
  c->args = malloc(k->args_size);
  if (!c->args) return status_no_memory();
  memcpy(c->args, args, k->args_size);
  c->n_operands = take_operands(r, c, operands);
  c->operands = malloc(sizeof *operands * (size_t)c->n_operands + 1);
  if (!c->operands) {
    free_command(c);
    return status_no_memory();
  }
  memcpy(c->operands, operands, sizeof *operands * (size_t)c->n_operands);
  r->out->n++;
  const kernel_context ctx = context_of(r);
  c->n_threads = r->n_threads;
  size_t scratch = k->scratch ? k->scratch(&ctx, c->args) : 0;
  if (scratch > r->out->base.scratch_bytes) r->out->base.scratch_bytes = scratch;
  return NULL;
}

bool cpu_is_fast(const cpu_recorder *r) { return r->fast; }
void cpu_takes_epilogue(cpu_recorder *r) { r->has_epilogue = true; }
bool cpu_has_own_epilogue(const cpu_recorder *r, const node *n) {
  return r->has_epilogue || !epilogue_of(n->instruction);
}
void cpu_rounds(cpu_recorder *r, rounding how) { r->out->base.rounds = how; }

bool cpu_may_pack(const cpu_recorder *r, const bound_tensor *x) {
  return x->is_constant && r->out->base.n_weights < MAX_PACKED_WEIGHTS;
}

/* pack: owned from here on; NULL */
static const void *request_weight(cpu_recorder *r, const cpu_packed_request *f,
                                  cpu_recording *pack) {
  recording *out = &r->out->base;
  const void *data = name_place(r, (place){.slot = (uint32_t)out->n_weights, .is_packed = true});
  out->weights[out->n_weights++] =
      (packed_weight_request){.constant = f->x->constant,
                              .view = f->x->t,
                              .kind = (int)f->kind,
                              .size = {f->size[0], f->size[1], f->size[2]},
                              .bytes = pack ? pack->base.scratch_bytes : 0,
                              .pack = pack ? &pack->base : NULL};
  return data;
}

cpu_packed_or_plain cpu_packed_by_others(cpu_recorder *r, const cpu_packed_request *f,
                                         const bound_tensor *x) {
  const void *packed = request_weight(r, f, NULL);
  const place p = {.slot = x->slot,
                   .unless = (uint16_t)r->out->base.n_weights,
                   .offset = x->t.offset * (int64_t)dtype_size(x->t.type)};
  return (cpu_packed_or_plain){.packed = packed, .plain = name_place(r, p)};
}

clave_status cpu_packed(cpu_recorder *r, const cpu_packed_request *f, const void **data) {
  cpu_recording *pack = calloc(1, sizeof *pack);
  if (!pack) return status_no_memory();
  cpu_recorder own = *r; /* whose places the arguments have */
  own.out = pack;
  own.n_threads = 0;
  clave_status st = cpu_record_kernel(&own, f->k, f->args);
  if (st) {
    cpu_recording_destroy(r->b, &pack->base);
    return st;
  }
  *data = request_weight(r, f, pack);
  return NULL;
}

/* ---------------------------------------------------------------- choosing */

tuning_key cpu_key(const cpu_recorder *r) {
  tuning_key k = tuning_key_begin(r->b->tuning, r->choices);
  if (r->fast) tuning_key_int(&k, "fast", 1);
  return k;
}

const kernel_variant *cpu_choose(cpu_recorder *r, const variants *all, const tuning_key *key) {
  return tuning_choose(r->b->tuning, r->choices, all, key);
}

void cpu_recording_destroy(backend *b, recording *base) {
  cpu_recording *r = (cpu_recording *)base;
  if (!r) return;
  for (int i = 0; i < r->base.n_weights; i++) cpu_recording_destroy(b, r->base.weights[i].pack);
  for (int i = 0; i < r->n; i++) free_command(&r->commands[i]);
  free(r->commands);
  free(r);
}

const cpu_command *cpu_recorded_commands(const recording *base, int *n) {
  const cpu_recording *r = (const cpu_recording *)base;
  *n = r->n;
  return r->commands;
}
