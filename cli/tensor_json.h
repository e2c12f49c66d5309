#ifndef CLI_TENSOR_JSON_H
#define CLI_TENSOR_JSON_H
/* Tensors as JSON. */
#include "clave.h"
#include "json/writer.h"

void emit_element(json_writer *writer, const char *key, clave_dtype dtype, const void *element);
/* Writes the members "name", "dtype" and "shape". */
void emit_info(json_writer *writer, const clave_tensor_info *info); /* into the open object */

#endif
