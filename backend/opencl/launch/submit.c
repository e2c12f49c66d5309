/* Runs recordings. A stream has separate kernel objects for each recording, which keep their
 * arguments. Repeated runs only set the few arguments that changed, and enqueue. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

typedef struct bound_launch {
  cl_kernel handle;  /* owned; NULL until made */
  bool has_run;      /* all arguments have been set */
  uint64_t *serials; /* owned (n_pointers): serials of the buffers that were set */
  uint8_t *numbers;  /* in the same allocation: the struct of numbers that was set last */
  void *instead;     /* owned: state of the recording that replaces CLBlast */
} bound_launch;

typedef struct cl_state {
  uint64_t serial; /* serial of the recording */
  int n;
  bound_launch launches[];
} cl_state;

/* ---------------------------------------------------------------- lifetime */

void opencl_state_destroy(stream *base, void *state) {
  const cl_stream *queue = (const cl_stream *)base;
  cl_state *c = state;
  if (!c) return;
  for (int i = 0; i < c->n; i++) {
    if (c->launches[i].handle && !device_is_lost(queue->device))
      queue->cl->clReleaseKernel(c->launches[i].handle);
    free(c->launches[i].serials);
    opencl_state_destroy(base, c->launches[i].instead);
  }
  free(c);
}

/* Ensures that *state is a state of this recording; replaces the state of another recording. */
static clave_status state_of(stream *stream, const cl_recording *recording, void **state) {
  cl_state *c = *state;
  if (c && c->serial == recording->base.serial) return NULL;
  opencl_state_destroy(stream, c);
  *state = c = calloc(1, sizeof *c + sizeof *c->launches * (size_t)recording->n);
  if (!c) return status_no_memory();
  c->serial = recording->base.serial;
  c->n = recording->n;
  return NULL;
}

/* ---------------------------------------------------------------- arguments */

/* Returns the error of a call that sets an argument: a refusal of the kernel, unless it has run. */
static clave_status argument_error(const recorded_launch *launch, cl_int code) {
  const size_t items = launch_group(launch);
  if (program_has_launched(launch->program, items)) return opencl_status(code, "clSetKernelArg");
  return program_refuse(launch->program, items, opencl_refusal(code, "clSetKernelArg"));
}

/* Sets argument i of the signature. */
static clave_status submit_set(const cl_stream *stream, const recorded_launch *launch,
                               const bound_launch *bound_launch, int i, size_t size,
                               const void *data) {
  cl_int code = stream->cl->clSetKernelArg(bound_launch->handle, launch->places.at[i], size, data);
  if (code == CL_SUCCESS) return NULL;
  return status_while(argument_error(launch, code), "kernel %s argument %d (%s)",
                      launch->signature->kernel, i, launch->signature->args[i].name);
}

/* Sets a buffer. For NULL, an absent tensor, sets the stream's fault record. Buffers are compared
 * by serial, because a new handle may equal a released one. */
static clave_status set_memory(const cl_stream *stream, const recorded_launch *launch,
                               bound_launch *bound_launch, int i, const cl_buffer *buf) {
  const cl_mem *memory = buf ? &buf->memory : &stream->fault;
  uint64_t serial = buf ? buf->serial : 0, *was = &bound_launch->serials[launch->places.at[i]];
  if (*was == serial && bound_launch->has_run) return NULL;
  TRY(submit_set(stream, launch, bound_launch, i, sizeof *memory, memory));
  *was = serial;
  return NULL;
}

/* Stores a number of 4 or 8 bytes. Returns true if it changed. */
static bool put_number(const recorded_launch *launch, const bound_launch *bound_launch, int i,
                       uint64_t number, size_t bytes) {
  uint32_t narrow = (uint32_t)number;
  const void *data = bytes == sizeof narrow ? (const void *)&narrow : &number;
  uint8_t *place = bound_launch->numbers + launch->places.at[i];
  if (memcmp(place, data, bytes) == 0) return false;
  memcpy(place, data, bytes);
  return true;
}

