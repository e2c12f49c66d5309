#ifndef CLAVE_BUILDER_H
#define CLAVE_BUILDER_H
/* Builds programs in C, for importers, delegates and tests, and rewrites them.
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
 * Ops, their fields and the names of enums are texts, as docs/ops.md and JSON programs have them,
 * and are looked up in tables that are generated from the schema: a function per op would be
 * hundreds that change with every schema, and importers have the names as texts anyway.
 *
 * Calls in between return no status: the first that is wrong is kept, with the op and field, those
 * after it do nothing (and give 0), and finish returns it. Texts and arrays are copied. A builder
 * is used by one thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clave_builder clave_builder;

/* A tensor, a host scalar ("value") or a body, of the builder that gave it. 0: none. */
typedef uint32_t clave_id;

CLAVE_API clave_status clave_builder_create(clave_builder **out) CLAVE_CHECK;
CLAVE_API void clave_builder_destroy(clave_builder *builder); /* takes NULL */
/* The message of the first error so far, NULL if there is none; borrowed. */
CLAVE_API const char *clave_builder_error(const clave_builder *builder);
/* The program, checked by the verifier as a file's is. Errors name method, node and field. The
 * builder is used up, whether good or not, and only to be destroyed. */
CLAVE_API clave_status clave_builder_finish(clave_builder *builder,
                                            clave_program **out) CLAVE_CHECK;

/* What the program says of itself; by default "clave" and the version, and "". */
CLAVE_API void clave_builder_producer(clave_builder *builder, const char *name);
CLAVE_API void clave_builder_metadata(clave_builder *builder, const char *json);

/* ---------------------------------------------------------------- tensors and values
 * In any order and at any time before finish, which numbers the slots of a program by kind. */

/* Its name is the program's own. copy: strided data are copied now; else they must be contiguous
 * and outlive the program, which reads them in place. */
CLAVE_API clave_id clave_builder_constant(clave_builder *builder, const char *name,
                                          const clave_tensor *data, bool copy);
/* A constant whose rows are encoded: "int4:32:zeros", "int8", "Q4_K", as
 * clave_tensor_info.encoding_text has it; docs/format.md tells the layouts. dtype (F32, F16, BF16),
 * rank and dims are of what it is decoded to; rows: U8 (the dims before a row, bytes of a row),
 * copied or borrowed as above. A row is the last dimension or, of a convolution's weight, all but
 * the first. */
CLAVE_API clave_id clave_builder_encoded(clave_builder *builder, const char *name,
                                         const char *encoding, clave_dtype dtype, int rank,
                                         const int64_t *dims, const clave_tensor *rows, bool copy);
/* An input, output, state or temporary. dims: (rank); values: (rank) host scalars that say the size
 * at run time, 0 where dims does; NULL: dims says all. */
CLAVE_API clave_id clave_builder_tensor(clave_builder *builder, clave_slot_kind kind,
                                        const char *name, clave_dtype dtype, int rank,
                                        const int64_t *dims, const clave_id *values);
/* A host scalar: CLAVE_I64, CLAVE_F64 or CLAVE_BOOL. min, max: inclusive bounds of an I64;
 * INT64_MIN and INT64_MAX: none. One that stands as a dimension of an input is bound to its actual
 * size; of state, it is a session's choice (clave_session_resize). */
CLAVE_API clave_id clave_builder_value(clave_builder *builder, const char *name, clave_dtype dtype,
                                       int64_t min, int64_t max);
/* What a state starts with, a constant of the same dtype and shape; zeros without this. */
CLAVE_API void clave_builder_initial(clave_builder *builder, clave_id state, clave_id constant);

/* ---------------------------------------------------------------- methods and bodies */

/* Begins a method: what follows, up to the next, is its inputs, instructions and results. */
CLAVE_API void clave_builder_method(clave_builder *builder, const char *name);
CLAVE_API void clave_builder_method_metadata(clave_builder *builder, const char *json);
/* The next argument or result: a tensor of that kind, or a value. */
CLAVE_API void clave_builder_input(clave_builder *builder, const char *name, clave_id id);
CLAVE_API void clave_builder_output(clave_builder *builder, const char *name, clave_id id);
/* At the end of a run `state` becomes `tensor`. */
CLAVE_API void clave_builder_update(clave_builder *builder, clave_id state, clave_id tensor);

