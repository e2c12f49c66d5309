#ifndef CLI_ISOLATION_H
#define CLI_ISOLATION_H
#include "json/json.h"
#include "json/writer.h"

/* Writes the members `isolation` and `refused_kernels`. folder: the cache, or NULL. */
void isolation_write(json_writer *writer, const char *folder);
/* Writes the members `first_contact`, how new kernels are tried on the device's driver, and
 * `refused_kernels`. device: a finding of clave probe. Writes nothing for the CPU backend. */
void isolation_write_device(json_writer *writer, const char *folder, const json *device);

#endif
