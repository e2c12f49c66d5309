#ifndef BACKEND_OPENCL_PROGRAM_BINARIES_H
#define BACKEND_OPENCL_PROGRAM_BINARIES_H
/* Kernel binaries of a driver: reads the binary of a program, and packs many binaries in one block
 * of memory for use on the same device. */
#include "backend/opencl/program/cache.h"
#include "backend/opencl/program/program.h"

/* Reads a program's binary; *size is 0 if none exists. The caller owns *data, on failure too. */
clave_status binary_read(const cl_device *device, cl_program handle, unsigned char **data,
                         size_t *size) STATUS_CHECK;

/* Makes the device use the binaries in the options, which are borrowed. Leaves a note if they are
 * for another device or driver. Fails with INVALID if the bytes are not kernel binaries. */
clave_status binaries_use(cl_device *device, const opencl_options *options) STATUS_CHECK;
/* Returns false if there is no binary of that key. out->map stays empty. */
bool binaries_find(const cl_device *device, const uint64_t key[2], cache_entry *out);
/* Appends an entry in the format that binaries_use reads: its size, the entry, and zeros up to a
 * multiple of 8 bytes. */
void binaries_append(text *to, const cache_entry *entry);
/* Reads the entry at *at and advances *at past it. Returns false if it exceeds `size`. */
bool binaries_next(const uint8_t *data, size_t size, size_t *at, const uint8_t **entry,
                   uint64_t *bytes);
/* Writes the appended entries as a file that binaries_use reads, and commits it. */
clave_status binaries_write(const cl_device *device, const text *entries,
                            file_writer *writer) STATUS_CHECK;

#endif
