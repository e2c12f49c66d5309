#ifndef BACKEND_OPENCL_PROGRAM_BINARIES_H
#define BACKEND_OPENCL_PROGRAM_BINARIES_H
/* Kernel binaries of a driver: read from programs, and together in memory, for a device that they
 * were made for. */
#include "backend/opencl/program/cache.h"
#include "backend/opencl/program/program.h"

/* size 0: the driver has none. *data is owned by the caller, on failure too. */
clave_status binary_read(const cl_device *device, cl_program handle, unsigned char **data,
                         size_t *size) STATUS_CHECK;

/* Takes those that the options give, borrowed; with a note where they are of another device or
 * driver, which has no use for them. INVALID: they are none. */
clave_status binaries_take(cl_device *device, const opencl_options *options) STATUS_CHECK;
/* False: there is none of that key. map stays empty. */
bool binaries_find(const cl_device *device, const uint64_t key[2], cache_entry *out);
/* Appends one to what binaries_take reads. */
void binaries_append(text *to, const uint64_t key[2], const cache_entry *entry);
/* Writes what was appended as binaries_take reads it, and commits the file. */
clave_status binaries_write(const cl_device *device, const text *entries,
                            file_writer *writer) STATUS_CHECK;

#endif
