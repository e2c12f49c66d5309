/* A method's inputs and outputs: set and bound, put in place where a device can use them there, and
 * read and written for a run. argument_memory.c has the memory that they lie in. */
#include "interp/run/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "interp/host_copy.h"
#include "interp/run/argument_memory.h"
#include "interp/run/bindings.h"
#include "interp/run/streams.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- setting */

static clave_status check_input(const session *s, const ir_argument *a, const tensor *v) {
  if (a->tensor == IR_NONE) {
    ir_value_type type = s->prog->ir.values.items[a->value].type;
    bool fits = v->rank == 0 && (type == IR_VALUE_TYPE_FLOAT || !dtype_has_fractions(v->type));
    return fits ? NULL
                : INVALID("expected a %s scalar, got %s of rank %d",
                          type == IR_VALUE_TYPE_FLOAT ? "float" : "integer", dtype_name(v->type),
                          v->rank);
  }
  const tensor *want = &s->prog->types[a->tensor];
  char have_text[128], want_text[128];
  bool fits = v->type == want->type && v->rank == want->rank;
  for (int i = 0; fits && i < want->rank; i++)
    fits = dim_matches(v->dims[i], want->dims[i]) && v->dims[i] >= 0;
  if (fits) return NULL;
  return INVALID("expected %s %s, got %s %s", dtype_name(want->type),
                 tensor_shape_text(want, want_text, sizeof want_text), dtype_name(v->type),
                 tensor_shape_text(v, have_text, sizeof have_text));
}

static const char *first_element(const host_tensor *h) {
  return (const char *)h->data + h->t.offset * (int64_t)dtype_size(h->t.type);
}

static clave_status copy_in(session *s, argument *in, const host_tensor *value) {
  size_t bytes;
  TRY(known_bytes(&value->t, &bytes));
  TRY(argument_use_own(s, in, bytes));
  copy_to_contiguous(&value->t, value->data, in->data);
  return NULL;
}

/* The tensor stays where it is, if it can; else each run copies it. */
static clave_status refer_to(session *s, argument *in, const host_tensor *value) {
  size_t bytes;
  TRY(known_bytes(&value->t, &bytes));
  in->is_gathered = !tensor_is_contiguous(&value->t);
  in->source = *value;
  if (!in->is_gathered) argument_use_memory(s, in, (void *)(uintptr_t)first_element(value), bytes);
  return NULL;
}

static clave_status store_input(session *s, const ir_argument *a, argument *in,
                                const host_tensor *value, bool refers) {
  TRY(check_input(s, a, &value->t));
  in->is_gathered = false;
  in->source = (host_tensor){0};
  if (a->tensor == IR_NONE)
    return scalar_from_bytes(value->t.type, (const unsigned char *)first_element(value),
                             s->prog->ir.values.items[a->value].type, &in->scalar);
  TRY(refers ? refer_to(s, in, value) : copy_in(s, in, value));
  in->t = value->t;
  tensor_set_contiguous(&in->t);
  return NULL;
}

static clave_status find_argument(const ir_method *m, const ir_arguments *all, const char *what,
                                  uint32_t index) {
  if (index < all->count) return NULL;
  return INVALID("%s %u of method '%s', which has %u", what, index, m->name, all->count);
}

static clave_status give_input(session *s, uint32_t number, uint32_t index,
                               const host_tensor *value, bool refers) {
  const ir_method *m = &s->prog->ir.methods.items[number];
  TRY(find_argument(m, &m->inputs, "input", index));
  const ir_argument *a = &m->inputs.items[index];
  argument *in = &s->methods[number].inputs[index];
  clave_status st = value ? store_input(s, a, in, value, refers) : NULL;
  if (!value && (in->is_on_device || in->shared.is_open)) argument_use_memory(s, in, NULL, 0);
  in->set = value && !st;
  return status_while(st, "input %u ('%s') of method '%s'", index, a->name, m->name);
}

clave_status session_set_input(session *s, uint32_t number, uint32_t index,
                               const host_tensor *value) {
  return give_input(s, number, index, value, false);
}

clave_status session_bind_input(session *s, uint32_t number, uint32_t index,
                                const host_tensor *value) {
  return give_input(s, number, index, value, true);
}

