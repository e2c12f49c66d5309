#ifndef IMPORT_ONNX_MODEL_H
#define IMPORT_ONNX_MODEL_H
/* An ONNX model as its file describes it (onnx.proto). Texts are copied; bytes of tensors are
 * borrowed from the file. Nothing is checked beyond the wire format. A list is a pointer followed
 * by count and capacity, as the reader expects. */
#include "base/memory.h"
#include "base/protobuf.h"
#include "base/status.h"

typedef struct onnx_texts {
  const char **items;
  size_t count, capacity;
} onnx_texts;

typedef struct onnx_numbers {
  uint64_t *items; /* varints, or the bits of floats and doubles */
  size_t count, capacity;
} onnx_numbers;

typedef struct onnx_tensor {
  const char *name;
  int32_t data_type; /* TensorProto.DataType */
  onnx_numbers dims;
  span raw_data, packed_floats, packed_doubles; /* data NULL: absent */
  onnx_numbers numbers;                         /* float_data, int32_data, ... */
  size_t n_strings;
  bool has_raw, is_external;
  const char *location; /* path of external data; or NULL */
  const char *offset, *length;
} onnx_tensor;

struct onnx_graph;
typedef struct onnx_attribute {
  const char *name, *reference; /* reference: a function's attribute, "" for none */
  int32_t type;                 /* AttributeProto.AttributeType; 0 if the file has none */
  float f;
  int64_t i;
  span s, t, g; /* t, g: encoded tensor and graph */
  span sparse;
  onnx_numbers floats, ints;
  onnx_texts strings;
  struct onnx_graph *graph; /* g, decoded by its first reader; or NULL */
  bool is_used;
} onnx_attribute;

typedef struct onnx_node {
  const char *op, *domain, *name, *overload;
  onnx_texts inputs, outputs;
  onnx_attribute *attributes;
  size_t n_attributes, cap_attributes;
} onnx_node;

typedef struct onnx_dim {
  int64_t size;     /* -1: open */
  const char *name; /* "" for none */
} onnx_dim;

typedef struct onnx_value_info {
  const char *name;
  bool is_tensor, has_shape;
  int32_t elem_type;
  onnx_dim *dims;
  size_t rank, cap_dims;
} onnx_value_info;

typedef struct onnx_graph {
  const char *name;
  onnx_node *nodes;
  size_t n_nodes, cap_nodes;
  onnx_tensor *initializers;
  size_t n_initializers, cap_initializers;
  span *sparse; /* sparse initializers, encoded */
  size_t n_sparse, cap_sparse;
  onnx_value_info *inputs;
  size_t n_inputs, cap_inputs;
  onnx_value_info *outputs;
  size_t n_outputs, cap_outputs;
} onnx_graph;

typedef struct onnx_opset {
  const char *domain;
  int64_t version;
} onnx_opset;

typedef struct onnx_opsets {
  onnx_opset *items;
  size_t count, capacity;
} onnx_opsets;

typedef struct onnx_function {
  const char *name, *domain, *overload;
  onnx_texts inputs, outputs, attributes;
  onnx_attribute *defaults;
  size_t n_defaults, cap_defaults;
  onnx_node *nodes;
  size_t n_nodes, cap_nodes;
  onnx_opsets opsets;
} onnx_function;

typedef struct onnx_entry {
  const char *key, *value;
} onnx_entry;

typedef struct onnx_model {
  mem_pool *pool; /* borrowed */
  int64_t ir_version;
  const char *producer, *producer_version;
  onnx_graph graph;
  bool has_graph;
  onnx_opsets opsets;
  onnx_function *functions;
  size_t n_functions, cap_functions;
  onnx_entry *metadata;
  size_t n_metadata, cap_metadata;
} onnx_model;

typedef struct onnx_sparse {
  onnx_tensor values, indices;
  onnx_numbers dims;
} onnx_sparse;

/* True if the bytes look like a model: fields of a ModelProto, among them a graph. */
bool onnx_is_model(const void *bytes, size_t size);
/* Decode what `bytes` encode; everything is in the pool. */
clave_status onnx_read_model(mem_pool *pool, span bytes, onnx_model *out) STATUS_CHECK;
clave_status onnx_read_graph(mem_pool *pool, span bytes, onnx_graph *out) STATUS_CHECK;
clave_status onnx_read_tensor(mem_pool *pool, span bytes, onnx_tensor *out) STATUS_CHECK;
clave_status onnx_read_sparse(mem_pool *pool, span bytes, onnx_sparse *out) STATUS_CHECK;

#endif
