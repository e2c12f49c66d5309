#ifndef IMPORT_TFLITE_TFLITE_H
#define IMPORT_TFLITE_TFLITE_H
/* Imports TFLite (LiteRT) models. */
#include "import/importer.h"

bool tflite_is_model(const void *bytes, size_t size);
bool tflite_op_at(uint32_t index, import_op *out);
void tflite_convert(importer *im, const import_source *source);

#endif
