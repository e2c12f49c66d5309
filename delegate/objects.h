#ifndef DELEGATE_OBJECTS_H
#define DELEGATE_OBJECTS_H
/* What handles stand for, and how a call gets at it. Statuses that leave this library are made by
 * it: those of libclave are translated by own(). */
#include <stdatomic.h>

#include "base/sized.h"
#include "base/status.h"
#include "base/threads.h"
#include "delegate/clave_delegate.h"

/* ---- handles.c ---- */
typedef enum handle_kind { HANDLE_DEVICE = 1, HANDLE_PROGRAM, HANDLE_INSTANCE } handle_kind;

/* The head of whatever has a handle. It goes when its handle is closed and nobody holds it. */
typedef struct object {
  int holds; /* the handle's, calls under way, other objects; of handles.c */
  void (*destroy)(struct object *object);
} object;

/* Gives object a handle, which holds it. */
clave_status handle_give(handle_kind kind, object *object, clave_delegate_handle *out) STATUS_CHECK;
/* What the handle stands for, held until object_release. */
clave_status handle_take(handle_kind kind, clave_delegate_handle h, void *out) STATUS_CHECK;
/* The handle is none from here on. */
clave_status handle_close(handle_kind kind, clave_delegate_handle h) STATUS_CHECK;
void object_release(object *object); /* takes NULL */

