/* Runs methods in the caller's thread or the instance's worker, and reports runs to the
 * profiler. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "clave_host.h"
#include "delegate/objects.h"

/* ---------------------------------------------------------------- a run */

static void delegate_run_relay_timing(void *ctx, const clave_timing *timing) {
  const delegate_instance *in = ctx;
  const clave_delegate_event event = {.size = sizeof event,
                                      .kind = timing->kind == CLAVE_TIMING_NODE
                                                  ? CLAVE_DELEGATE_EVENT_NODE
                                                  : CLAVE_DELEGATE_EVENT_COPY,
                                      .node = timing->node,
                                      .op = timing->op,
                                      .name = timing->name,
                                      .device = timing->device,
                                      .start_ns = timing->start_ns,
                                      .end_ns = timing->end_ns};
  in->options.event(in->options.event_ctx, &event);
}

static clave_status report_run(delegate_instance *in, const char *method, int64_t start) {
  clave_device_info info = {.size = sizeof info};
  clave_method_info run_method;
  const int64_t end = clock_ns();
  if (in->options.node_events)
    TRY_CLAVE(clave_session_timings(in->session, delegate_run_relay_timing, in));
  TRY_CLAVE(clave_device_get_info(in->device->device, &info));
  TRY(delegate_find_method(in->program->program, method, &run_method));
  const clave_delegate_event event = {.size = sizeof event,
                                      .kind = CLAVE_DELEGATE_EVENT_RUN,
                                      .op = "run",
                                      .name = run_method.name,
                                      .device = info.name,
                                      .start_ns = start,
                                      .end_ns = end};
  in->options.event(in->options.event_ctx, &event);
  return NULL;
}

static clave_status delegate_run(delegate_instance *in, const char *method) {
  if (!in->options.event) return own(clave_session_run(in->session, method));
  const int64_t start = clock_ns();
  TRY_CLAVE(clave_session_run(in->session, method));
  return report_run(in, method, start);
}

clave_status delegate_execute(clave_delegate_handle instance, const char *method) {
  delegate_instance *in;
  TRY(instance_enter(instance, &in));
  clave_status st = delegate_run(in, method);
  instance_leave(in);
  return st;
}

/* Unlike other calls, this one is allowed during another call and does not wait for it. */
clave_status delegate_cancel(clave_delegate_handle instance) {
  delegate_instance *in;
  TRY(handle_acquire(HANDLE_INSTANCE, instance, &in));
  instance_cancel(in);
  object_release(&in->object);
  return NULL;
}

/* ---------------------------------------------------------------- the worker */

/* The instance whose worker this thread is, else NULL. */
static _Thread_local const delegate_instance *worker_instance;

static void delegate_run_work(void *ctx) {
  delegate_instance *in = ctx;
  worker_instance = in;
  for (;;) {
    (void)wait_event_wait(in->work, -1);
    wait_event_set(in->work, false);
    if (in->leave) return;
    in->status = delegate_run(in, in->method);
    if (in->done) in->done(in->done_ctx);
    wait_event_set(in->over, true);
  }
}

static clave_status start_worker(delegate_instance *in) {
  if (in->worker && !thread_is_here(in->worker))
    return INVALID(
        "this process was forked after the instance was created: open the device and create "
        "instances after the fork");
  if (in->worker) return NULL;
  if (!in->work) TRY(wait_event_create(&in->work));
  if (!in->over) TRY(wait_event_create(&in->over));
  return thread_create(delegate_run_work, in, &in->worker);
}

static clave_status prepare_run(delegate_instance *in, const char *method) {
  char *copy = method ? strdup(method) : NULL;
  if (method && !copy) return status_no_memory();
  free(in->method);
  in->method = copy;
  return start_worker(in);
}

clave_status delegate_submit(clave_delegate_handle instance, const char *method,
                             void (*done)(void *ctx), void *ctx) {
  delegate_instance *in;
  TRY(instance_enter(instance, &in));
  clave_status st = prepare_run(in, method);
  if (st) {
    instance_leave(in);
    return st;
  }
  in->done = done;
  in->done_ctx = ctx;
  wait_event_set(in->over, false);
  (void)instance_move(in, INSTANCE_BUSY, INSTANCE_SUBMITTED);
  wait_event_set(in->work, true);
  object_release(&in->object); /* a submitted run keeps the instance alive until wait */
  return NULL;
}

/* Returns the status of a finished run, to the first caller only; others get INVALID. */
static clave_status finish_run(delegate_instance *in, bool *over) {
  if (!instance_move(in, INSTANCE_SUBMITTED, INSTANCE_BUSY))
    return INVALID("another thread has already waited for the run");
  *over = wait_event_wait(in->over, 0); /* false: another call waited, and submitted the next run */
  clave_status st = NULL;
  if (*over) {
    st = in->status;
    in->status = NULL;
  }
  (void)instance_move(in, INSTANCE_BUSY, *over ? INSTANCE_IDLE : INSTANCE_SUBMITTED);
  return st;
}

static clave_status delegate_run_wait_for(delegate_instance *in, int timeout_ms, bool *over) {
  if (instance_state_of(in) == INSTANCE_SUBMITTED && !thread_is_here(in->worker))
    return INVALID("this process was forked during the run: only its parent can wait for the run");
  if (worker_instance == in) return INVALID("a run cannot wait for itself: wait in another thread");
  if (instance_state_of(in) != INSTANCE_SUBMITTED)
    return INVALID("no run was submitted, or another thread has already waited for it");
  return wait_event_wait(in->over, timeout_ms) ? finish_run(in, over) : NULL;
}

clave_status delegate_wait(clave_delegate_handle instance, int timeout_ms, bool *over) {
  delegate_instance *in;
  TRY_GIVEN(over);
  *over = false;
  TRY(handle_acquire(HANDLE_INSTANCE, instance, &in));
  clave_status st = delegate_run_wait_for(in, timeout_ms, over);
  object_release(&in->object);
  return st;
}
