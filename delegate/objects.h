#ifndef DELEGATE_OBJECTS_H
#define DELEGATE_OBJECTS_H
/* The objects that handles refer to, and the functions that look them up. This library makes all
 * statuses that it returns: own() copies statuses of libclave. */
#include <stdatomic.h>

#include "base/sized.h"
#include "base/status.h"
#include "base/threads.h"
#include "delegate/clave_delegate.h"

/* ---- handles.c ---- */
typedef enum handle_kind { HANDLE_DEVICE = 1, HANDLE_PROGRAM, HANDLE_INSTANCE } handle_kind;

/* First member of each object. It is destroyed when its handle is closed and nobody holds it. */
typedef struct object {
  int holds; /* the handle, calls in progress, other objects; private to handles.c */
  void (*destroy)(struct object *object);
} object;

/* Makes a handle, which holds the object. */
clave_status handle_create(handle_kind kind, object *object,
                           clave_delegate_handle *out) STATUS_CHECK;
/* Sets *out (an object **) to the object of a handle, held until object_release, or to NULL. */
clave_status handle_acquire(handle_kind kind, clave_delegate_handle h, void *out) STATUS_CHECK;
/* Makes the handle invalid and releases its hold. */
clave_status handle_close(handle_kind kind, clave_delegate_handle h) STATUS_CHECK;
void object_release(object *object); /* accepts NULL */

/* Returns a copy of the error made by this library, and frees `st`. */
clave_status own(clave_status st) STATUS_CHECK;
#define TRY_CLAVE(expr) TRY(own(expr))
/* Returns the name of the argument or member that an expression such as "field->name" reads. */
const char *read_name(const char *expression);
#define TRY_GIVEN(pointer) \
  if (!(pointer)) return INVALID("%s is NULL", read_name(#pointer))

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
/* Makes a program from the graph; constants are borrowed, or copied. */
clave_status graph_build(const clave_delegate_graph *graph, bool copy,
                         clave_program **out) STATUS_CHECK;
/* Makes a program from one node: its operands are inputs, its results outputs, and its constants
 * zeros. The caller frees *borrowed after the program, also after a failure. */
clave_status graph_build_node(const clave_delegate_graph *graph, uint32_t node, void **borrowed,
                              clave_program **out) STATUS_CHECK;

/* ---- query.c ---- */
/* Describes a method (NULL: the first). INVALID if no method has that name. */
clave_status delegate_find_method(const clave_program *program, const char *method,
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
  void **copies; /* (n_copies): payload and constants; the array and each copy are owned */
  size_t n_copies, cap_copies;
  void (*release)(void *ctx); /* called when the data is no longer read; NULL: was called */
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
  INSTANCE_SUBMITTED, /* a run was submitted and not yet waited for */
  INSTANCE_GONE
} instance_state;
typedef struct delegate_instance {
  object object;
  delegate_program *program; /* held */
  delegate_device *device;   /* held */
  clave_session *session;
  clave_delegate_instance_options options;
  atomic_uint calls; /* private to instance.c: the state, a cancelled flag, the call's number */
  /* For submitted runs, made at the first one. The worker waits for `work` and sets `over`. */
  thread *worker;
  wait_event *work, *over;
  bool leave;   /* tells the worker to exit; set before `work` */
  char *method; /* owned; method of the submitted run; NULL: the first */
  void (*done)(void *ctx);
  void *done_ctx;
  clave_status status; /* status of the submitted run; owned until wait returns it */
} delegate_instance;
/* Acquires the instance for this call alone, until instance_leave. INVALID if it is in use. */
clave_status instance_enter(clave_delegate_handle h, delegate_instance **out) STATUS_CHECK;
void instance_leave(delegate_instance *in);
instance_state instance_state_of(delegate_instance *in);
/* Changes the state, but not the flag of a cancelled call. False if the state is not `from`. */
bool instance_move(delegate_instance *in, instance_state from, instance_state to);
void instance_cancel(delegate_instance *in); /* cancels the call in progress, if any */
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
