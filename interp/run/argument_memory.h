#ifndef INTERP_RUN_ARGUMENT_MEMORY_H
#define INTERP_RUN_ARGUMENT_MEMORY_H
/* Inputs and outputs of a method, and the memory that holds them. */
#include "base/dma_buf.h"
#include "interp/run/session.h"

/* An input or output, contiguous. */
struct argument {
  bool set, is_bound;  /* input: has a value; output: `data` belongs to the caller */
  bool is_gathered;    /* an input that each run copies from `source`, which has strides */
  tensor t;            /* for an output, set by each run */
  scalar_value scalar; /* value of a scalar input, in place of a tensor */
  void *data;          /* `own` or the caller's; NULL: not set yet, or on a device */
  size_t available;    /* bytes available at data */
  memory_start start;  /* address of the caller's memory, to find overlaps */
  bool is_on_device;   /* uses the caller's memory on `device`, at wrapped[device] + offset */
  uint8_t device;
  device_memory given; /* the caller's device memory */
  dma_buf shared;      /* owned; if open, it contains `data` or the device memory */
  bool is_acquired;    /* the run has acquired the dma-buf from its other users */
  void *own;           /* owned */
  size_t capacity;
  host_tensor source;
  buffer *wrapped[MAX_BACKENDS]; /* owned; over the memory; NULL: not made yet, or impossible */
};

void argument_clear(session *session, argument *argument);
/* Moves all inputs, outputs and last results from one session to another; memory stays in place. */
void move_arguments(session *to, session *from);
/* True if the device can use the argument's host memory in place. */
bool argument_can_wrap(const backend *backend, const argument *argument);
/* Makes the argument use this host memory. Existing bindings become stale. */
void argument_use_memory(session *session, argument *argument, void *data, size_t available);
/* Makes the argument use the session's own memory, of at least `bytes`. */
clave_status argument_use_own(session *session, argument *argument, size_t bytes) STATUS_CHECK;
/* Makes the argument use the caller's device memory. On failure the argument is unchanged. */
clave_status argument_use_callers(session *session, argument *argument, device_memory memory,
                                  size_t bytes, bool writable) STATUS_CHECK;
address argument_on_device(const argument *argument);
bool arguments_overlap(const argument *left, const argument *right);
/* acquire_arguments begins the run's access to dma-bufs. release_arguments, called after the last
 * command, ends the access of devices to imported dma-bufs. end_arguments, called when all devices
 * have finished, ends the host's access to mapped ones. Both skip arguments not acquired. */
clave_status acquire_arguments(const running *run) STATUS_CHECK;
clave_status release_arguments(const running *run) STATUS_CHECK;
clave_status end_arguments(const running *run) STATUS_CHECK;

#endif
