/* The stream of a session: an in-order queue, the fault record, and event times. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"
#include "base/clock.h"

/* ---------------------------------------------------------------- the caller's queue */

static void drop_before(cl_stream *stream) {
  if (stream->before) stream->cl->clReleaseEvent(stream->before);
  stream->before = NULL;
}

/* Makes the run wait for the caller's earlier commands, by a marker in the caller's queue and a
 * barrier in ours. The caller's queue, which may be out of order, is not drained. */
clave_status opencl_begin(stream *base) {
  cl_stream *queue = (cl_stream *)base;
  cl_command_queue callers = queue->device->caller_queue;
  TRY(device_alive(queue->device));
  if (!callers) return NULL;
  drop_before(queue);
  cl_int code = queue->cl->clEnqueueMarkerWithWaitList(callers, 0, NULL, &queue->before);
  if (code != CL_SUCCESS) {
    queue->before = NULL;
    return opencl_status(code, "clEnqueueMarkerWithWaitList");
  }
  CL_TRY(queue->cl->clFlush(callers), "clFlush");
  CL_TRY(queue->cl->clEnqueueBarrierWithWaitList(queue->queue, 1, &queue->before, NULL),
         "clEnqueueBarrierWithWaitList");
  return NULL;
}

/* Fails if the caller's commands failed, because the run's results are then invalid. */
static clave_status check_before(cl_stream *stream) {
  cl_int outcome = CL_COMPLETE;
  if (!stream->before) return NULL;
  cl_int code = stream->cl->clGetEventInfo(stream->before, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                           sizeof outcome, &outcome, NULL);
  drop_before(stream);
  CL_TRY(code, "clGetEventInfo");
  if (outcome >= 0) return NULL;
  return opencl_status(outcome, "waiting for the caller's commands before the run");
}

/* ---------------------------------------------------------------- create, destroy */

