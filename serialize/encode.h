#ifndef SERIALIZE_ENCODE_H
#define SERIALIZE_ENCODE_H
/* Writers of the two program formats, driven by the descriptors of ir.h. */
#include <stddef.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir.h"

/* Appends the FlatBuffers encoding with its file identifier. `out` is empty at first; the caller
 * frees it. */
clave_status encode_flatbuffer(const ir_program *program, text *out) STATUS_CHECK;
/* Appends text that flatc's strict JSON reader accepts: one instruction per line; integers of 2^53
 * or more and non-finite numbers are strings. */
clave_status encode_json(const ir_program *program, text *out) STATUS_CHECK;

#endif
