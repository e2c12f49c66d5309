#ifndef IMPORT_TFLITE_CONVERTERS_H
#define IMPORT_TFLITE_CONVERTERS_H
/* The converters of all ops, one for each function in ops.def. */
#include "import/tflite/node.h"

#define OP(name, function, kind, flags) void function(operation *op);
#include "import/tflite/ops.def"
#undef OP

#endif