static clave_status make_queue(cl_stream *stream, bool profiling, cl_command_queue *out) {
  cl_int code;
  *out = stream->cl->clCreateCommandQueue(stream->device->context, stream->device->entry->id,
                                          profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
  code = opencl_made(*out, code);
  if (code == CL_SUCCESS) return NULL;
  *out = NULL;
  return opencl_status(code, "clCreateCommandQueue");
}

static clave_status clear_fault(cl_stream *stream) {
  static const fault_record none;
  CL_TRY(stream->cl->clEnqueueWriteBuffer(stream->queue, stream->fault, CL_TRUE, 0, sizeof none,
                                          &none, 0, NULL, NULL),
         "clEnqueueWriteBuffer");
  return NULL;
}

static clave_status init_stream(cl_stream *stream) {
  stream->saves_late = quirk_slow_binaries(stream->device->base.info.platform);
  stream->blocking_maps = quirk_blocking_maps(stream->device->base.info.platform);
  stream->spins = quirk_spins(stream->device->base.info.platform);
  TRY(make_queue(stream, false, &stream->queue));
  cl_int code;
  stream->fault = stream->cl->clCreateBuffer(stream->device->context, CL_MEM_READ_WRITE,
                                             sizeof(fault_record), NULL, &code);
  code = opencl_made(stream->fault, code);
  if (code != CL_SUCCESS) {
    stream->fault = NULL;
    return opencl_status(code, "clCreateBuffer");
  }
  return clear_fault(stream);
}

clave_status opencl_stream_create(backend *backend, stream **out) {
  *out = NULL;
  cl_stream *queue = calloc(1, sizeof *queue);
  if (!queue) return status_no_memory();
  queue->base.owner = backend;
  queue->device = (cl_device *)backend;
  queue->cl = queue->device->cl;
  clave_status st = init_stream(queue);
  if (st) {
    opencl_stream_destroy(backend, &queue->base);
    return status_while(st, "opening a queue on %s", backend->info.name);
  }
  *out = &queue->base;
  return NULL;
}

static void drop_events(cl_stream *stream) {
  for (size_t i = 0; i < stream->n_events; i++) stream->cl->clReleaseEvent(stream->events[i].event);
  stream->n_events = 0;
}

/* Resets the counters of queued work: the queue is empty. */
static void forget_work(cl_stream *stream) {
  if (stream->mark) stream->cl->clReleaseEvent(stream->mark);
  stream->mark = NULL;
  stream->unflushed = 0;
  stream->unflushed_ns = stream->unmarked_ns = 0;
}

static void close_queue(cl_stream *stream) {
  if (stream->queue) stream->cl->clFinish(stream->queue);
  if (stream->unsaved) {
    builders_wait(stream->device);
    programs_save(stream->device);
  }
  drop_events(stream);
  drop_before(stream);
  forget_work(stream);
  if (stream->fault) stream->cl->clReleaseMemObject(stream->fault);
  if (stream->queue) stream->cl->clReleaseCommandQueue(stream->queue);
}

void opencl_stream_destroy(backend *backend, stream *base) {
  (void)backend;
  cl_stream *queue = (cl_stream *)base;
  if (!queue) return;
  if (!device_is_lost(queue->device)) close_queue(queue);
  free(queue->events);
  free(queue->requested);
  free(queue);
}

/* ---------------------------------------------------------------- finish */

static clave_status read_fault(cl_stream *stream, device_fault *fault) {
  const fault_record *record = &stream->found;
  if (record->kind == KERNEL_FAULT_NONE) return NULL;
  fault->present = true;
  fault->node = record->node;
  fault->fault = (kernel_fault){.kind = (kernel_fault_kind)record->kind,
                                .value = record->value,
                                .low = record->low,
                                .high = record->high};
  return clear_fault(stream);
}

clave_status stream_lost(cl_stream *stream, cl_int code, const char *call) {
  clave_status st = opencl_status(code, call);
  if (stream->n_queued == 1)
    st = status_while(st, "after a launch of kernel %s", stream->queued_last);
  if (stream->n_queued > 1)
    st = status_while(st, "after %u launches, from kernel %s to kernel %s", stream->n_queued,
                      stream->queued_first, stream->queued_last);
  if (status_code_of(st) == STATUS_NO_MEMORY) return st;
  device_set_lost(stream->device);
  return status_while(st, "the device was lost");
}

clave_status stream_failed(cl_stream *stream, cl_int code, const char *call) {
  enum { LAST_STANDARD = -99 }; /* codes of vendors and extensions are below */
  const bool tells_loss = code == CL_DEVICE_NOT_AVAILABLE || code == CL_INVALID_CONTEXT ||
                          code == CL_INVALID_COMMAND_QUEUE || code < LAST_STANDARD;
  clave_status st = opencl_status(code, call);
  if (!tells_loss && stream->cl->clFinish(stream->queue) == CL_SUCCESS) return st;
  device_set_lost(stream->device);
  return status_while(st, "the device was lost");
}

clave_status device_alive(const cl_device *device) {
  if (!device_is_lost(device)) return NULL;
  return status_new(STATUS_DEVICE, "%s was lost in an earlier call: open it again",
                    device->base.info.name);
}

/* Waits for an event without keeping a core busy, where the driver's own wait does. Polls at first,
 * which takes no longer than that wait, and then sleeps for a small share of the time that has
 * passed. */
static void poll_event(const cl_stream *stream, cl_event event) {
  enum { POLLED_NS = 1000000, SHARE = 32, MAX_SLEEP_NS = 1000000 };
  const int64_t begin = clock_ns();
  for (;;) {
    cl_int status = CL_COMPLETE;
    const cl_int code = stream->cl->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                   sizeof status, &status, NULL);
    const int64_t past = clock_ns() - begin, share = past / SHARE;
    if (code != CL_SUCCESS || status <= CL_COMPLETE || status > CL_QUEUED) return;
    if (past > POLLED_NS) clock_sleep(share < MAX_SLEEP_NS ? share : MAX_SLEEP_NS);
  }
}

