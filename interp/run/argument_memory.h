#ifndef INTERP_RUN_ARGUMENT_MEMORY_H
#define INTERP_RUN_ARGUMENT_MEMORY_H
/* Inputs and outputs of a method, and the memory that they lie in. */
#include "base/dma_buf.h"
#include "interp/run/session.h"

/* An input or output, contiguous. */
struct argument {
  bool set, is_bound;  /* of inputs; of outputs: `data` is the caller's */
  bool is_gathered;    /* an input that each run copies from `source`, which has strides */
  tensor t;            /* of outputs: since a run */
  scalar_value scalar; /* in place of a tensor */
  void *data;          /* `own`, or the caller's; NULL: none yet, or on a device */
  size_t room;         /* bytes there */
  memory_start start;  /* of the caller's */
  bool is_on_device; /* the caller's memory is that of `device` from wrapped[device] + offset on */
  uint8_t device;
  device_memory given; /* that memory */
  dma_buf shared;      /* owned; open: `data` or that memory is in it */
  bool is_acquired;    /* it is the run's, since its begin */
  void *own;           /* owned */
  size_t capacity;
  host_tensor source;
  buffer *wrapped[MAX_BACKENDS]; /* owned; the memory in place; NULL: not yet, or not possible */
};

void argument_clear(session *session, argument *argument);
/* All that was set and bound, and the results of last runs, which stay where they are. `from` has
 * none of it then. */
void take_arguments(session *scale, session *from);
/* Whether the device can use it in place: of the host's. */
bool argument_can_wrap(const backend *backend, const argument *argument);
/* Of the host's, from here on; bindings have addresses of before, and of an arena where this may
 * now be in place. */
void argument_use_memory(session *session, argument *argument, void *data, size_t room);
/* The session's own, at least of `bytes`. */
clave_status argument_use_own(session *session, argument *argument, size_t bytes) STATUS_CHECK;
/* On failure it has what it had. */
clave_status argument_use_callers(session *session, argument *argument, device_memory memory,
                                  size_t bytes, bool writable) STATUS_CHECK;
address argument_on_device(const argument *argument);
bool arguments_overlap(const argument *left, const argument *right);
/* dma-bufs are the run's from acquire on. release, behind its last command, hands back what devices
 * import; end, when they have finished, what is mapped. Both take what was not acquired. */
clave_status acquire_arguments(const running *run) STATUS_CHECK;
clave_status release_arguments(const running *run) STATUS_CHECK;
clave_status end_arguments(const running *run) STATUS_CHECK;

#endif