static clave_status check_offset(size_t offset, dtype type) {
  if (offset % dtype_size(type) == 0) return NULL;
  return INVALID("offset %zu is not a multiple of %zu, the size of an element (%s)", offset,
                 dtype_size(type), dtype_name(type));
}

static clave_status store_device_input(session *s, const ir_argument *a, argument *in,
                                       const tensor *t, device_memory at) {
  size_t bytes;
  TRY(check_input(s, a, t));
  if (a->tensor == IR_NONE) return INVALID("a scalar is set from the host's memory");
  if (!tensor_is_contiguous(t)) return INVALID("it is not contiguous in the device's memory");
  TRY(check_offset(at.offset, t->type));
  TRY(known_bytes(t, &bytes));
  TRY(argument_use_callers(s, in, at, bytes, false));
  in->is_gathered = false;
  in->t = *t;
  tensor_set_contiguous(&in->t);
  return NULL;
}

clave_status session_bind_input_memory(session *s, uint32_t number, uint32_t index, const tensor *t,
                                       device_memory at) {
  const ir_method *m = &s->prog->ir.methods.items[number];
  TRY(find_argument(m, &m->inputs, "input", index));
  const ir_argument *a = &m->inputs.items[index];
  argument *in = &s->methods[number].inputs[index];
  clave_status st = store_device_input(s, a, in, t, at);
  in->set = !st;
  return status_while(st, "input %u ('%s') of method '%s'", index, a->name, m->name);
}

/* Refuses an output in the memory of a constant, which is read in place. */
static clave_status check_constants(const session *s, const ir_argument *a, const void *data,
                                    size_t bytes) {
  const uintptr_t begin = (uintptr_t)data;
  for (uint32_t i = 0; i < s->prog->ir.constants.count; i++) {
    const uintptr_t at = (uintptr_t)s->prog->constants[i];
    size_t size;
    TRY(known_bytes(&s->prog->types[i], &size));
    if (at && begin < at + size && at < begin + bytes)
      return INVALID("output '%s': expected memory of its own, got that of constant '%s'", a->name,
                     s->prog->ir.constants.items[i].name);
  }
  return NULL;
}

static clave_status check_apart(const session *s, uint32_t number, uint32_t index) {
  const ir_method *m = &s->prog->ir.methods.items[number];
  const argument *outputs = s->methods[number].outputs;
  for (uint32_t i = 0; i < m->outputs.count; i++)
    if (i != index && outputs[i].is_bound && arguments_overlap(&outputs[i], &outputs[index]))
      return INVALID("the memory of outputs %u ('%s') and %u ('%s') of method '%s' overlaps", i,
                     m->outputs.items[i].name, index, m->outputs.items[index].name, m->name);
  return NULL;
}

/* An output that begins anew, in memory that it has then. */
static clave_status begin_output(session *s, uint32_t number, uint32_t index, argument **out) {
  const ir_method *m = &s->prog->ir.methods.items[number];
  TRY(find_argument(m, &m->outputs, "output", index));
  *out = &s->methods[number].outputs[index];
  s->methods[number].has_run = false; /* its result may have lain there */
  return NULL;
}

/* It has memory of the caller's now; if not good, it goes back to the session's own. */
static clave_status end_output(session *s, uint32_t number, uint32_t index, clave_status st) {
  argument *out = &s->methods[number].outputs[index];
  out->is_bound = !st;
  if (!st) st = check_apart(s, number, index);
  if (!st) return NULL;
  argument_use_memory(s, out, NULL, 0);
  out->is_bound = false;
  return st;
}

clave_status session_bind_output(session *s, uint32_t number, uint32_t index, void *data,
                                 size_t bytes) {
  argument *out;
  TRY(begin_output(s, number, index, &out));
  const ir_method *m = &s->prog->ir.methods.items[number];
  TRY(status_while(check_constants(s, &m->outputs.items[index], data, data ? bytes : 0),
                   "method '%s'", m->name));
  argument_use_memory(s, out, data, data ? bytes : 0);
  out->is_bound = false;
  return data ? end_output(s, number, index, NULL) : NULL;
}

clave_status session_bind_output_memory(session *s, uint32_t number, uint32_t index,
                                        device_memory at, size_t bytes) {
  argument *out;
  TRY(begin_output(s, number, index, &out));
  const ir_method *m = &s->prog->ir.methods.items[number];
  const ir_argument *a = &m->outputs.items[index];
  clave_status st =
      a->tensor == IR_NONE ? NULL : check_offset(at.offset, s->prog->types[a->tensor].type);
  if (!st) st = argument_use_callers(s, out, at, bytes, true);
  st = status_while(st, "output %u ('%s') of method '%s'", index, a->name, m->name);
  return end_output(s, number, index, st);
}

