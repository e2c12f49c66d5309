#ifndef CLAVE_BUILDER_H
#define CLAVE_BUILDER_H
/* Builds and rewrites programs in C, for importers, delegates and tests.
 *
 *   clave_builder *b;
 *   clave_builder_create(&b);
 *   const int64_t shape[] = {1, 4};
 *   clave_id x = clave_builder_tensor(b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, shape, NULL);
 *   clave_id y = clave_builder_tensor(b, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, shape, NULL);
 *   clave_builder_method(b, "forward");
 *   clave_builder_input(b, "x", x);
 *   clave_builder_op(b, "Softmax", "softmax_1");
 *   clave_builder_set_tensor(b, "x", x);
 *   clave_builder_set_int(b, "axis", -1);
 *   clave_builder_set_tensor(b, "out", y);
 *   clave_builder_output(b, "y", y);
 *   clave_status status = clave_builder_finish(b, &program);
 *   clave_builder_destroy(b);
 *
 * Ops, their fields and enum values are named by strings, as in docs/reference/ops.md and in JSON
 * programs. The builder looks them up in tables that are generated from the schema. One function
 * per op would mean hundreds of functions that change with every schema, and importers have strings
 * anyway.
 *
 * The calls between create and finish return no status. The first error is kept, with its op and
 * field; later calls do nothing (and return 0), and finish returns the error. Strings and arrays
 * are copied. Only one thread at a time may use a builder. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clave_builder clave_builder;

/* Identifies a tensor, a host scalar ("value") or a body within one builder. 0 means none. */
typedef uint32_t clave_id;

CLAVE_API clave_status clave_builder_create(clave_builder **out) CLAVE_CHECK;
CLAVE_API void clave_builder_destroy(clave_builder *builder); /* accepts NULL */
/* Returns the message of the first error so far, borrowed; NULL if there is no error. */
CLAVE_API const char *clave_builder_error(const clave_builder *builder);
/* Makes the program and runs the verifier on it, as for a file. Errors name method, node and field.
 * After success or failure the builder can only be destroyed. */
CLAVE_API clave_status clave_builder_finish(clave_builder *builder,
                                            clave_program **out) CLAVE_CHECK;

/* Sets clave_program_info's producer and metadata; the defaults are "clave VERSION" and "". */
CLAVE_API void clave_builder_producer(clave_builder *builder, const char *name);
CLAVE_API void clave_builder_metadata(clave_builder *builder, const char *json);

/* ---------------------------------------------------------------- tensors and values
 * These can be added in any order until finish, which numbers a program's slots by kind. */

/* Adds a constant, whose name is unique in the program. copy: copies the data, which may be
 * strided; otherwise they are read in place, and must be contiguous and outlive the program. */
CLAVE_API clave_id clave_builder_constant(clave_builder *builder, const char *name,
                                          const clave_tensor *data, bool copy);
/* Adds a constant with encoded rows. encoding: "int4:32:zeros", "int8" or "Q4_K", as in
 * clave_tensor_info.encoding_text; docs/reference/formats.md describes the layouts. dtype (F32, F16
 * or BF16), rank and dims describe the decoded tensor. rows: U8 (the dims before a row, bytes per
 * row), copied or borrowed as above. A row is the last dimension or, for a convolution's weight,
 * all dimensions except the first. */
CLAVE_API clave_id clave_builder_encoded(clave_builder *builder, const char *name,
                                         const char *encoding, clave_dtype dtype, int rank,
                                         const int64_t *dims, const clave_tensor *rows, bool copy);
/* Adds an input, output, state or temporary. dims: (rank). values: (rank), for each dimension the
 * host scalar that holds its size at run time, or 0 if dims has the size; NULL if dims has all
 * sizes. */
CLAVE_API clave_id clave_builder_tensor(clave_builder *builder, clave_slot_kind kind,
                                        const char *name, clave_dtype dtype, int rank,
                                        const int64_t *dims, const clave_id *values);
/* Adds a host scalar: CLAVE_I64, CLAVE_F64 or CLAVE_BOOL. min and max are inclusive bounds of an
 * I64; INT64_MIN and INT64_MAX mean unbounded. A scalar used as a dimension of an input gets the
 * input's actual size; as a dimension of state it is set by the session (clave_session_resize). */
CLAVE_API clave_id clave_builder_value(clave_builder *builder, const char *name, clave_dtype dtype,
                                       int64_t min, int64_t max);
/* Sets the initial value of a state, a constant of the same dtype and shape; zeros by default. */
CLAVE_API void clave_builder_initial(clave_builder *builder, clave_id state, clave_id constant);

/* ---------------------------------------------------------------- methods and bodies */

/* Begins a method, to which later inputs, instructions and outputs belong until the next call. */
CLAVE_API void clave_builder_method(clave_builder *builder, const char *name);
CLAVE_API void clave_builder_method_metadata(clave_builder *builder, const char *json);
/* Adds the next argument or result: a tensor of that kind, or a value. */
CLAVE_API void clave_builder_input(clave_builder *builder, const char *name, clave_id id);
CLAVE_API void clave_builder_output(clave_builder *builder, const char *name, clave_id id);
/* Makes a temporary, which an instruction of the method's own chain wrote, the next result. Returns
 * false if the tensor is anything else; it can be copied then. */