/* Begins a body, to be run by an If, While or Scan that is added after it (clave_builder_set_body).
 * Instructions up to its end are the body's. args: temporaries that the op sets; results: what it
 * takes from the body. Bodies may hold others. */
CLAVE_API clave_id clave_builder_body(clave_builder *builder, const char *name,
                                      const clave_id *args, uint32_t n_args);
CLAVE_API void clave_builder_end_body(clave_builder *builder, const clave_id *results,
                                      uint32_t n_results);

/* ---------------------------------------------------------------- instructions */

/* Adds an instruction, whose fields the calls after it set; those not set keep their defaults. op:
 * "LayerNorm", or as clave_node_info has it, "layer_norm". name: the source graph's node, for
 * errors and profiles; may be "". */
CLAVE_API void clave_builder_op(clave_builder *builder, const char *op, const char *name);

/* In docs/ops.md's words, of type Tid, [Tid]; Vid, IntOrVid or FloatOrVid; bool. */
CLAVE_API void clave_builder_set_tensor(clave_builder *builder, const char *field, clave_id tensor);
CLAVE_API void clave_builder_set_tensors(clave_builder *builder, const char *field,
                                         const clave_id *tensors, uint32_t n);
CLAVE_API void clave_builder_set_value(clave_builder *builder, const char *field, clave_id value);
CLAVE_API void clave_builder_set_bool(clave_builder *builder, const char *field, bool value);
/* int, uint, long and IntOrVid. */
CLAVE_API void clave_builder_set_int(clave_builder *builder, const char *field, int64_t value);
/* double and FloatOrVid. */
CLAVE_API void clave_builder_set_float(clave_builder *builder, const char *field, double value);
/* string, and enums by name: "mean". */
CLAVE_API void clave_builder_set_text(clave_builder *builder, const char *field, const char *value);
/* [int]; [IntOrVid], values as in clave_builder_tensor. */
CLAVE_API void clave_builder_set_ints(clave_builder *builder, const char *field,
                                      const int32_t *values, uint32_t n);
CLAVE_API void clave_builder_set_sizes(clave_builder *builder, const char *field,
                                       const int64_t *sizes, const clave_id *values, uint32_t n);
/* then_chain, else_chain, condition_chain and body_chain of the control ops. */
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
/* The next step of an Elementwise: kind(operands...) with a result of this dtype. */
CLAVE_API void clave_builder_step(clave_builder *builder, const char *kind, clave_dtype dtype,
                                  const clave_operand *operands, uint32_t n);

/* ---------------------------------------------------------------- rewriting and encoding */

/* What a pass of clave_program_optimize did; texts are valid during the call. */
typedef struct clave_pass_info {
  size_t size;         /* sizeof(clave_pass_info) */
  const char *name;    /* "attention" */
  uint32_t applied;    /* how often */
  int64_t removed;     /* nodes, less those that were added */
  const char *refused; /* why a result of it was not taken, so that the program stayed as it was */
} clave_pass_info;
typedef void (*clave_pass_fn)(void *ctx, const clave_pass_info *info);

typedef struct clave_optimize_options {
  size_t size;               /* sizeof(clave_optimize_options) */
  const char *const *passes; /* (n_passes) names of those to run, each of which may stand there
                                more than once; NULL: all. An error lists them. */
  uint32_t n_passes;
  clave_pass_fn report; /* told of each pass, in their order; may be NULL */
  void *report_ctx;
} clave_optimize_options;

/* A program that computes the same in fewer instructions: constants computed, views and casts
 * joined, attention, rotary embeddings, norms and activations written out made one op each. A
 * result may differ by the order of a sum, or by a 16-bit rounding that is left out. What a pass
 * gives is verified; a pass whose result is refused leaves the program as it was. Keeps `program`
 * until it is destroyed itself. */
CLAVE_API clave_status clave_program_optimize(clave_program *program,
                                              const clave_optimize_options *options,
                                              clave_program **out) CLAVE_CHECK;
/* The FlatBuffers form, without the constants; to be freed with free(). Its consts_hash is 0 where
 * the program was made in memory. */
CLAVE_API clave_status clave_program_encode(const clave_program *program, void **flatbuffer,
                                            size_t *bytes) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
