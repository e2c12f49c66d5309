#ifndef IMPORT_ONNX_QUANTIZE_H
#define IMPORT_ONNX_QUANTIZE_H
/* Operands of quantised ops. */
#include "import/emit_quantize.h"
#include "import/onnx/node.h"

/* Returns scales or zeros in a shape that is broadcast to input: of one element, along the axis, or
 * (block > 0) for blocks along the axis. NULL stays NULL. */
value *onnx_spread(node *node, value *factor, const value *input, int axis, int64_t block);
/* Returns the only element of the input as a scalar; NULL if the input is absent. */
value *onnx_quantized_scalar(node *node, int i);
/* Reads codes at input `first`, then their scale and zero; scale and zero are scalars. */
quantized onnx_quantized_input(node *node, int first);
/* Encodes input with the scale at input `first` and the zero after it. */
value *onnx_quantize_result(node *node, value *input, int first);
/* Checks that the value has 8-bit codes. */
bool onnx_is_bytes(node *node, const value *input);
/* (a - left_zero) @ (right - right_zero) in I32, with vectors as in numpy.matmul. Zeros: NULL, one
 * element, one for each row of left or each column of right. */
value *onnx_integer_product(node *node, const quantized *left, const quantized *right);
/* Quantises input to U8 over its range, as DynamicQuantizeLinear. */
quantized onnx_quantize_dynamic(importer *im, value *input);
/* Multiplies integer sums by both scales: sums * (left.scale * right.scale); for columns
 * right.scale is (N).
 */
value *onnx_scale_product(node *node, value *sums, const quantized *left, const quantized *right);

#endif
