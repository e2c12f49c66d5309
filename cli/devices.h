#ifndef CLI_DEVICES_H
#define CLI_DEVICES_H
/* Describes devices as JSON. */
#include "clave.h"
#include "json/writer.h"

/* Writes the members into the open object. */
void write_device(json_writer *out, const clave_device_info *info);

#endif
