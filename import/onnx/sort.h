#ifndef IMPORT_ONNX_SORT_H
#define IMPORT_ONNX_SORT_H
/* The order in which the nodes of a graph are converted. */
#include "import/onnx/node.h"

enum { MAX_GRAPH_DEPTH = 32 };
/* Returns the indices of the nodes (n), each after those that it needs; among them the file's order
 * is kept. NULL after an error: a circle, or two nodes with one result. */
const uint32_t *onnx_sort(onnx_import *onnx, onnx_node *nodes, size_t n);

#endif