/* Returns the current buffer of value i, or NULL, and the offset of element 0. */
static const cl_buffer *launch_memory(const recorded_launch *launch, int i,
                                      const run_operands *operands, int64_t *offset) {
  const launch_value *value = &launch->values[i];
  *offset = launch->values[i + 1].as.i;
  if (value->kind == VALUE_SCRATCH) return (const cl_buffer *)operands->scratch;
  if (value->kind == VALUE_PACKED) return (const cl_buffer *)operands->weights[value->as.i];
  if (value->kind != VALUE_OPERAND) return NULL;
  const bound_tensor *tensor = &operands->tensors[value->as.operand.slot];
  *offset += (int64_t)(tensor->buffer_offset / dtype_size(value->as.operand.type));
  return (const cl_buffer *)tensor->buf;
}

/* Sets a buffer and the number after it, its offset. Sets *changed if the offset changed. */
static clave_status submit_set_operand(const cl_stream *stream, const recorded_launch *launch,
                                       bound_launch *bound_launch, int i,
                                       const run_operands *operands, bool *changed) {
  int64_t offset;
  const cl_buffer *buf = launch_memory(launch, i, operands, &offset);
  if (put_number(launch, bound_launch, i + 1, (uint64_t)offset, sizeof offset)) *changed = true;
  return set_memory(stream, launch, bound_launch, i, buf);
}

/* Sets the image of a packed weight, which is made once and lives as long as the weight. */
static clave_status set_image(const cl_stream *stream, const recorded_launch *launch,
                              bound_launch *bound_launch, int i, const run_operands *operands) {
  cl_buffer *weight = (cl_buffer *)operands->weights[launch->values[i].as.i];
  uint64_t *was = &bound_launch->serials[launch->places.at[i]];
  cl_mem image;
  if (*was == weight->serial && bound_launch->has_run) return NULL;
  clave_status st = opencl_buffer_image(stream->device, weight, &image);
  if (st) return program_refuse(launch->program, 1, st);
  TRY(submit_set(stream, launch, bound_launch, i, sizeof image, &image));
  *was = weight->serial;
  return NULL;
}

static bool is_memory(const launch_value *value) { return value->kind <= VALUE_ABSENT; }

/* Sets the struct of numbers, which is the last argument. rusticl (Mesa 22.3) rejects the padding
 * after the last number, although the struct has it. */
static clave_status set_numbers(const cl_stream *stream, const recorded_launch *launch,
                                const bound_launch *bound_launch) {
  const arg_places *places = &launch->places;
  cl_int code = stream->cl->clSetKernelArg(bound_launch->handle, places->n_pointers, places->size,
                                           bound_launch->numbers);
  if (code == CL_INVALID_ARG_SIZE && places->end < places->size)
    code = stream->cl->clSetKernelArg(bound_launch->handle, places->n_pointers, places->end,
                                      bound_launch->numbers);
  if (code == CL_SUCCESS) return NULL;
  return status_while(argument_error(launch, code), "kernel %s", launch->signature->kernel);
}

/* Sets the arguments that changed since the last run: buffers, random keys and the number of the
 * node. */
static clave_status set_changed(cl_stream *stream, const recorded_launch *launch,
                                bound_launch *bound_launch, const run_operands *operands) {
  bool changed = !bound_launch->has_run;
  for (int i = 0; i < launch->n_values; i++) {
    const launch_value *value = &launch->values[i];
    if (is_memory(value))
      TRY(submit_set_operand(stream, launch, bound_launch, i++, operands, &changed));
    if (value->kind == VALUE_IMAGE) TRY(set_image(stream, launch, bound_launch, i, operands));
    if (value->kind == VALUE_SEED && put_number(launch, bound_launch, i, operands->random.seed, 8))
      changed = true;
    if (value->kind == VALUE_RUN &&
        put_number(launch, bound_launch, i, (uint64_t)operands->random.run, 4))
      changed = true;
  }
  const kernel_signature *signature = launch->signature;
  for (int i = launch->n_values; i < signature->n_args; i++) {
    bool is_node = signature->args[i].kind == ARG_FAULT_NODE;
    if (is_node && put_number(launch, bound_launch, i, stream->number, sizeof stream->number))
      changed = true;
    if (!is_node) TRY(set_memory(stream, launch, bound_launch, i, NULL));
    stream->fault_armed = true;
  }
  return changed ? set_numbers(stream, launch, bound_launch) : NULL;
}

