#ifndef COMPILE_CARRIED_DEVICE_H
#define COMPILE_CARRIED_DEVICE_H
/* Which device runs a carried program. */
#include "base/memory.h"
#include "clave.h"

/* As clave_device_open takes it. device: "cpu" or "opencl", what the executable was compiled for;
 * said: what a user says, NULL or "": nothing; from: who said it, for messages. INVALID: it names
 * what is no OpenCL device; or there is none, with how to get one. */
clave_status carried_device(const char *device, const char *said, const char *from,
                            const char **out) STATUS_CHECK;
/* An error of opening it, with what it is about; NULL stays NULL. Consumes st. */
clave_status carried_why(const char *device, clave_status st) STATUS_CHECK;

/* A status of the library as one of ours, which it becomes; NULL stays NULL. */
clave_status carried_status(clave_status of_library) STATUS_CHECK;
/* Keeps the status of a library's call in the place of its last one's. Whether it is an error. */
int carried_answer(clave_status *kept, clave_status st);
/* The device that CLAVE_DEVICE says. note: may be NULL. */
clave_status carried_open(int n_threads, void (*note)(void *ctx, const char *line), void *ctx,
                          clave_device **out) STATUS_CHECK;

#endif
