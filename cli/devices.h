#ifndef CLI_DEVICES_H
#define CLI_DEVICES_H
/* Devices as JSON. */
#include "clave.h"
#include "json/writer.h"

/* The members of an object that is open. */
void write_device(json_writer *out, const clave_device_info *info);

#endif
