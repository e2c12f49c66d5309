#ifndef IMPORT_ONNX_CONTRIB_H
#define IMPORT_ONNX_CONTRIB_H
/* Reuses the converters of ai.onnx for ops of com.microsoft. */
#include "import/onnx/node.h"

/* Converts `inputs` (n) as an op of ai.onnx in this version, with the node's own attributes.
 * Returns its first result. */
value *onnx_call(node *node, const char *op, int64_t version, value *const *inputs, int n);
/* Normalises the last n_axes of input. op: "LayerNorm" or "RmsNorm"; weight and bias (NULL: none)
 * are broadcast to input. */
value *onnx_norm(importer *im, const char *op, value *input, value *weight, value *bias, int n_axes,
                 double epsilon);
/* Refuses results `first` to `last`, which only training reads. */
void onnx_refuse_statistics(node *node, int first, int last);

#endif