clave_status session_output(session *s, uint32_t number, uint32_t index, host_tensor *out) {
  const ir_method *m = &s->prog->ir.methods.items[number];
  TRY(find_argument(m, &m->outputs, "output", index));
  const argument *a = &s->methods[number].outputs[index];
  if (!s->methods[number].has_run) return INVALID("method '%s' has not run", m->name);
  *out = (host_tensor){a->t, a->shared.is_open ? NULL : a->data};
  return NULL;
}

/* ---------------------------------------------------------------- in place */

static bool is_in_arena(const running *r, uint32_t block_index) {
  const block *k = &r->b->p->blocks[block_index];
  return k->kind == BLOCK_ARENA &&
         r->b->blocks[block_index].buf == r->s->arenas[k->backend].chunks[k->a.chunk];
}

/* Puts a block of the current schedule where the argument is, if the device can use that. */
static clave_status place(const running *r, argument *a, uint32_t block_index, bool writable) {
  session *s = r->s;
  const block *k = &r->b->p->blocks[block_index];
  backend *be = s->devices.backends[k->backend];
  if (!is_in_arena(r, block_index) || k->part != r->b->p->number) return NULL;
  if (a->is_on_device && a->device == k->backend) r->b->blocks[block_index] = argument_on_device(a);
  if (!argument_can_wrap(be, a)) return NULL;
  if (!a->wrapped[k->backend])
    TRY(be->vt->buffer_wrap(be, a->data, a->room, writable, &a->wrapped[k->backend]));
  r->b->blocks[block_index] = (address){.buf = a->wrapped[k->backend]};
  return NULL;
}

static clave_status place_input(const running *r, uint32_t i) {
  const schedule *p = r->b->p;
  uint32_t tid = r->g->method->inputs.items[i].tensor;
  if (tid == IR_NONE || p->at[tid].storage == NO_INDEX) return NULL;
  const storage *g = &p->storages[p->at[tid].storage];
  for (int b = 0; b < r->s->devices.count; b++)
    if (g->block[b] != NO_INDEX && g->bytes)
      TRY(place(r, &r->state->inputs[i], g->block[b], false));
  return NULL;
}

static bool overlaps_input(const running *r, const argument *out) {
  for (uint32_t i = 0; i < r->g->method->inputs.count; i++)
    if (arguments_overlap(out, &r->state->inputs[i])) return true;
  return false;
}

/* Memory for the result, of these sizes. */
static clave_status reserve_output(const running *r, uint32_t i) {
  const ir_argument *a = &r->g->method->outputs.items[i];
  argument *out = &r->state->outputs[i];
  size_t bytes = 8;
  if (a->tensor != IR_NONE) {
    out->t = r->b->p->types[a->tensor];
    TRY(known_bytes(&out->t, &bytes));
  }
  tensor_set_contiguous(&out->t);
  if (!out->is_bound) return argument_use_own(r->s, out, bytes);
  if (bytes <= out->room) return NULL;
  return INVALID("output %u ('%s') has %zu bytes, there is room for %zu", i, a->name, bytes,
                 out->room);
}

/* Whether the storage holds this contiguous tensor and nothing else. */
static bool is_whole(const location *l, const storage *g) {
  return g->slot == NO_INDEX && tensor_is_contiguous(&l->t) && l->t.offset == 0 &&
         (size_t)tensor_numel(&l->t) * dtype_size(l->t.type) == g->bytes;
}

/* A result of its own, that no other argument's memory holds. */
static clave_status place_output(const running *r, uint32_t i) {
  const schedule *p = r->b->p;
  uint32_t tid = r->g->method->outputs.items[i].tensor;
  const location *l = tid == IR_NONE ? NULL : &p->at[tid];
  if (!l || l->storage == NO_INDEX || l->storage < p->first_storage) return NULL;
  const storage *g = &p->storages[l->storage];
  if (!is_whole(l, g)) return NULL;
  TRY(reserve_output(r, i));
  argument *out = &r->state->outputs[i];
  return overlaps_input(r, out) ? NULL : place(r, out, g->block[g->home], true);
}

