/* Running what was recorded. A stream has kernel objects of its own for each recording that it
 * runs, with their arguments set: the steady state sets those that changed, which are few, and
 * enqueues. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

typedef struct bound_launch {
  cl_kernel handle;  /* owned; NULL until it is made */
  bool has_run;      /* all arguments were set */
  uint64_t *serials; /* owned (n_pointers): of the buffers that were set */
  uint8_t *numbers;  /* behind them: the struct as it was set */
  void *instead;     /* owned: the state of what runs instead of CLBlast */
} bound_launch;

typedef struct cl_state {
  uint64_t serial; /* of the recording */
  int n;
  bound_launch launches[];
} cl_state;

/* ---------------------------------------------------------------- lifetime */

void opencl_state_destroy(stream *base, void *state) {
  const cl_stream *s = (const cl_stream *)base;
  cl_state *c = state;
  if (!c) return;
  for (int i = 0; i < c->n; i++) {
    if (c->launches[i].handle) s->cl->clReleaseKernel(c->launches[i].handle);
    free(c->launches[i].serials);
    opencl_state_destroy(base, c->launches[i].instead);
  }
  free(c);
}

/* A state of the recording, in place of another's. */
static clave_status state_of(stream *s, const cl_recording *r, void **state) {
  cl_state *c = *state;
  if (c && c->serial == r->base.serial) return NULL;
  opencl_state_destroy(s, c);
  *state = c = calloc(1, sizeof *c + sizeof *c->launches * (size_t)r->n);
  if (!c) return status_no_memory();
  c->serial = r->base.serial;
  c->n = r->n;
  return NULL;
}

/* ---------------------------------------------------------------- arguments */

/* i: of the signature. */
static clave_status set(const cl_stream *s, const recorded_launch *l, const bound_launch *b, int i,
                        size_t size, const void *data) {
  cl_int code = s->cl->clSetKernelArg(b->handle, l->places.at[i], size, data);
  if (code == CL_SUCCESS) return NULL;
  return status_while(opencl_status(code, "clSetKernelArg"), "kernel %s argument %d (%s)",
                      l->signature->kernel, i, l->signature->args[i].name);
}

/* NULL: the stream's fault record, which stands for a tensor of nothing as well. A buffer is known
 * by its serial, since its handle may be that of one that was released. */
static clave_status set_memory(const cl_stream *s, const recorded_launch *l, bound_launch *b, int i,
                               const cl_buffer *buf) {
  const cl_mem *memory = buf ? &buf->memory : &s->fault;
  uint64_t serial = buf ? buf->serial : 0, *was = &b->serials[l->places.at[i]];
  if (*was == serial && b->has_run) return NULL;
  TRY(set(s, l, b, i, sizeof *memory, memory));
  *was = serial;
  return NULL;
}

/* bytes: of the number, 4 or 8. True: it changed. */
static bool put_number(const recorded_launch *l, const bound_launch *b, int i, uint64_t number,
                       size_t bytes) {
  uint32_t narrow = (uint32_t)number;
  const void *data = bytes == sizeof narrow ? (const void *)&narrow : &number;
  uint8_t *place = b->numbers + l->places.at[i];
  if (memcmp(place, data, bytes) == 0) return false;
  memcpy(place, data, bytes);
  return true;
}

/* The buffer that value i holds at present, or NULL, and the offset of element 0. */
static const cl_buffer *launch_memory(const recorded_launch *l, int i, const run_operands *o,
                                      int64_t *offset) {
  const launch_value *v = &l->values[i];
  *offset = l->values[i + 1].as.i;
  if (v->kind == VALUE_SCRATCH) return (const cl_buffer *)o->scratch;
  if (v->kind == VALUE_PACKED) return (const cl_buffer *)o->weights[v->as.i];
  if (v->kind != VALUE_OPERAND) return NULL;
  const bound_tensor *t = &o->tensors[v->as.operand.slot];
  *offset += (int64_t)(t->buffer_offset / dtype_size(v->as.operand.type));
  return (const cl_buffer *)t->buf;
}

