#ifndef IMPORT_TFLITE_NODE_H
#define IMPORT_TFLITE_NODE_H
/* The view that a converter has of an operator: its inputs as values, its options, and its results.
 *
 * Images are stored channels last in TFLite and channels first in clave. An operand has up to two
 * values, one for each layout; a missing one is made by a permutation when an operator first reads
 * it. An operator whose row says ANY computes in the layout that its inputs have.
 *
 * An operand of quantised codes is read and written as the numbers that the codes stand for, unless
 * the operator only moves elements (CODES) or handles quantisation itself (RAW). */
#include "import/emit_window.h"
#include "import/tflite/flatbuffer.h"

enum { /* types of tensors in the schema */
       TFLITE_COMPLEX64 = 8,
       TFLITE_INT4 = 17,
       TFLITE_RESOURCE = 13,
       TFLITE_NO_TYPE = -1
};
typedef enum layout { LAST, FIRST, LAYOUTS } layout; /* the position of channels */

/* A variable of the model, which becomes state of the program. */
typedef struct variable {
  const char *container, *name;
  value *state;   /* NULL: not initialised */
  value *current; /* in this method, after the operators so far */
  bool is_assigned;
} variable;

typedef struct operand {
  const char *name;
  flat_table table;
  int type; /* as in the schema */
  clave_dtype dtype;
  int n_scales; /* 0: not quantised, 1: per tensor, -1: by blocks, else along `axis` */
  float scale;
  int zero, axis;
  bool has_zeros;                    /* one zero is not 0, of several */
  int64_t block;                     /* codes of the last axis that share a scale; 0: no blocks */
  int64_t block_scales, block_zeros; /* tensors of the subgraph; zeros -1: none */
  bool is_bound;
  value *values[LAYOUTS]; /* both NULL, although bound: the result of an unsupported operator */
  value *reals[LAYOUTS];  /* the same dequantised, if it was needed */
  variable *variable;     /* the resource's variable */
} operand;

typedef struct subgraph {
  const char *name;
  operand *operands; /* (n) */
  uint32_t n;
  flat_vector inputs, outputs, operators;
} subgraph;

typedef struct tflite_import {
  importer *im;
  flat_file file;
  flat_vector codes, subgraphs, buffers, signatures;
  const char **names; /* owned: a hash table of the constants' names, (cap_names) */
  size_t n_names, cap_names;
  variable *variables; /* (MAX_VARIABLES) */
  int n_variables;
  uint32_t *initialized; /* (n_initialized): subgraphs that CALL_ONCE ran */
  int n_initialized;
  bool is_initializing;
  int depth;
  uint32_t n_converted;
} tflite_import;
enum { MAX_VARIABLES = 1024, MAX_OPERATORS = 1 << 20 };

typedef struct operation {
  tflite_import *tflite;
  subgraph *graph;
  importer *im;
  const char *name, *kind; /* from the op's row */
  flat_table options, options2;
  flat_vector custom; /* options of a custom op */
  flat_vector inputs, outputs;
  int n_inputs, n_outputs;
  layout layout;
  int rank;      /* rank of the inputs in that layout */
  bool as_codes; /* inputs and results are codes of the same scale and zero */
  bool is_sum;   /* results are sums of products, as of a convolution */
} operation;

/* ---- operation.c: inputs and results ---- */
operand *tflite_operand(operation *op, int i); /* NULL: absent */
operand *tflite_result(operation *op, int i);
/* Return an input in the operation's layout; NULL if it is absent. */
value *tflite_input(operation *op, int i);
value *tflite_required(operation *op, int i);
/* Returns an input that is not an image, such as a list of axes, as it is stored. */
value *tflite_parameter(operation *op, int i);
void tflite_set(operation *op, int i, value *out); /* in the operation's layout */
void tflite_set_last(operation *op, int i, value *out);
/* Returns where the operation's layout has dimension d. */
int tflite_dim(const operation *op, int d);
int tflite_axis(operation *op, int64_t axis); /* the same of an axis that may be negative */
/* Converts an image of the operation's layout to channels last. */
value *tflite_to_last(operation *op, value *input);
value *tflite_in_layout(importer *im, operand *tensor, layout layout);
/* Copies a constant with its dimensions in another order; emits a Permute of other values. */
value *tflite_permuted(importer *im, value *input, const int *order);
bool tflite_has_output(const operation *op, int i);
int64_t tflite_custom_int(operation *op, int i); /* the 32-bit integer i of a custom op's options */
/* Applies the fused activation that the option in this slot names. */
value *tflite_activated(operation *op, value *input, int slot);
/* Reads a parameter as sizes, at most CLAVE_MAX_RANK. Returns their number; -1 after an error. */
int tflite_sizes(operation *op, int i, const char *what, number *out);
/* Reads constant axes of input. Returns their number. */
int tflite_axes(operation *op, int i, int rank, int *out);

/* ---- constant.c ---- */
bool tflite_is_constant(const tflite_import *tflite, const operand *tensor);
value *tflite_constant(tflite_import *tflite, operand *tensor);
const char *tflite_unique_name(tflite_import *tflite, const char *name);
bool tflite_dtype(int type, clave_dtype *out);
const char *tflite_dtype_name(int type);

/* ---- quantize.c ---- */
value *tflite_dequantized(importer *im, operand *tensor, value *codes);
value *tflite_rounded(importer *im, value *input);
value *tflite_saturated(importer *im, value *input, clave_dtype type);
value *tflite_quantized(operation *op, const operand *to, value *input);
bool tflite_is_quantized(const operand *tensor);
/* The range of codes of a dtype; false: no quantised tensor has it. */
bool tflite_code_limits(clave_dtype type, double *low, double *high);
bool tflite_same_codes(const operand *tensor, const operand *other);
/* Returns a constant weight (O, ...) of codes whose scales are along the axis that `order` moves to
 * the front, or dequantises it: an operand of a convolution or product. */
value *tflite_weight(operation *op, int i, const int *order, bool *encoded); /* may be NULL */
/* Returns a bias. The scale of its codes is that of operand x_at times that of the weight. */
value *tflite_bias(operation *op, int i, int x_at, int weight_at);

/* ---- graph.c ---- */
bool tflite_open_subgraph(tflite_import *tflite, int64_t index, subgraph *out);
void tflite_convert_operators(tflite_import *tflite, subgraph *graph);
void tflite_bind(operand *tensor, value *bound);

/* ---- table.c ---- */
typedef void (*tflite_converter)(operation *op);
enum {
  PLAIN = 0,
  ANY = 1,
  IMAGE = 2,
  CODES = 4,
  RAW = 8,
  COMPLEX = 16,
  BLOCKS = 32 /* weights whose scales belong to blocks */
};            /* IMAGE: channels first */
typedef struct tflite_op {
  const char *name; /* in the schema, or of a custom op */
  tflite_converter convert;
  const char *kind; /* distinguishes ops of one converter */
  int flags;
} tflite_op;
const tflite_op *tflite_find_op(const char *name);
const char *tflite_op_name(importer *im, int64_t code, const char *custom);

#endif
