/* Programs: made of payloads, described. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "clave_files.h"
#include "clave_host.h"
#include "delegate/objects.h"

/* ---------------------------------------------------------------- what a program owns */

static void destroy_program(object *o) {
  delegate_program *p = (delegate_program *)o;
  clave_program_destroy(p->p);
  for (size_t i = 0; i < p->n_copies; i++) free(p->copies[i]);
  free(p->copies);
  if (p->release) p->release(p->release_ctx);
  free(p);
}

/* A copy that lives as long as the program; NULL: no memory. */
static void *keep_copy(delegate_program *p, const void *data, size_t bytes) {
  if (!array_reserve(&p->copies, &p->cap_copies, p->n_copies + 1, sizeof *p->copies)) return NULL;
  void *copy = memory_alloc(bytes ? bytes : 1);
  if (copy) p->copies[p->n_copies++] = memcpy(copy, data, bytes);
  return copy;
}

/* ---------------------------------------------------------------- constants by name */

typedef struct constant_finder {
  const clave_delegate_payload *payload;
  delegate_program *p;
  bool no_memory;
} constant_finder;

static bool look_up(const clave_delegate_payload *given, const char *name, clave_tensor *constant) {
  for (uint32_t i = 0; i < given->n_constants; i++) {
    if (!given->constants[i].name || strcmp(given->constants[i].name, name) != 0) continue;
    *constant = given->constants[i].value;
    return true;
  }
  return given->find && given->find(given->find_ctx, name, constant);
}

/* As clave compares them: the stride of a dimension of one says nothing. */
static bool is_same(const clave_tensor *a, const clave_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int k = 0; k < a->rank; k++)
    if (a->dims[k] != b->dims[k] || (a->dims[k] != 1 && a->strides[k] != b->strides[k]))
      return false;
  return true;
}

/* What is not as the program declares it is left to clave to refuse, and not copied. */
static bool find_constant(void *ctx, const char *name, clave_tensor *constant) {
  constant_finder *f = ctx;
  const clave_tensor declared = *constant;
  if (!look_up(f->payload, name, constant)) return false;
  if (!f->payload->copy || !constant->data || !is_same(constant, &declared)) return true;
  size_t bytes = clave_dtype_size(declared.dtype);
  for (int k = 0; k < declared.rank; k++) bytes *= (size_t)declared.dims[k];
  constant->data = keep_copy(f->p, constant->data, bytes);
  f->no_memory = f->no_memory || !constant->data;
  return constant->data != NULL;
}

/* ---------------------------------------------------------------- payloads */

static clave_status read_clv(delegate_program *p, const clave_delegate_payload *given) {
  const void *bytes = given->data;
  TRY_GIVEN(given->data);
  if (given->copy) bytes = keep_copy(p, given->data, given->data_size);
  return bytes ? own(clave_program_load_bytes(bytes, given->data_size, "the payload", &p->p))
               : status_no_memory();
}

static clave_status read_program(delegate_program *p, const clave_delegate_payload *given) {
  constant_finder f = {.payload = given, .p = p};
  TRY_GIVEN(given->data);
  if (given->n_constants) TRY_GIVEN(given->constants);
  clave_status st =
      own(clave_program_create_by_name(given->data, given->data_size, find_constant, &f, &p->p));
  if (!f.no_memory) return st;
  status_free(st);
  return status_no_memory();
}

static clave_status read_graph(delegate_program *p, const clave_delegate_payload *given) {
  clave_delegate_graph g;
  TRY(graph_check(given->graph, &g));
  return graph_build(&g, given->copy, &p->p);
}

static clave_status read_payload(delegate_program *p, const clave_delegate_payload *given) {
  switch (given->format) {
    case CLAVE_DELEGATE_CLV:
      return read_clv(p, given);
    case CLAVE_DELEGATE_PROGRAM:
      return read_program(p, given);
    case CLAVE_DELEGATE_GRAPH:
      return read_graph(p, given);
  }
  return INVALID("format: expected a clave_delegate_format, got %d", (int)given->format);
}

/* The program, without a handle. */
static clave_status make_program(const clave_delegate_payload *given, delegate_program **out) {
  delegate_program *p = *out = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->o.destroy = destroy_program;
  return status_while(read_payload(p, given), "payload");
}

clave_status delegate_load(const clave_delegate_payload *payload, clave_delegate_handle *program) {
  clave_delegate_payload given;
  delegate_program *p = NULL;
  TRY_GIVEN(program);
  *program = 0;
  TRY_GIVEN(payload);
  TRY(sized_read(payload, &given, SIZED(clave_delegate_payload, release_ctx)));
  clave_status st = make_program(&given, &p);
  if (!st) {
    p->release = given.copy ? NULL : given.release; /* before another thread could unload it */
    p->release_ctx = given.release_ctx;
    st = handle_give(HANDLE_PROGRAM, &p->o, program);
    if (st) p->release = NULL;
  }
  if (st && p) destroy_program(&p->o);
  if ((st || given.copy) && given.release) given.release(given.release_ctx);
  return st;
}

clave_status delegate_unload(clave_delegate_handle program) {
  return program ? handle_close(HANDLE_PROGRAM, program) : NULL;
}

/* ---------------------------------------------------------------- descriptions */

/* Runs `call`, which names the program as p, and returns its status. */
#define DESCRIBE(call)                              \
  delegate_program *held;                           \
  TRY_GIVEN(info);                                  \
  TRY(handle_take(HANDLE_PROGRAM, program, &held)); \
  const clave_program *p = held->p;                 \
  clave_status st = own(call);                      \
  object_release(&held->o);                         \
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