/* Waits for the queued work. clFinish, which follows, reports all errors. */
static void wait_asleep(const cl_stream *stream) {
  cl_event event = NULL;
  if (stream->cl->clEnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event) != CL_SUCCESS ||
      !event)
    return;
  if (stream->cl->clFlush(stream->queue) == CL_SUCCESS) poll_event(stream, event);
  stream->cl->clReleaseEvent(event);
}

/* Waits for the queue and reads the fault record in the same wait. */
static clave_status wait_for_all(cl_stream *stream) {
  stream->found.kind = KERNEL_FAULT_NONE;
  cl_int code = CL_SUCCESS;
  if (stream->fault_armed)
    code = stream->cl->clEnqueueReadBuffer(stream->queue, stream->fault, CL_FALSE, 0,
                                           sizeof stream->found, &stream->found, 0, NULL, NULL);
  if (code != CL_SUCCESS) return stream_failed(stream, code, "clEnqueueReadBuffer");
  if (stream->spins) wait_asleep(stream);
  code = stream->cl->clFinish(stream->queue);
  if (code != CL_SUCCESS) return stream_lost(stream, code, "clFinish");
  stream->n_queued = 0;
  forget_work(stream);
  stream->fault_armed = false;
  return NULL;
}

clave_status opencl_finish(stream *base, device_fault *fault) {
  cl_stream *queue = (cl_stream *)base;
  *fault = (device_fault){0};
  TRY(device_alive(queue->device));
  TRY(wait_for_all(queue));
  TRY(check_before(queue));
  TRY(read_fault(queue, fault));
  builders_reap(queue->device);
  if (queue->unsaved && !queue->saves_late) {
    queue->unsaved = false;
    programs_save(queue->device);
  }
  return NULL;
}

/* ---------------------------------------------------------------- times */

clave_status opencl_profile(stream *base, bool on) {
  cl_stream *s = (cl_stream *)base;
  drop_events(s);
  if (on == s->profiling) return NULL;
  cl_command_queue queue;
  TRY(device_alive(s->device));
  const cl_int code = s->cl->clFinish(s->queue);
  if (code != CL_SUCCESS) return stream_lost(s, code, "clFinish");
  TRY(make_queue(s, on, &queue));
  s->cl->clReleaseCommandQueue(s->queue);
  s->queue = queue;
  s->profiling = on;
  return NULL;
}

cl_event *stream_event(cl_stream *stream, clave_status *st) {
  *st = NULL;
  if (!stream->profiling) return NULL;
  if (!array_reserve(&stream->events, &stream->cap_events, stream->n_events + 1,
                     sizeof *stream->events)) {
    *st = status_no_memory();
    return NULL;
  }
  stream->events[stream->n_events] = (timed_event){.number = stream->number};
  return &stream->events[stream->n_events].event;
}

static clave_status event_times(const cl_stream *stream, cl_event e, int64_t *start_ns,
                                int64_t *end_ns) {
  cl_ulong start = 0, end = 0;
  CL_TRY(stream->cl->clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof start, &start,
                                             NULL),
         "clGetEventProfilingInfo");
  CL_TRY(stream->cl->clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL),
         "clGetEventProfilingInfo");
  *start_ns = (int64_t)start;
  *end_ns = (int64_t)end;
  return NULL;
}

clave_status opencl_times(stream *base, uint32_t number, int64_t *start_ns, int64_t *end_ns) {
  cl_stream *queue = (cl_stream *)base;
  bool found = false;
  *start_ns = *end_ns = 0;
  for (size_t i = 0; i < queue->n_events; i++) {
    if (queue->events[i].number != number) continue;
    int64_t start = 0, end = 0;
    TRY(event_times(queue, queue->events[i].event, &start, &end));
    if (!found || start < *start_ns) *start_ns = start;
    if (!found || end > *end_ns) *end_ns = end;
    found = true;
  }
  return NULL;
}