/* Sets numbers that never change, and local memory. */
static clave_status set_constants(const cl_stream *stream, const recorded_launch *launch,
                                  bound_launch *bound_launch) {
  for (int i = 0; i < launch->n_values; i++) {
    const launch_value *value = &launch->values[i];
    raw_arg arg;
    if (is_memory(value)) i++;
    if (value->kind <= VALUE_RUN) continue;
    launch_raw(value, launch->signature->args[i].kind, launch->wide, launch->compute, &arg);
    if (arg.data)
      memcpy(bound_launch->numbers + launch->places.at[i], arg.data, arg.size);
    else
      TRY(submit_set(stream, launch, bound_launch, i, arg.size, NULL));
  }
  return NULL;
}

/* ---------------------------------------------------------------- launches */

/* Fails if the launch has more groups than the device allows, or groups larger than the kernel
 * allows. The second case is remembered. */
static clave_status submit_check_groups(const cl_stream *stream, const recorded_launch *launch,
                                        cl_kernel kernel) {
  size_t most = stream->device->entry->traits.max_groups;
  const size_t items = launch_group(launch);
  for (int i = 1; i < launch->dims; i++)
    if (launch->global[i] / launch->local[i] > most)
      return UNSUPPORTED("kernel %s: the device allows at most %zu groups in a dimension, got %zu",
                         launch->signature->kernel, most, launch->global[i] / launch->local[i]);
  TRY(program_usable(launch->program, items));
  const cl_int code = stream->cl->clGetKernelWorkGroupInfo(
      kernel, stream->device->entry->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
  if (code != CL_SUCCESS)
    return program_refuse(launch->program, 1, opencl_refusal(code, "clGetKernelWorkGroupInfo"));
  if (items <= most) return NULL;
  return program_refuse(
      launch->program, items,
      UNSUPPORTED("kernel %s: the device allows at most %zu work-items in a group, got %zu",
                  launch->signature->kernel, most, items));
}

static clave_status make_kernel(cl_stream *stream, const recorded_launch *launch,
                                bound_launch *bound_launch) {
  bound_launch->serials =
      calloc(1, launch->places.n_pointers * sizeof *bound_launch->serials + launch->places.size);
  if (!bound_launch->serials) return status_no_memory();
  bound_launch->numbers = (uint8_t *)(bound_launch->serials + launch->places.n_pointers);
  TRY(program_kernel(stream->device, launch->program, &bound_launch->handle));
  TRY(submit_check_groups(stream, launch, bound_launch->handle));
  return set_constants(stream, launch, bound_launch);
}

/* Enqueues split `i` of launch->n_splits. */
static cl_int enqueue_split(const cl_stream *stream, const recorded_launch *launch,
                            const bound_launch *bound_launch, size_t i, cl_event *event) {
  size_t offset[3] = {0}, global[3];
  const int dim = launch->split_dim;
  const size_t groups = launch->global[dim] / launch->local[dim],
               first = groups * i / launch->n_splits, end = groups * (i + 1) / launch->n_splits;
  memcpy(global, launch->global, sizeof global);
  offset[dim] = first * launch->local[dim];
  global[dim] = (end - first) * launch->local[dim];
  return stream->cl->clEnqueueNDRangeKernel(stream->queue, bound_launch->handle,
                                            (cl_uint)launch->dims, offset, global, launch->local, 0,
                                            NULL, event);
}

static cl_int enqueue_whole(const cl_stream *stream, const recorded_launch *launch,
                            const bound_launch *bound_launch, cl_event *event) {
  return stream->cl->clEnqueueNDRangeKernel(stream->queue, bound_launch->handle,
                                            (cl_uint)launch->dims, NULL, launch->global,
                                            launch->local, 0, NULL, event);
}

/* Enqueues a launch. A failure means that the driver refuses the kernel, if it has never accepted a
 * launch of the program in groups of this size, and otherwise that the device has failed and may be
 * lost. */
static clave_status enqueue_one(cl_stream *stream, const recorded_launch *launch,
                                const bound_launch *bound_launch, size_t split) {
  const size_t items = launch_group(launch);
  const bool first = split == 0 && !program_has_launched(launch->program, items);
  clave_status st;
  cl_event *event = stream_event(stream, &st);
  if (st) return st;
  const cl_int code = launch->n_splits > 1
                          ? enqueue_split(stream, launch, bound_launch, split, event)
                          : enqueue_whole(stream, launch, bound_launch, event);
  if (code != CL_SUCCESS) {
    const char *call = "clEnqueueNDRangeKernel";
    st = first ? opencl_refusal(code, call) : stream_failed(stream, code, call);
    st = status_while(st, "kernel %s", launch->signature->kernel);
    return first ? program_refuse(launch->program, items, st) : st;
  }
  if (event && *event) stream->n_events++;
  if (!stream->n_queued++) stream->queued_first = launch->signature->kernel;
  stream->queued_last = launch->signature->kernel;
  const int64_t n_splits = launch->n_splits > 1 ? (int64_t)launch->n_splits : 1;
  return bound_work(stream, launch->estimated_ns / n_splits);
}

static clave_status enqueue(cl_stream *stream, const recorded_launch *launch,
                            const bound_launch *bound_launch) {
  for (size_t i = 1; i < launch->n_splits; i++)
    TRY(enqueue_one(stream, launch, bound_launch, i - 1));
  return enqueue_one(stream, launch, bound_launch, launch->n_splits ? launch->n_splits - 1 : 0);
}

/* Enqueues the first launch of a kernel object. If the driver requires it, waits until a program's
 * first launch is done before another thread launches. */
static clave_status enqueue_first(cl_stream *stream, const recorded_launch *launch,
                                  const bound_launch *bound_launch) {
  cl_device *device = stream->device;
  if (!device->first_alone) return enqueue(stream, launch, bound_launch);
  mutex_lock(device->first_lock);
  bool is_first = program_first_launch(launch->program);
  clave_status st = enqueue(stream, launch, bound_launch);
  cl_int code = is_first && !st ? stream->cl->clFinish(stream->queue) : CL_SUCCESS;
  mutex_unlock(device->first_lock);
  return code == CL_SUCCESS ? st : stream_lost(stream, code, "clFinish");
}

static void drop_kernel(const cl_stream *stream, bound_launch *launch) {
  if (launch->handle && !device_is_lost(stream->device))
    stream->cl->clReleaseKernel(launch->handle);
  free(launch->serials);
  *launch = (bound_launch){0};
}

static clave_status submit_run_product(cl_stream *stream, const recorded_launch *launch,
                                       bound_launch *bound_launch, const run_operands *operands) {
  if (!blas_is_refused(stream->device)) {
    clave_status st = blas_run(stream, launch->blas, operands);
    if (!st) return bound_work(stream, launch->estimated_ns);
    blas_refuse(stream->device, st);
    status_free(st);
  }
  return opencl_run(&stream->base, &launch->instead->base, &bound_launch->instead, operands,
                    stream->number);
}

static clave_status run_launch(cl_stream *stream, const recorded_launch *launch,
                               bound_launch *bound_launch, const run_operands *operands) {
  if (launch->blas) return submit_run_product(stream, launch, bound_launch, operands);
  bool first = !bound_launch->has_run;
  clave_status st = bound_launch->handle ? NULL : make_kernel(stream, launch, bound_launch);
  if (!st) st = set_changed(stream, launch, bound_launch, operands);
  if (st) {
    drop_kernel(stream, bound_launch); /* some of its arguments may be set */
    return st;
  }
  if (!first) return enqueue(stream, launch, bound_launch);
  TRY(enqueue_first(stream, launch, bound_launch));
  bound_launch->has_run = true;
  if (program_mark_run(launch->program, launch_group(launch))) stream->unsaved = true;
  return NULL;
}

clave_status opencl_prepare(stream *base, const recording *recording, void **state) {
  cl_stream *queue = (cl_stream *)base;
  const cl_recording *recorded = (const cl_recording *)recording;
  TRY(state_of(base, recorded, state));
  cl_state *k = *state;
  for (int i = 0; i < recorded->n; i++) {
    bound_launch *launch = &k->launches[i];
    if (recorded->launches[i].blas || launch->handle) continue;
    clave_status st = make_kernel(queue, &recorded->launches[i], launch);
    if (!st) continue;
    drop_kernel(queue, launch);
    return st;
  }
  return NULL;
}

clave_status opencl_run(stream *base, const recording *recording, void **state,
                        const run_operands *operands, uint32_t number) {
  cl_stream *queue = (cl_stream *)base;
  const cl_recording *recorded = (const cl_recording *)recording;
  const cl_state *before = *state;
  TRY(device_alive(queue->device));
  if (!before || before->serial != recording->serial)
    TRY(opencl_prepare(base, recording, state)); /* makes all kernels before the first one runs */
  cl_state *b = *state;
  queue->number = number;
  for (int i = 0; i < recorded->n; i++)
    TRY(run_launch(queue, &recorded->launches[i], &b->launches[i], operands));
  return NULL;
}
