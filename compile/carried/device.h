#ifndef COMPILE_CARRIED_DEVICE_H
#define COMPILE_CARRIED_DEVICE_H
/* Which device runs a carried program. */
#include "base/memory.h"

/* As clave_device_open takes it. device: "cpu" or "opencl", what the executable was compiled for;
 * said: what a user says, NULL or "": nothing; from: who said it, for messages. INVALID: it names
 * what is no OpenCL device; or there is none, with how to get one. */
clave_status carried_device(const char *device, const char *said, const char *from,
                            const char **out) STATUS_CHECK;
/* An error of opening it, with what it is about; NULL stays NULL. Consumes st. */
clave_status carried_why(const char *device, clave_status st) STATUS_CHECK;

#endif
