/* A session's side of the device: in-order queue, copies, error record, times. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

/* ---------------------------------------------------------------- the caller's queue */

static void drop_before(cl_stream *s) {
  if (s->before) s->cl->clReleaseEvent(s->before);
  s->before = NULL;
}

/* The two queues meet in a marker, so that the caller's is never waited for as a whole, and may
 * run out of order. */
clave_status opencl_begin(stream *base) {
  cl_stream *s = (cl_stream *)base;
  cl_command_queue callers = s->device->callers;
  if (!callers) return NULL;
  drop_before(s);
  cl_int code = s->cl->clEnqueueMarkerWithWaitList(callers, 0, NULL, &s->before);
  if (code != CL_SUCCESS) {
    s->before = NULL;
    return opencl_status(code, "clEnqueueMarkerWithWaitList");
  }
  CL_TRY(s->cl->clFlush(callers), "clFlush");
  CL_TRY(s->cl->clEnqueueBarrierWithWaitList(s->queue, 1, &s->before, NULL),
         "clEnqueueBarrierWithWaitList");
  return NULL;
}

/* Once all is over: what followed commands that failed is void. */
static clave_status check_before(cl_stream *s) {
  cl_int outcome = CL_COMPLETE;
  if (!s->before) return NULL;
  cl_int code = s->cl->clGetEventInfo(s->before, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof outcome,
                                      &outcome, NULL);
  drop_before(s);
  CL_TRY(code, "clGetEventInfo");
  if (outcome >= 0) return NULL;
  return opencl_status(outcome, "the caller's commands before the run");
}

/* ---------------------------------------------------------------- create, destroy */

static clave_status make_queue(cl_stream *s, bool profiling, cl_command_queue *out) {
  cl_int code;
  *out = s->cl->clCreateCommandQueue(s->device->context, s->device->entry->id,
                                     profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
  if (code == CL_SUCCESS) return NULL;
  *out = NULL;
  return opencl_status(code, "clCreateCommandQueue");
}

static clave_status clear_fault(cl_stream *s) {
  static const fault_record none;
  CL_TRY(s->cl->clEnqueueWriteBuffer(s->queue, s->fault, CL_TRUE, 0, sizeof none, &none, 0, NULL,
                                     NULL),
         "clEnqueueWriteBuffer");
  return NULL;
}

static clave_status init_stream(cl_stream *s) {
  s->saves_late = quirk_slow_binaries(s->device->base.info.platform);
  s->blocking_maps = quirk_blocking_maps(s->device->base.info.platform);
  TRY(make_queue(s, false, &s->queue));
  cl_int code;
  s->fault = s->cl->clCreateBuffer(s->device->context, CL_MEM_READ_WRITE, sizeof(fault_record),
                                   NULL, &code);
  if (code != CL_SUCCESS) {
    s->fault = NULL;
    return opencl_status(code, "clCreateBuffer");
  }
  return clear_fault(s);
}

clave_status opencl_stream_create(backend *b, stream **out) {
  *out = NULL;
  cl_stream *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base.owner = b;
  s->device = (cl_device *)b;
  s->cl = s->device->cl;
  clave_status st = init_stream(s);
  if (st) {
    opencl_stream_destroy(b, &s->base);
    return status_while(st, "opening a queue on %s", b->info.name);
  }
  *out = &s->base;
  return NULL;
}

static void drop_events(cl_stream *s) {
  for (size_t i = 0; i < s->n_events; i++) s->cl->clReleaseEvent(s->events[i].event);
  s->n_events = 0;
}

void opencl_stream_destroy(backend *b, stream *base) {
  (void)b;
  cl_stream *s = (cl_stream *)base;
  if (!s) return;
  if (s->queue) s->cl->clFinish(s->queue);
  if (s->unsaved) {
    builders_wait(s->device);
    programs_save(s->device);
  }
  drop_events(s);
  drop_before(s);
  if (s->fault) s->cl->clReleaseMemObject(s->fault);
  if (s->queue) s->cl->clReleaseCommandQueue(s->queue);
  free(s->events);
  free(s->requested);
  free(s);
}

/* ---------------------------------------------------------------- finish */

static clave_status take_fault(cl_stream *s, device_fault *fault) {
  const fault_record *r = &s->found;
  if (r->kind == KERNEL_FAULT_NONE) return NULL;
  fault->present = true;
  fault->node = r->node;
  fault->fault = (kernel_fault){
      .kind = (kernel_fault_kind)r->kind, .value = r->value, .low = r->low, .high = r->high};
  return clear_fault(s);
}

/* With the fault record: one wait for both. */
static clave_status wait_for_all(cl_stream *s) {
  s->found.kind = KERNEL_FAULT_NONE;
  if (s->fault_armed)
    CL_TRY(s->cl->clEnqueueReadBuffer(s->queue, s->fault, CL_FALSE, 0, sizeof s->found, &s->found,
                                      0, NULL, NULL),
           "clEnqueueReadBuffer");
  CL_TRY(s->cl->clFinish(s->queue), "clFinish");
  s->fault_armed = false;
  return NULL;
}

clave_status opencl_finish(stream *base, device_fault *fault) {
  cl_stream *s = (cl_stream *)base;
  *fault = (device_fault){0};
  TRY(wait_for_all(s));
  TRY(check_before(s));
  TRY(take_fault(s, fault));
  builders_reap(s->device);
  if (s->unsaved && !s->saves_late) {
    s->unsaved = false;
    programs_save(s->device);
  }
  return NULL;
}

/* ---------------------------------------------------------------- times */

clave_status opencl_profile(stream *base, bool on) {
  cl_stream *s = (cl_stream *)base;
  drop_events(s);
  if (on == s->profiling) return NULL;
  cl_command_queue queue;
  CL_TRY(s->cl->clFinish(s->queue), "clFinish");
  TRY(make_queue(s, on, &queue));
  s->cl->clReleaseCommandQueue(s->queue);
  s->queue = queue;
  s->profiling = on;
  return NULL;
}

cl_event *stream_event(cl_stream *s, clave_status *st) {
  *st = NULL;
  if (!s->profiling) return NULL;
  if (!array_reserve(&s->events, &s->cap_events, s->n_events + 1, sizeof *s->events)) {
    *st = status_no_memory();
    return NULL;
  }
  s->events[s->n_events].number = s->number;
  return &s->events[s->n_events].event;
}

static clave_status event_times(const cl_stream *s, cl_event e, int64_t *start_ns,
                                int64_t *end_ns) {
  cl_ulong start, end;
  CL_TRY(s->cl->clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL),
         "clGetEventProfilingInfo");
  CL_TRY(s->cl->clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL),
         "clGetEventProfilingInfo");
  *start_ns = (int64_t)start;
  *end_ns = (int64_t)end;
  return NULL;
}

clave_status opencl_times(stream *base, uint32_t number, int64_t *start_ns, int64_t *end_ns) {
  cl_stream *s = (cl_stream *)base;
  bool found = false;
  *start_ns = *end_ns = 0;
  for (size_t i = 0; i < s->n_events; i++) {
    if (s->events[i].number != number) continue;
    int64_t start = 0, end = 0;
    TRY(event_times(s, s->events[i].event, &start, &end));
    if (!found || start < *start_ns) *start_ns = start;
    if (!found || end > *end_ns) *end_ns = end;
    found = true;
  }
  return NULL;
}
