#ifndef INTERP_RUN_STREAMS_H
#define INTERP_RUN_STREAMS_H
/* The streams of a session: waiting for them, and bytes between devices. */
#include "interp/run/session.h"

/* Devices whose maker has a queue: its commands come first. */
clave_status begin_streams(const session *s) STATUS_CHECK;
/* Waits for all devices; an error if one met bad data. */
clave_status finish_all(session *s, const graph *g) STATUS_CHECK;
/* Between buffers of two devices, or of one. */
clave_status copy_bytes(const running *r, int from_backend, address from, int to_backend,
                        address to, size_t bytes) STATUS_CHECK;
void free_staged(session *s); /* all devices have finished */

#endif
