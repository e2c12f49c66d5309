#ifndef SERIALIZE_VERIFY_H
#define SERIALIZE_VERIFY_H
/* The trust boundary: a decoded program is checked once, whole; behind it, code asserts. */
#include "serialize/program.h"

/* The schema version that a program needs for one thing in it, and what that is: "op ", "copy". */
typedef struct version_need {
  int version;
  const char *what, *name;
} version_need;
version_need instruction_needs(const ir_program *program, const ir_instruction *ins);
version_need tensor_needs(const ir_tensor *tensor);
static inline bool is_encoded(const ir_tensor *tensor) {
  return tensor->encoding && tensor->encoding->kind != IR_ENCODING_KIND_PLAIN;
}

/* Checks everything but the constants' bytes, and fills program->types. Errors name node and
 * method. */
clave_status verify_program(program *program) STATUS_CHECK;

/* ---- within the verifier ---- */

/* Tensors, values, constants, initial states: verify_types.c. Fills program->types. */
clave_status verify_types(program *program) STATUS_CHECK;
/* Methods, chains and the flow of tensors and values through them: verify_flow.c. */
clave_status verify_flow(const program *program) STATUS_CHECK;
/* Names at `offset` of `count` structs of `size` bytes: none empty or too long, none twice. what:
 * "method". */
clave_status verify_names(const void *items, uint32_t count, size_t size, size_t offset,
                          const char *what) STATUS_CHECK;
/* INVALID, "tensor 3 ('w') MESSAGE". */
clave_status tensor_error(const ir_program *program, uint32_t tid,
                          const char *message) STATUS_CHECK STATUS_NEVER_NULL;

#endif
