#ifndef IMPORT_ONNX_CONVERTERS_H
#define IMPORT_ONNX_CONVERTERS_H
/* The converters of all ops, one for each function in ops.def. */
#include "import/onnx/node.h"

#define OP(domain, name, since, function, kind) void function(node *node);
#include "import/onnx/ops.def"
#undef OP

#endif
