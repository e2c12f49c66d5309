#ifndef IMPORT_ONNX_ONNX_H
#define IMPORT_ONNX_ONNX_H
/* Imports ONNX models: IR versions up to 14, opsets 7 to 28. */
#include "import/importer.h"

bool onnx_op_at(uint32_t index, import_op *out); /* describes a row of the table of ops */
bool onnx_is_model(const void *bytes, size_t size);
/* Adds a model's graph to the program as method "forward". */
void onnx_convert(importer *im, const import_source *source);

#endif
