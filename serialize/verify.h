#ifndef SERIALIZE_VERIFY_H
#define SERIALIZE_VERIFY_H
/* The trust boundary: a decoded program is checked once, as a whole. Code that runs later only
 * asserts. */
#include "serialize/program.h"

/* The lowest schema version that supports a part of a program, and the reason: `what` ("op ") and
 * `name` ("copy"). */
typedef struct version_need {
  int version;
  const char *what, *name;
} version_need;
/* Return the highest need of an instruction with its operands, or of a tensor's declaration. */
version_need instruction_needs(const ir_program *program, const ir_instruction *ins);
version_need tensor_needs(const ir_tensor *tensor);
static inline bool tensor_is_encoded(const ir_tensor *tensor) {
  return tensor->encoding && tensor->encoding->kind != IR_ENCODING_KIND_PLAIN;
}

/* Checks everything except the constants' bytes, and fills program->types. Errors name the node and
 * the method. */
clave_status verify_program(program *program) STATUS_CHECK;

/* ---- within the verifier ---- */

/* Checks tensors, values, constants and initial states (verify_types.c). Fills program->types. */
clave_status verify_types(program *program) STATUS_CHECK;
/* Checks methods, chains and the flow of tensors and values through them (verify_flow.c). */
clave_status verify_flow(const program *program) STATUS_CHECK;
/* Checks the names at `offset` of `count` structs of `size` bytes: none may be empty, too long or
 * a duplicate. what: "method". */
clave_status verify_names(const void *items, uint32_t count, size_t size, size_t offset,
                          const char *what) STATUS_CHECK;
/* Returns INVALID with "tensor 3 ('w') MESSAGE". */
clave_status tensor_error(const ir_program *program, uint32_t tid,
                          const char *message) STATUS_CHECK STATUS_NEVER_NULL;

#endif