clave_status place_arguments(const running *r) {
  const ir_method *m = r->g->method;
  for (uint32_t i = 0; i < m->inputs.count; i++) TRY(place_input(r, i));
  for (uint32_t i = 0; i < m->outputs.count; i++) TRY(place_output(r, i));
  return NULL;
}

/* ---------------------------------------------------------------- a run */

/* True if a bound input is a result of the last run, in memory that this run may replace. */
static bool is_last_result(const running *r, const argument *in) {
  const uintptr_t at = in->source.data ? (uintptr_t)first_element(&in->source) : 0;
  for (uint32_t i = 0; at && i < r->g->method->outputs.count; i++) {
    const argument *out = &r->state->outputs[i];
    const uintptr_t own = (uintptr_t)out->own;
    if (own && at >= own && at < own + out->capacity) return true;
  }
  return false;
}

clave_status gather_inputs(const running *r) {
  const ir_arguments *inputs = &r->g->method->inputs;
  for (uint32_t i = 0; i < inputs->count; i++) {
    argument *in = &r->state->inputs[i];
    if (in->set && (in->is_gathered || is_last_result(r, in))) TRY(copy_in(r->s, in, &in->source));
  }
  return NULL;
}

/* Of the caller's memory on a device the others get copies. */
static clave_status write_input(const running *r, const argument *in, const storage *g, int b) {
  const address to = r->b->blocks[g->block[b]];
  if (in->is_on_device)
    return in->device == b ? NULL
                           : copy_bytes(r, in->device, argument_on_device(in), b, to, g->bytes);
  return enqueue_write(r->s->streams[b], to.buf, to.offset, in->data, g->bytes);
}

clave_status write_inputs(const running *r) {
  const session *s = r->s;
  const schedule *p = r->b->p;
  const ir_arguments *inputs = &r->g->method->inputs;
  for (uint32_t i = 0; i < inputs->count; i++) {
    uint32_t tid = inputs->items[i].tensor;
    if (tid == IR_NONE || p->at[tid].storage == NO_INDEX) continue;
    const storage *g = &p->storages[p->at[tid].storage];
    for (int b = 0; b < s->devices.count; b++) {
      if (g->block[b] == NO_INDEX || !g->bytes || p->blocks[g->block[b]].part != p->number)
        continue;
      TRY(write_input(r, &r->state->inputs[i], g, b));
    }
  }
  return NULL;
}

static clave_status read_scalar(const running *r, const scalar_value *v, argument *o) {
  unsigned char element[8];
  scalar_to_bytes(v, &o->t, o->is_on_device ? element : o->data);
  if (!o->is_on_device) return NULL;
  stream *s = r->s->streams[o->device];
  const address to = argument_on_device(o);
  return s->owner->vt->write(s, to.buf, to.offset, element, dtype_size(o->t.type));
}

static clave_status read_output(const running *r, uint32_t i) {
  const schedule *p = r->b->p;
  const ir_argument *a = &r->g->method->outputs.items[i];
  argument *o = &r->state->outputs[i];
  TRY(reserve_output(r, i));
  if (a->tensor == IR_NONE) return read_scalar(r, &p->values[a->value], o);
  size_t bytes;
  TRY(known_bytes(&o->t, &bytes));
  const storage *g = &p->storages[p->at[a->tensor].storage];
  const address from = r->b->blocks[g->block[g->home]];
  if (!o->is_on_device)
    return enqueue_read(r->s->streams[g->home], from.buf, from.offset, o->data, bytes);
  if (from.buf == o->wrapped[g->home]) return NULL; /* made there */
  return copy_bytes(r, g->home, from, o->device, argument_on_device(o), bytes);
}

/* A result that lies on an input is read when no other device needs that any more. */
static clave_status wait_for_inputs(const running *r) {
  const argument *outputs = r->state->outputs;
  for (uint32_t i = 0; i < r->g->method->outputs.count && r->s->devices.count > 1; i++)
    if (outputs[i].is_bound && overlaps_input(r, &outputs[i])) return finish_all(r->s, r->g);
  return NULL;
}

clave_status read_outputs(const running *r) {
  TRY(wait_for_inputs(r));
  for (uint32_t i = 0; i < r->g->method->outputs.count; i++) TRY(read_output(r, i));
  return NULL;
}