/* The same error, made here; consumes `st`. */
clave_status own(clave_status st) STATUS_CHECK;
#define TRY_CLAVE(expr) TRY(own(expr))
#define TRY_GIVEN(pointer) \
  if (!(pointer)) return INVALID("%s is NULL", #pointer)

/* ---- device.c ---- */
typedef struct delegate_device {
  object object;
  clave_device *device;
} delegate_device;
clave_status delegate_devices_get(int index, clave_device_info *info) STATUS_CHECK;
clave_status delegate_devices_count(int *count) STATUS_CHECK;
clave_status delegate_open(const clave_delegate_device_options *options,
                           clave_delegate_handle *device) STATUS_CHECK;
clave_status delegate_device_info(clave_delegate_handle device,
                                  clave_device_info *info) STATUS_CHECK;
clave_status delegate_close(clave_delegate_handle device) STATUS_CHECK;

/* ---- graph.c ---- */
clave_status graph_check(const clave_delegate_graph *given, clave_delegate_graph *own) STATUS_CHECK;
/* The graph as a program; constants are borrowed, or copied. */
clave_status graph_build(const clave_delegate_graph *graph, bool copy,
                         clave_program **out) STATUS_CHECK;
/* One node of it, its operands as inputs, its results as outputs, zeros for constants: *borrowed is
 * to be freed behind the program, also after a failure. */
clave_status graph_build_node(const clave_delegate_graph *graph, uint32_t node, void **borrowed,
                              clave_program **out) STATUS_CHECK;

/* ---- query.c ---- */
/* NULL is the first. */
clave_status find_method(const clave_program *program, const char *method,
                         clave_method_info *out) STATUS_CHECK;
clave_status delegate_query(clave_delegate_handle device, const clave_delegate_graph *graph,
                            clave_delegate_answer *answers) STATUS_CHECK;
clave_status delegate_query_program(clave_delegate_handle device, clave_delegate_handle program,
                                    const char *method, clave_delegate_answer *answers,
                                    uint32_t n) STATUS_CHECK;

/* ---- program.c ---- */
typedef struct delegate_program {
  object object;
  clave_program *program;
  void **copies; /* owned, each too: of payload and constants (n_copies) */
  size_t n_copies, cap_copies;
  void (*release)(void *ctx); /* the host's, once nothing is read; NULL: was called */
  void *release_ctx;
} delegate_program;
clave_status delegate_load(const clave_delegate_payload *payload,
                           clave_delegate_handle *program) STATUS_CHECK;
clave_status delegate_unload(clave_delegate_handle program) STATUS_CHECK;
clave_status delegate_program_info(clave_delegate_handle program,
                                   clave_program_info *info) STATUS_CHECK;
clave_status delegate_method(clave_delegate_handle program, uint32_t index,
                             clave_method_info *info) STATUS_CHECK;
clave_status delegate_input(clave_delegate_handle program, const char *method, uint32_t index,
                            clave_tensor_info *info) STATUS_CHECK;
clave_status delegate_output(clave_delegate_handle program, const char *method, uint32_t index,
                             clave_tensor_info *info) STATUS_CHECK;
clave_status delegate_state(clave_delegate_handle program, uint32_t index,
                            clave_tensor_info *info) STATUS_CHECK;
clave_status delegate_node(clave_delegate_handle program, const char *method, uint32_t index,
                           clave_node_info *info) STATUS_CHECK;

/* ---- instance.c ---- */
typedef enum instance_state {
  INSTANCE_IDLE = 0,
  INSTANCE_BUSY,      /* a call uses it */
  INSTANCE_SUBMITTED, /* a run was submitted, and not yet waited for */
  INSTANCE_GONE
} instance_state;
typedef struct delegate_instance {
  object object;
  delegate_program *program; /* held */
  delegate_device *device;   /* held */
  clave_session *session;
  clave_delegate_instance_options options;
  atomic_uint calls; /* of instance.c: the state, whether the call is cancelled, its number */
  /* Of submitted runs, made at the first: the worker waits for `work`, and opens `over`. */
  thread *worker;
  wait_event *work, *over;
  bool leave;   /* for the worker, before `work` is opened */
  char *method; /* owned; of the submitted run; NULL: the first */
  void (*done)(void *ctx);
  void *done_ctx;
  clave_status status; /* of the submitted run, owned until it was waited for */
} delegate_instance;
/* The instance for this call alone, until instance_leave. */
clave_status instance_enter(clave_delegate_handle h, delegate_instance **out) STATUS_CHECK;
void instance_leave(delegate_instance *in);
instance_state instance_state_of(delegate_instance *in);
/* Of the call under way, which stays cancelled where it was. False: it is in another state. */
bool instance_move(delegate_instance *in, instance_state from, instance_state to);
void instance_cancel(delegate_instance *in); /* the call under way; none: nothing */
clave_status delegate_create(clave_delegate_handle program, clave_delegate_handle device,
                             const clave_delegate_instance_options *options,
                             clave_delegate_handle *instance) STATUS_CHECK;
clave_status delegate_destroy(clave_delegate_handle instance) STATUS_CHECK;
clave_status delegate_reset(clave_delegate_handle instance) STATUS_CHECK;
clave_status delegate_resize(clave_delegate_handle instance, const char *size,
                             int64_t n) STATUS_CHECK;
clave_status delegate_read_state(clave_delegate_handle instance, uint32_t index, void *data,
                                 size_t bytes) STATUS_CHECK;
clave_status delegate_write_state(clave_delegate_handle instance, uint32_t index, const void *data,
                                  size_t bytes) STATUS_CHECK;
clave_status delegate_copy_state(clave_delegate_handle to, clave_delegate_handle from) STATUS_CHECK;
clave_status delegate_observe(clave_delegate_handle instance, clave_observe_fn each,
                              void *ctx) STATUS_CHECK;

/* ---- bind.c ---- */
clave_status delegate_set_input(clave_delegate_handle instance, const char *method, uint32_t index,
                                const clave_tensor *value) STATUS_CHECK;
clave_status delegate_bind_input(clave_delegate_handle instance, const char *method, uint32_t index,
                                 const clave_tensor *value,
                                 const clave_delegate_memory *memory) STATUS_CHECK;
clave_status delegate_bind_output(clave_delegate_handle instance, const char *method,
                                  uint32_t index, const clave_delegate_memory *memory) STATUS_CHECK;
clave_status delegate_result(clave_delegate_handle instance, const char *method, uint32_t index,
                             clave_tensor *out) STATUS_CHECK;

/* ---- run.c ---- */
clave_status delegate_execute(clave_delegate_handle instance, const char *method) STATUS_CHECK;
clave_status delegate_submit(clave_delegate_handle instance, const char *method,
                             void (*done)(void *ctx), void *ctx) STATUS_CHECK;
clave_status delegate_wait(clave_delegate_handle instance, int timeout_ms, bool *over) STATUS_CHECK;
clave_status delegate_cancel(clave_delegate_handle instance) STATUS_CHECK;

#endif
