#ifndef INTERP_RUN_STREAMS_H
#define INTERP_RUN_STREAMS_H
/* The streams of a session: waiting for them, and copying between devices. */
#include "interp/run/session.h"

/* Makes the run wait for earlier commands in the queues that callers share with their devices. */
clave_status begin_streams(const session *session) STATUS_CHECK;
/* Waits for all devices; an error if one of them found invalid data. */
clave_status finish_all(session *session, const graph *graph) STATUS_CHECK;
/* Copies between buffers of two devices or of one. */
clave_status copy_bytes(const running *run, int from_backend, address from, int to_backend,
                        address to, size_t bytes) STATUS_CHECK;
void free_staged(session *session); /* all devices must have finished */

#endif
