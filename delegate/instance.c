/* Instances: a program on a device with its state, used by one call at a time. */
#include <stdlib.h>

#include "delegate/objects.h"

/* ---------------------------------------------------------------- one call at a time */

static clave_status instance_in_use(instance_state state) {
  switch (state) {
    case INSTANCE_SUBMITTED:
      return INVALID("the instance has a submitted run: wait for it first");
    case INSTANCE_GONE:
      return INVALID("the instance is destroyed");
    default:
      return INVALID("another call is using the instance: only one thread at a time may use it");
  }
}

/* delegate_instance.calls: the state, a flag for a cancelled call, and the call's number. */
enum { STATE_MASK = 3, CANCELLED = 4, ONE_CALL = 8 };

static instance_state state_in(unsigned calls) { return (instance_state)(calls & STATE_MASK); }

instance_state instance_state_of(delegate_instance *in) {
  return state_in(atomic_load(&in->calls));
}

bool instance_move(delegate_instance *in, instance_state from, instance_state to) {
  unsigned calls = atomic_load(&in->calls);
  while (state_in(calls) == from)
    if (atomic_compare_exchange_weak(&in->calls, &calls, calls - (unsigned)from + (unsigned)to))
      return true;
  return false;
}

/* Moves an idle instance to `state` for a new call, clears the cancelled flag, and holds the
 * instance. Fails if it is not idle. */
static clave_status acquire_instance(clave_delegate_handle h, instance_state state,
                                     delegate_instance **out) {
  TRY(handle_acquire(HANDLE_INSTANCE, h, out));
  unsigned calls = atomic_load(&(*out)->calls);
  while (state_in(calls) == INSTANCE_IDLE) {
    const unsigned next = calls / ONE_CALL * ONE_CALL + ONE_CALL;
    if (atomic_compare_exchange_weak(&(*out)->calls, &calls, next + (unsigned)state)) return NULL;
  }
  object_release(&(*out)->object);
  *out = NULL;
  return instance_in_use(state_in(calls));
}

clave_status instance_enter(clave_delegate_handle h, delegate_instance **out) {
  return acquire_instance(h, INSTANCE_BUSY, out);
}

void instance_leave(delegate_instance *in) {
  (void)instance_move(in, INSTANCE_BUSY, INSTANCE_IDLE);
  object_release(&in->object);
}

/* Cancels the call in progress, but never one that starts in the meantime. */
void instance_cancel(delegate_instance *in) {
  unsigned calls = atomic_load(&in->calls);
  const unsigned call = calls / ONE_CALL;
  while (calls / ONE_CALL == call && state_in(calls) != INSTANCE_IDLE)
    if (atomic_compare_exchange_weak(&in->calls, &calls, calls | CANCELLED)) return;
}

/* ---------------------------------------------------------------- lifetime */

/* Called when no run is in progress. */
static void stop_worker(delegate_instance *in) {
  if (in->worker && !thread_is_here(in->worker)) return; /* forked: no such thread here */
  if (in->worker) {
    in->leave = true;
    wait_event_set(in->work, true);
    thread_join(in->worker);
  }
  wait_event_destroy(in->work);
  wait_event_destroy(in->over);
  free(in->method);
  status_free(in->status);
}

static void destroy_instance(object *object) {
  delegate_instance *in = (delegate_instance *)object;
  stop_worker(in);
  clave_session_destroy(in->session);
  object_release(in->program ? &in->program->object : NULL);
  object_release(in->device ? &in->device->object : NULL);
  free(in);
}

static bool instance_is_cancelled(void *ctx) {
  delegate_instance *in = ctx;
  return (atomic_load(&in->calls) & CANCELLED) != 0;
}

static clave_status create_session(delegate_instance *in) {
  const clave_delegate_instance_options *instance_options = &in->options;
  const clave_session_options options = {
      .size = sizeof options,
      .memory_budget = instance_options->memory_budget,
      .fast = instance_options->fast,
      .allow_custom_kernels = instance_options->allow_custom_kernels,
      .seed = instance_options->seed,
      .profile = instance_options->event && instance_options->node_events,
      .progress = instance_options->progress,
      .progress_ctx = instance_options->progress_ctx,
      .cancel = instance_is_cancelled,
      .cancel_ctx = in};
  return own(
      clave_session_create(in->program->program, in->device->device, &options, &in->session));
}

static clave_status init_instance(delegate_instance *in, clave_delegate_handle program,
                                  clave_delegate_handle device) {
  TRY(handle_acquire(HANDLE_PROGRAM, program, &in->program));
  TRY(handle_acquire(HANDLE_DEVICE, device, &in->device));
  return create_session(in);
}

clave_status delegate_create(clave_delegate_handle program, clave_delegate_handle device,
                             const clave_delegate_instance_options *options,
                             clave_delegate_handle *instance) {
  clave_delegate_instance_options instance_options;
  TRY_GIVEN(instance);
  *instance = 0;
  TRY(sized_read(options, &instance_options, SIZED(clave_delegate_instance_options, progress_ctx)));
  delegate_instance *in = calloc(1, sizeof *in);
  if (!in) return status_no_memory();
  in->object.destroy = destroy_instance;
  in->options = instance_options;
  clave_status st = init_instance(in, program, device);
  if (!st) st = handle_create(HANDLE_INSTANCE, &in->object, instance);
  if (st) destroy_instance(&in->object);
  return st;
}

clave_status delegate_destroy(clave_delegate_handle instance) {
  delegate_instance *in;
  if (!instance) return NULL;
  TRY(acquire_instance(instance, INSTANCE_GONE, &in));
  clave_status st = handle_close(HANDLE_INSTANCE, instance);
  object_release(&in->object);
  return st;
}

/* ---------------------------------------------------------------- state */

/* Runs `call`, in which s is the session, while no other call can use the instance. */
#define WITH_SESSION(call)            \
  delegate_instance *in;              \
  TRY(instance_enter(instance, &in)); \
  clave_session *s = in->session;     \
  clave_status st = own(call);        \
  instance_leave(in);                 \
  return st

clave_status delegate_reset(clave_delegate_handle instance) {
  WITH_SESSION(clave_session_reset(s));
}

clave_status delegate_resize(clave_delegate_handle instance, const char *size, int64_t n) {
  TRY_GIVEN(size);
  WITH_SESSION(clave_session_resize(s, size, n));
}

clave_status delegate_read_state(clave_delegate_handle instance, uint32_t index, void *data,
                                 size_t bytes) {
  if (bytes) TRY_GIVEN(data);
  WITH_SESSION(clave_session_read_state(s, index, data, bytes));
}

clave_status delegate_write_state(clave_delegate_handle instance, uint32_t index, const void *data,
                                  size_t bytes) {
  if (bytes) TRY_GIVEN(data);
  WITH_SESSION(clave_session_write_state(s, index, data, bytes));
}

clave_status delegate_observe(clave_delegate_handle instance, clave_observe_fn each, void *ctx) {
  WITH_SESSION(clave_session_observe(s, each, ctx));
}

clave_status delegate_copy_state(clave_delegate_handle to, clave_delegate_handle from) {
  delegate_instance *target, *source;
  TRY(instance_enter(to, &target));
  if (to == from) {
    instance_leave(target);
    return NULL;
  }
  clave_status st = instance_enter(from, &source);
  if (!st) {
    st = target->program == source->program
             ? own(clave_session_copy_state(target->session, source->session))
             : INVALID("state can be copied only between instances of the same program");
    instance_leave(source);
  }
  instance_leave(target);
  return st;
}
