#ifndef COMPILE_CARRIED_DEVICE_H
#define COMPILE_CARRIED_DEVICE_H
/* Chooses and opens the device of a carried program. */
#include "base/memory.h"
#include "clave.h"

/* Sets *out to a device spec for clave_device_open. device: "cpu" or "opencl", the executable's
 * target. choice: the user's choice; NULL or "" if none exists. from: its origin, for messages.
 * Fails with INVALID if `choice` is not an OpenCL device, or if there is no such device; the
 * message then says how to get one. */
clave_status carried_device(const char *device, const char *choice, const char *from,
                            const char **out) STATUS_CHECK;
/* Adds the device to the message of an error on opening it; NULL stays NULL. Consumes st. */
clave_status carried_why(const char *device, clave_status st) STATUS_CHECK;

/* Converts a status of the library to one of ours and frees it; NULL stays NULL. */
clave_status carried_status(clave_status of_library) STATUS_CHECK;
/* Replaces the kept status by that of the latest call. Returns nonzero if it is an error. */
int carried_answer(clave_status *kept, clave_status st);
/* Opens the device that CLAVE_DEVICE selects. note: may be NULL. */
clave_status carried_open(int n_threads, void (*note)(void *ctx, const char *line), void *ctx,
                          clave_device **out) STATUS_CHECK;

#endif