CLAVE_API bool clave_builder_make_output(clave_builder *builder, const char *name, clave_id tensor);
/* Makes `tensor` the new value of `state` at the end of each run. */
CLAVE_API void clave_builder_update(clave_builder *builder, clave_id state, clave_id tensor);

/* Begins a body, for an If, While or Scan that is added after it (clave_builder_set_body).
 * Instructions up to clave_builder_end_body belong to the body. args: temporaries that the op sets;
 * results: tensors that the op reads after the body. Bodies can be nested. */
CLAVE_API clave_id clave_builder_body(clave_builder *builder, const char *name,
                                      const clave_id *args, uint32_t n_args);
CLAVE_API void clave_builder_end_body(clave_builder *builder, const clave_id *results,
                                      uint32_t n_results);

/* ---------------------------------------------------------------- instructions */

/* Adds an instruction. The calls after it set its fields; fields that are not set keep their
 * defaults. op: "LayerNorm", or "layer_norm" as in clave_node_info. name: the source graph's node,
 * for errors and profiles; may be "". */
CLAVE_API void clave_builder_op(clave_builder *builder, const char *op, const char *name);

/* These functions set a field of type Tid; of type [Tid]; of type Vid, IntOrVid or FloatOrVid; of
 * type bool (docs/reference/ops.md). */
CLAVE_API void clave_builder_set_tensor(clave_builder *builder, const char *field, clave_id tensor);
CLAVE_API void clave_builder_set_tensors(clave_builder *builder, const char *field,
                                         const clave_id *tensors, uint32_t n);
CLAVE_API void clave_builder_set_value(clave_builder *builder, const char *field, clave_id value);
CLAVE_API void clave_builder_set_bool(clave_builder *builder, const char *field, bool value);
/* Sets a field of type int, uint, long or IntOrVid. */
CLAVE_API void clave_builder_set_int(clave_builder *builder, const char *field, int64_t value);
/* Sets a field of type double or FloatOrVid. */
CLAVE_API void clave_builder_set_float(clave_builder *builder, const char *field, double value);
/* Sets a string, or an enum by name: "mean". */
CLAVE_API void clave_builder_set_text(clave_builder *builder, const char *field, const char *value);
/* Set a field of type [int], or [IntOrVid] with values as in clave_builder_tensor. */
CLAVE_API void clave_builder_set_ints(clave_builder *builder, const char *field,
                                      const int32_t *values, uint32_t n);
CLAVE_API void clave_builder_set_sizes(clave_builder *builder, const char *field,
                                       const int64_t *sizes, const clave_id *values, uint32_t n);
/* Sets then_chain, else_chain, condition_chain or body_chain of a control op. */
CLAVE_API void clave_builder_set_body(clave_builder *builder, const char *field, clave_id body);

typedef enum clave_operand_source {
  CLAVE_OPERAND_INPUT = 0, /* inputs[index] */
  CLAVE_OPERAND_STEP = 1,  /* the result of step `index` */
  CLAVE_OPERAND_INT = 2,   /* i */
  CLAVE_OPERAND_FLOAT = 3, /* f */
  CLAVE_OPERAND_VALUE = 4  /* the host scalar `value` */
} clave_operand_source;
typedef struct clave_operand {
  clave_operand_source source;
  uint32_t index;
  clave_id value;
  int64_t i;
  double f;
} clave_operand;
/* Adds the next step of an Elementwise: kind(operands...), with a result of this dtype. */
CLAVE_API void clave_builder_step(clave_builder *builder, const char *kind, clave_dtype dtype,
                                  const clave_operand *operands, uint32_t n);

/* ---------------------------------------------------------------- rewriting and encoding */

/* Report on a pass of clave_program_optimize; texts are valid during the call. */
typedef struct clave_pass_info {
  size_t size;         /* sizeof(clave_pass_info) */
  const char *name;    /* "attention" */
  uint32_t applied;    /* number of places where it applied */
  int64_t removed;     /* nodes removed minus nodes added */
  const char *refused; /* why the verifier refused its result, which is then dropped; or NULL */
} clave_pass_info;
typedef void (*clave_pass_fn)(void *ctx, const clave_pass_info *info);

typedef struct clave_optimize_options {
  size_t size;               /* sizeof(clave_optimize_options) */
  const char *const *passes; /* (n_passes) names of the passes to run, in which a name may be
                                repeated; NULL: all. An error lists the names */
  uint32_t n_passes;
  clave_pass_fn report; /* called after each pass, in order; may be NULL */
  void *report_ctx;
} clave_optimize_options;

/* Makes an equivalent program of fewer instructions: computes constants, joins views and casts, and
 * replaces written-out attention, rotary embeddings, norms and activations by one op each. Results
 * may differ by the order of a sum, or by a 16-bit rounding that is left out. The verifier checks
 * each pass's result; if it refuses one, the program stays as before that pass. *out keeps
 * `program` alive until *out is destroyed. */
CLAVE_API clave_status clave_program_optimize(clave_program *program,
                                              const clave_optimize_options *options,
                                              clave_program **out) CLAVE_CHECK;
/* Encodes the program as FlatBuffers, without its constants; the caller frees the bytes with
 * free(). consts_hash is 0 if the program was made in memory. */
CLAVE_API clave_status clave_program_encode(const clave_program *program, void **flatbuffer,
                                            size_t *bytes) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
