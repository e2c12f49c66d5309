#ifndef IMPORT_ONNX_NODE_H
#define IMPORT_ONNX_NODE_H
/* The view that a converter has of a node: its inputs as values, its attributes, and its results. A
 * converter reads every attribute that it knows; an attribute that none read is refused. */
#include "import/emit.h"
#include "import/onnx/model.h"

typedef struct onnx_binding {
  const char *name;
  value *value; /* NULL: an optional that is absent, or the result of an unsupported node */
  int32_t next; /* the binding before it with the same hash; -1: none */
} onnx_binding;

/* The function whose body is converted. */
typedef struct onnx_frame {
  const onnx_opsets *opsets;
  onnx_attribute **attributes; /* (n_attributes) by name, resolved; NULL for the main graph */
  size_t n_attributes;
  size_t first_binding; /* names before it are not visible */
  int depth;
} onnx_frame;

struct decoder; /* import/onnx/decoder.h */

typedef struct onnx_import {
  importer *im;
  const onnx_model *model;
  const char *folder; /* the model's folder, for external data; NULL: the model has no file */
  onnx_frame *frame;
  onnx_binding *bindings; /* owned, (n_bindings) */
  size_t n_bindings, cap_bindings;
  int32_t *buckets; /* owned */
  int graph_depth;
  struct decoder *decoder; /* in pool: a language model's graph; else NULL */
  int n_converted;         /* nodes, counting those of functions and bodies each time */
} onnx_import;

typedef struct node {
  onnx_import *onnx;
  importer *im;
  onnx_node *source;
  const char *op;
  const char *kind; /* from the op's row */
  int64_t version;  /* opset of the op's domain */
  value **inputs;   /* (n_inputs); NULL: absent */
  int n_inputs;
  value **outputs; /* (n_outputs): set by the converter */
  int n_outputs;
} node;

/* ---- inputs and results ---- */
value *node_input(node *node, int i);          /* NULL if absent */
value *node_required(node *node, int i);       /* fails if absent */
bool node_has_output(const node *node, int i); /* false if no one reads result i */
void node_set(node *node, int i, value *out);

/* ---- attributes: the value, or the default if the node lacks it ---- */
bool node_has(node *node, const char *name);
int64_t node_int(node *node, const char *name, int64_t missing);
double node_float(node *node, const char *name, double missing);
const char *node_text(node *node, const char *name, const char *missing);
/* Copies a list of integers. Returns its length, or -1 if the node lacks it. */
int node_ints(node *node, const char *name, int64_t *out, int capacity);
int node_floats(node *node, const char *name, double *out, int capacity);
/* Returns the index of the text among `names` (n), of which the first is the default. */
int node_choice(node *node, const char *name, const char *const *names, int n);
value *node_tensor(node *node, const char *name); /* a constant; NULL if the node lacks it */
onnx_graph *node_graph(node *node, const char *name);
onnx_attribute *node_attribute(node *node, const char *name); /* or NULL; marks it as used */
/* Reads axes from an attribute or, from version `input_since` on, from input i. They are resolved
 * for `rank` and in `out`, of CLAVE_MAX_RANK. Returns their number, or -1 if there are none. */
int node_axes(node *node, const char *name, int i, int64_t input_since, int rank, int *out);
clave_dtype node_dtype(node *node, int32_t data_type); /* fails for dtypes that clave lacks */

/* ---- shape.c ---- */
/* Reads the elements of input as sizes, at most CLAVE_MAX_RANK. Returns their number, -1 after an
 * error.
 */
int onnx_sizes(node *node, value *input, const char *what, number *dims);
/* Makes axes, which may be known only during the run, count from 0. False after an error. */
bool onnx_resolve_axes(node *node, int rank, number *axes, int n);
/* Reads axes from an input, resolved for `rank`. Returns their number, -1 if there are none. */
int onnx_axes_numbers(node *node, value *input, int rank, number *axes);

/* ---- elementwise.c: order ---- */
/* Returns input in a dtype whose order the ops have: U64 is mapped to I64 of the same order. */
value *onnx_ordered(importer *im, value *input);
/* Returns such elements in the dtype that they had. */
value *onnx_unordered(importer *im, value *input, clave_dtype type);

/* ---- names.c: scopes of names ---- */
clave_status onnx_names_create(onnx_import *onnx) STATUS_CHECK;
void onnx_names_destroy(onnx_import *onnx);
void onnx_bind(onnx_import *onnx, const char *name, value *value);
onnx_binding *onnx_lookup(const onnx_import *onnx, const char *name); /* NULL: no such name */
void onnx_unbind(onnx_import *onnx, size_t count); /* forgets all but the first `count` names */

/* ---- tensors.c ---- */
value *onnx_constant(onnx_import *onnx, const onnx_tensor *tensor);
/* A constant from an encoded SparseTensorProto. *name: that of its values. */
value *onnx_sparse_constant(onnx_import *onnx, span bytes, const char **name);
bool onnx_dtype(int32_t data_type, clave_dtype *out);
int onnx_dtype_bits(int32_t data_type); /* 2 or 4: stored in bytes as codes; 0: as the dtype */
const char *onnx_dtype_name(int32_t data_type); /* "STRING" */

/* ---- graph.c ---- */
/* Converts the nodes of a graph, whose inputs are bound. */
void onnx_convert_nodes(onnx_import *onnx, onnx_node *nodes, size_t n);
void onnx_bind_initializers(onnx_import *onnx, const onnx_graph *graph);

/* ---- table.c ---- */
typedef void (*onnx_converter)(node *node);
typedef struct onnx_op {
  const char *domain, *name;
  int since; /* the first version of the op that the converter knows */
  onnx_converter convert;
  const char *kind; /* distinguishes ops of one converter, such as a kind of step; or "" */
} onnx_op;
/* Finds the row of an op with the greatest `since` up to the version; NULL: none. */
const onnx_op *onnx_find_op(const char *domain, const char *name, int64_t version);
enum { ONNX_OPSET = 28, ONNX_OPSET_FIRST = 7, ONNX_IR = 14 };

#endif
