#ifndef BACKEND_OPENCL_PROGRAM_BINARIES_H
#define BACKEND_OPENCL_PROGRAM_BINARIES_H
/* Kernel binaries of a driver: read from a program, and packed together in memory for the device
 * that they were made for. */
#include "backend/opencl/program/cache.h"
#include "backend/opencl/program/program.h"

/* Reads a program's binary; size is 0 if there is none. The caller owns *data, on failure too. */
clave_status binary_read(const cl_device *device, cl_program handle, unsigned char **data,
                         size_t *size) STATUS_CHECK;

/* Uses the binaries that the options pass, which are borrowed. Leaves a note if they are for
 * another device or driver. Fails with INVALID if the bytes are not kernel binaries. */
clave_status binaries_take(cl_device *device, const opencl_options *options) STATUS_CHECK;
/* Returns false if there is no binary of that key. out->map stays empty. */
bool binaries_find(const cl_device *device, const uint64_t key[2], cache_entry *out);
/* Appends an entry in the format that binaries_take reads. */
void binaries_append(text *to, const uint64_t key[2], const cache_entry *entry);
/* Writes the appended entries as a file that binaries_take reads, and commits it. */
clave_status binaries_write(const cl_device *device, const text *entries,
                            file_writer *writer) STATUS_CHECK;

#endif
