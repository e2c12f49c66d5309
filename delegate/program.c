/* Makes programs from payloads, and describes programs. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "clave_files.h"
#include "clave_host.h"
#include "delegate/objects.h"

/* ---------------------------------------------------------------- memory of a program */

static void destroy_program(object *object) {
  delegate_program *program = (delegate_program *)object;
  clave_program_destroy(program->program);
  for (size_t i = 0; i < program->n_copies; i++) memory_free(program->copies[i]);
  free(program->copies);
  if (program->release) program->release(program->release_ctx);
  free(program);
}

/* Copies data for the lifetime of the program. Returns NULL if memory is exhausted. */
static void *keep_copy(delegate_program *program, const void *data, size_t bytes) {
  if (!array_reserve(&program->copies, &program->cap_copies, program->n_copies + 1,
                     sizeof *program->copies))
    return NULL;
  void *copy = memory_alloc(bytes ? bytes : 1);
  if (copy) program->copies[program->n_copies++] = memcpy(copy, data, bytes);
  return copy;
}

/* ---------------------------------------------------------------- constants by name */

typedef struct constant_finder {
  const clave_delegate_payload *payload;
  delegate_program *program;
  bool no_memory;
} constant_finder;

static bool delegate_program_look_up(const clave_delegate_payload *given, const char *name,
                                     clave_tensor *constant) {
  for (uint32_t i = 0; i < given->n_constants; i++) {
    if (!given->constants[i].name || strcmp(given->constants[i].name, name) != 0) continue;
    *constant = given->constants[i].value;
    return true;
  }
  return given->find && given->find(given->find_ctx, name, constant);
}

/* Compares as clave does: the stride of a dimension of 1 is ignored. */
static bool delegate_program_is_same(const clave_tensor *left, const clave_tensor *right) {
  if (left->dtype != right->dtype || left->rank != right->rank) return false;
  for (int k = 0; k < left->rank; k++)
    if (left->dims[k] != right->dims[k] ||
        (left->dims[k] != 1 && left->strides[k] != right->strides[k]))
      return false;
  return true;
}

/* Finds a constant, and copies it if the payload requests that. A constant that differs from its
 * declaration is not copied, since clave refuses it. */
static bool delegate_program_find_constant(void *ctx, const char *name, clave_tensor *constant) {
  constant_finder *finder = ctx;
  const clave_tensor declared = *constant;
  if (!delegate_program_look_up(finder->payload, name, constant)) return false;
  if (!finder->payload->copy || !constant->data || !delegate_program_is_same(constant, &declared))
    return true;
  size_t bytes = clave_dtype_size(declared.dtype);
  for (int k = 0; k < declared.rank; k++) bytes *= (size_t)declared.dims[k];
  constant->data = keep_copy(finder->program, constant->data, bytes);
  finder->no_memory = finder->no_memory || !constant->data;
  return constant->data != NULL;
}

/* ---------------------------------------------------------------- payloads */

static clave_status read_clv(delegate_program *program, const clave_delegate_payload *given) {
  const void *bytes = given->data;
  TRY_GIVEN(given->data);
  if (given->copy) bytes = keep_copy(program, given->data, given->data_size);
  return bytes ? own(clave_program_load_bytes(bytes, given->data_size, "the payload",
                                              &program->program))
               : status_no_memory();
}

static clave_status delegate_program_read_flatbuffer(delegate_program *program,
                                                     const clave_delegate_payload *given) {
  constant_finder finder = {.payload = given, .program = program};
  TRY_GIVEN(given->data);
  if (given->n_constants) TRY_GIVEN(given->constants);
  clave_status st = own(clave_program_create_by_name(
      given->data, given->data_size, delegate_program_find_constant, &finder, &program->program));
  if (!finder.no_memory) return st;
  status_free(st);
  return status_no_memory();
}

static clave_status delegate_program_read_graph(delegate_program *program,
                                                const clave_delegate_payload *given) {
  clave_delegate_graph graph;
  TRY(graph_check(given->graph, &graph));
  return graph_build(&graph, given->copy, &program->program);
}

static clave_status read_payload(delegate_program *program, const clave_delegate_payload *given) {
  switch (given->format) {
    case CLAVE_DELEGATE_CLV:
      return read_clv(program, given);
    case CLAVE_DELEGATE_PROGRAM:
      return delegate_program_read_flatbuffer(program, given);
    case CLAVE_DELEGATE_GRAPH:
      return delegate_program_read_graph(program, given);
  }
  return INVALID("format: expected a clave_delegate_format, got %d", (int)given->format);
}

/* Makes the program, without a handle. */
static clave_status delegate_program_make(const clave_delegate_payload *given,
                                          delegate_program **out) {
  delegate_program *program = *out = calloc(1, sizeof *program);
  if (!program) return status_no_memory();
  program->object.destroy = destroy_program;
  return status_while(read_payload(program, given), "payload");
}

clave_status delegate_load(const clave_delegate_payload *payload, clave_delegate_handle *program) {
  clave_delegate_payload given;
  delegate_program *delegate_program = NULL;
  TRY_GIVEN(program);
  *program = 0;
  TRY_GIVEN(payload);
  TRY(sized_read(payload, &given, SIZED(clave_delegate_payload, release_ctx)));
  clave_status st = delegate_program_make(&given, &delegate_program);
  if (!st) {
    delegate_program->release =
        given.copy ? NULL : given.release; /* set before another thread could unload it */
    delegate_program->release_ctx = given.release_ctx;
    st = handle_create(HANDLE_PROGRAM, &delegate_program->object, program);
    if (st) delegate_program->release = NULL;
  }
  if (st && delegate_program) destroy_program(&delegate_program->object);
  if ((st || given.copy) && given.release) given.release(given.release_ctx);
  return st;
}

clave_status delegate_unload(clave_delegate_handle program) {
  return program ? handle_close(HANDLE_PROGRAM, program) : NULL;
}

/* ---------------------------------------------------------------- descriptions */

/* Runs `call`, in which p is the program, and returns its status. */
#define DESCRIBE(call)                                 \
  delegate_program *held;                              \
  TRY_GIVEN(info);                                     \
  TRY(handle_acquire(HANDLE_PROGRAM, program, &held)); \
  const clave_program *p = held->program;              \
  clave_status st = own(call);                         \
  object_release(&held->object);                       \
  return st

clave_status delegate_program_info(clave_delegate_handle program, clave_program_info *info) {
  DESCRIBE(clave_program_get_info(p, info));
}
clave_status delegate_method(clave_delegate_handle program, uint32_t index,
                             clave_method_info *info) {
  DESCRIBE(clave_program_method(p, index, info));
}
clave_status delegate_input(clave_delegate_handle program, const char *method, uint32_t index,
                            clave_tensor_info *info) {
  DESCRIBE(clave_program_input(p, method, index, info));
}
clave_status delegate_output(clave_delegate_handle program, const char *method, uint32_t index,
                             clave_tensor_info *info) {
  DESCRIBE(clave_program_output(p, method, index, info));
}
clave_status delegate_state(clave_delegate_handle program, uint32_t index,
                            clave_tensor_info *info) {
  DESCRIBE(clave_program_state(p, index, info));
}
clave_status delegate_node(clave_delegate_handle program, const char *method, uint32_t index,
                           clave_node_info *info) {
  DESCRIBE(clave_program_node(p, method, index, info));
}