/* A buffer, and behind it the offset of element 0. changed: set where a number is another. */
static clave_status set_operand(const cl_stream *s, const recorded_launch *l, bound_launch *b,
                                int i, const run_operands *o, bool *changed) {
  int64_t offset;
  const cl_buffer *buf = launch_memory(l, i, o, &offset);
  if (put_number(l, b, i + 1, (uint64_t)offset, sizeof offset)) *changed = true;
  return set_memory(s, l, b, i, buf);
}

/* An image of a packed weight's words, which is made once and stays as long as the weight. */
static clave_status set_image(const cl_stream *s, const recorded_launch *l, bound_launch *b, int i,
                              const run_operands *o) {
  cl_buffer *weight = (cl_buffer *)o->weights[l->values[i].as.i];
  uint64_t *was = &b->serials[l->places.at[i]];
  cl_mem image;
  if (*was == weight->serial && b->has_run) return NULL;
  TRY(opencl_buffer_image(s->device, weight, &image));
  TRY(set(s, l, b, i, sizeof image, &image));
  *was = weight->serial;
  return NULL;
}

static bool is_memory(const launch_value *v) { return v->kind <= VALUE_ABSENT; }

/* The struct of numbers, which is the last argument. rusticl (Mesa 22.3) takes no bytes behind the
 * last number, though the struct has them. */
static clave_status set_numbers(const cl_stream *s, const recorded_launch *l,
                                const bound_launch *b) {
  const arg_places *p = &l->places;
  cl_int code = s->cl->clSetKernelArg(b->handle, p->n_pointers, p->size, b->numbers);
  if (code == CL_INVALID_ARG_SIZE && p->end < p->size)
    code = s->cl->clSetKernelArg(b->handle, p->n_pointers, p->end, b->numbers);
  CL_TRY(code, "clSetKernelArg");
  return NULL;
}

static clave_status set_changed(cl_stream *s, const recorded_launch *l, bound_launch *b,
                                const run_operands *o) {
  bool changed = !b->has_run;
  for (int i = 0; i < l->n_values; i++) {
    const launch_value *v = &l->values[i];
    if (is_memory(v)) TRY(set_operand(s, l, b, i++, o, &changed));
    if (v->kind == VALUE_IMAGE) TRY(set_image(s, l, b, i, o));
    if (v->kind == VALUE_SEED && put_number(l, b, i, o->random.seed, 8)) changed = true;
    if (v->kind == VALUE_RUN && put_number(l, b, i, (uint64_t)o->random.run, 4)) changed = true;
  }
  const kernel_signature *g = l->signature;
  for (int i = l->n_values; i < g->n_args; i++) {
    bool is_node = g->args[i].kind == ARG_FAULT_NODE;
    if (is_node && put_number(l, b, i, s->number, sizeof s->number)) changed = true;
    if (!is_node) TRY(set_memory(s, l, b, i, NULL));
    s->fault_armed = true;
  }
  return changed ? set_numbers(s, l, b) : NULL;
}

/* Numbers that stay, and local memory. */
static clave_status set_constants(const cl_stream *s, const recorded_launch *l, bound_launch *b) {
  for (int i = 0; i < l->n_values; i++) {
    const launch_value *v = &l->values[i];
    raw_arg r;
    if (is_memory(v)) i++;
    if (v->kind <= VALUE_RUN) continue;
    launch_raw(v, l->signature->args[i].kind, l->wide, l->compute, &r);
    if (r.data)
      memcpy(b->numbers + l->places.at[i], r.data, r.size);
    else
      TRY(set(s, l, b, i, r.size, NULL));
  }
  return NULL;
}

/* ---------------------------------------------------------------- launches */

/* Of what a launch asks its device may take less, of work-items in a group its kernel, too. */
static clave_status check_groups(const cl_stream *s, const recorded_launch *l, cl_kernel kernel) {
  size_t most = s->device->entry->traits.most_groups;
  const size_t items = l->local[0] * l->local[1] * l->local[2];
  for (int i = 1; i < l->dims; i++)
    if (l->global[i] / l->local[i] > most)
      return UNSUPPORTED("kernel %s takes %zu groups of work-items in a dimension at most, not %zu",
                         l->signature->kernel, most, l->global[i] / l->local[i]);
  CL_TRY(s->cl->clGetKernelWorkGroupInfo(kernel, s->device->entry->id, CL_KERNEL_WORK_GROUP_SIZE,
                                         sizeof most, &most, NULL),
         "clGetKernelWorkGroupInfo");
  if (items <= most) return NULL;
  return UNSUPPORTED("kernel %s takes groups of %zu work-items at most, not of %zu",
                     l->signature->kernel, most, items);
}

