#ifndef IMPORT_ONNX_CONTROL_H
#define IMPORT_ONNX_CONTROL_H
/* Graphs within nodes. */
#include "import/onnx/converters.h"

enum { MAX_SCANNED = 64 };
/* Converts a graph in the current scope. inputs: (graph's inputs); outputs: (graph's outputs), NULL
 * where the graph has an unsupported node. */
void onnx_convert_body(node *node, onnx_graph *graph, value *const *inputs, value **outputs);

#endif
