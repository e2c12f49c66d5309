#ifndef IMPORT_ONNX_INDEX_H
#define IMPORT_ONNX_INDEX_H
/* Index tensors of GatherND and ScatterND. */
#include "import/onnx/node.h"

/* Sets parts to the components of index tuples, the last dimension of `index`. Returns their
 * number, at most `max`; 0 after an error. */
int onnx_index_tuple(node *node, value *index, int64_t max, value **parts);

#endif