static clave_status make_kernel(cl_stream *s, const recorded_launch *l, bound_launch *b) {
  b->serials = calloc(1, l->places.n_pointers * sizeof *b->serials + l->places.size);
  if (!b->serials) return status_no_memory();
  b->numbers = (uint8_t *)(b->serials + l->places.n_pointers);
  TRY(program_kernel(s->device, l->program, &b->handle));
  TRY(check_groups(s, l, b->handle));
  return set_constants(s, l, b);
}

static clave_status enqueue(cl_stream *s, const recorded_launch *l, const bound_launch *b) {
  clave_status st;
  cl_event *event = stream_event(s, &st);
  if (st) return st;
  cl_int code = s->cl->clEnqueueNDRangeKernel(s->queue, b->handle, (cl_uint)l->dims, NULL,
                                              l->global, l->local, 0, NULL, event);
  if (code != CL_SUCCESS)
    return status_while(opencl_status(code, "clEnqueueNDRangeKernel"), "kernel %s",
                        l->signature->kernel);
  if (event) s->n_events++;
  return NULL;
}

/* A kernel object's first launch: where the driver wants it, a kernel's first one is over before
 * another thread's. */
static clave_status enqueue_first(cl_stream *s, const recorded_launch *l, const bound_launch *b) {
  cl_device *d = s->device;
  if (!d->first_alone) return enqueue(s, l, b);
  mutex_lock(d->first_lock);
  bool is_first = program_first_launch(l->program);
  clave_status st = enqueue(s, l, b);
  cl_int code = is_first && !st ? s->cl->clFinish(s->queue) : CL_SUCCESS;
  mutex_unlock(d->first_lock);
  return code == CL_SUCCESS ? st : opencl_status(code, "clFinish");
}

static void drop_kernel(const cl_stream *s, bound_launch *b) {
  if (b->handle) s->cl->clReleaseKernel(b->handle);
  free(b->serials);
  *b = (bound_launch){0};
}

static clave_status run_product(cl_stream *s, const recorded_launch *l, bound_launch *b,
                                const run_operands *o) {
  if (!blas_is_refused(s->device)) {
    clave_status st = blas_run(s, l->blas, o);
    if (!st) return NULL;
    blas_refuse(s->device, st);
    status_free(st);
  }
  return opencl_run(&s->base, &l->instead->base, &b->instead, o, s->number);
}

static clave_status run_launch(cl_stream *s, const recorded_launch *l, bound_launch *b,
                               const run_operands *o) {
  if (l->blas) return run_product(s, l, b, o);
  bool first = !b->has_run;
  clave_status st = b->handle ? NULL : make_kernel(s, l, b);
  if (!st) st = set_changed(s, l, b, o);
  if (st) {
    drop_kernel(s, b); /* half of its arguments may be set */
    return st;
  }
  b->has_run = true;
  if (first && program_mark_run(l->program)) s->unsaved = true;
  return first ? enqueue_first(s, l, b) : enqueue(s, l, b);
}

clave_status opencl_prepare(stream *base, const recording *r, void **state) {
  cl_stream *s = (cl_stream *)base;
  const cl_recording *c = (const cl_recording *)r;
  TRY(state_of(base, c, state));
  cl_state *k = *state;
  for (int i = 0; i < c->n; i++) {
    bound_launch *b = &k->launches[i];
    if (c->launches[i].blas || b->handle) continue;
    clave_status st = make_kernel(s, &c->launches[i], b);
    if (!st) continue;
    drop_kernel(s, b);
    return st;
  }
  return NULL;
}

clave_status opencl_run(stream *base, const recording *r, void **state, const run_operands *o,
                        uint32_t number) {
  cl_stream *s = (cl_stream *)base;
  const cl_recording *c = (const cl_recording *)r;
  const cl_state *before = *state;
  if (!before || before->serial != r->serial) TRY(opencl_prepare(base, r, state)); /* all first */
  cl_state *b = *state;
  s->number = number;
  for (int i = 0; i < c->n; i++) TRY(run_launch(s, &c->launches[i], &b->launches[i], o));
  return NULL;
}
