#ifndef SERIALIZE_ENCODE_H
#define SERIALIZE_ENCODE_H
/* Writers of the two program formats, driven by the descriptors of ir.h. */
#include <stddef.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir.h"

/* The FlatBuffers form with its file identifier. `out` begins empty; the caller frees it. */
clave_status encode_flatbuffer(const ir_program *program, text *out) STATUS_CHECK;
/* The text that flatc's strict JSON reader takes: one instruction per line, integers from 2^53 on
 * and non-finite numbers as strings. */
clave_status encode_json(const ir_program *program, text *out) STATUS_CHECK;

#endif
