/* Copies inputs and outputs, or binds them to the host's memory. Checks that a bound tensor fits in
 * the memory. */
#include <stdlib.h>

#include "base/checked.h"
#include "clave_host.h"
#include "clave_opencl.h"
#include "delegate/objects.h"

static clave_status check_described(const clave_tensor *tensor) {
  if (!clave_dtype_name(tensor->dtype)) return INVALID("unknown dtype %d", (int)tensor->dtype);
  if (tensor->rank < 0 || tensor->rank > CLAVE_MAX_RANK)
    return INVALID("expected rank 0 to %d, got %d", (int)CLAVE_MAX_RANK, tensor->rank);
  for (int k = 0; k < tensor->rank; k++)
    if (tensor->dims[k] < 0)
      return INVALID("dimension %d is %lld: expected 0 or more", k, (long long)tensor->dims[k]);
  return NULL;
}

/* Stores the number of bytes from the start of the first element to the end of the last, 0 for an
 * empty tensor. Fails for negative strides and overflow. */
static clave_status delegate_bind_measure(const clave_tensor *tensor, size_t *out) {
  int64_t last = 0, step;
  *out = 0;
  for (int k = 0; k < tensor->rank; k++)
    if (tensor->dims[k] == 0) return NULL;
  for (int k = 0; k < tensor->rank; k++) {
    if (tensor->strides[k] < 0)
      return INVALID("stride %lld of dimension %d: expected 0 or more",
                     (long long)tensor->strides[k], k);
    if (!mul_i64(tensor->dims[k] - 1, tensor->strides[k], &step) || !add_i64(last, step, &last))
      return INVALID("the size of the tensor overflows");
  }
  if (!add_i64(last, 1, &last) || !mul_size(clave_dtype_size(tensor->dtype), (uint64_t)last, out))
    return INVALID("the size of the tensor overflows");
  return NULL;
}

static clave_status read_memory(const clave_delegate_memory *given, clave_delegate_memory *out) {
  TRY(sized_read(given, out, SIZED(clave_delegate_memory, bytes)));
  switch (out->kind) {
    case CLAVE_DELEGATE_HOST:
    case CLAVE_DELEGATE_CL_MEM:
      if (out->memory || !out->bytes) return NULL;
      return INVALID("memory: expected a pointer to %zu bytes, got NULL", out->bytes);
    case CLAVE_DELEGATE_DMA_BUF:
      return out->fd >= 0 ? NULL : INVALID("descriptor %d of a dma-buf is negative", out->fd);
  }
  return INVALID("memory: expected a clave_delegate_memory_kind, got %d", (int)out->kind);
}

/* ---------------------------------------------------------------- inputs */

static clave_status set_input(clave_session *session, const char *method, uint32_t index,
                              const clave_tensor *value) {
  bool empty = false;
  TRY(check_described(value));
  for (int k = 0; k < value->rank; k++) empty = empty || value->dims[k] == 0;
  if (!value->data && !empty) return INVALID("the data of the tensor is NULL");
  return own(clave_session_set_input(session, method, index, value));
}

clave_status delegate_set_input(clave_delegate_handle instance, const char *method, uint32_t index,
                                const clave_tensor *value) {
  delegate_instance *in;
  TRY_GIVEN(value);
  TRY(instance_enter(instance, &in));
  clave_status st = set_input(in->session, method, index, value);
  instance_leave(in);
  return status_while(st, "setting input %u", index);
}

static clave_status bind_input(clave_session *session, const char *method, uint32_t index,
                               const clave_tensor *value, const clave_delegate_memory *given) {
  clave_delegate_memory memory;
  size_t need;
  if (!given) return own(clave_session_bind_input(session, method, index, NULL));
  TRY_GIVEN(value);
  TRY(read_memory(given, &memory));
  TRY(check_described(value));
  TRY(delegate_bind_measure(value, &need));
  if (need > memory.bytes)
    return INVALID("the tensor needs %zu bytes, and the memory has %zu", need, memory.bytes);
  if (memory.kind == CLAVE_DELEGATE_CL_MEM)
    return own(
        clave_session_bind_input_mem(session, method, index, value, memory.memory, memory.offset));
  if (memory.kind == CLAVE_DELEGATE_DMA_BUF)
    return own(
        clave_session_bind_input_dma_buf(session, method, index, value, memory.fd, memory.offset));
  clave_tensor there = *value;
  there.data = memory.memory ? (char *)memory.memory + memory.offset : NULL;
  return own(clave_session_bind_input(session, method, index, &there));
}

clave_status delegate_bind_input(clave_delegate_handle instance, const char *method, uint32_t index,
                                 const clave_tensor *value, const clave_delegate_memory *memory) {
  delegate_instance *in;
  TRY(instance_enter(instance, &in));
  clave_status st = bind_input(in->session, method, index, value, memory);
  instance_leave(in);
  return status_while(st, "binding input %u", index);
}

/* ---------------------------------------------------------------- outputs */

static clave_status bind_output(clave_session *session, const char *method, uint32_t index,
                                const clave_delegate_memory *given) {
  clave_delegate_memory memory;
  if (!given) return own(clave_session_bind_output(session, method, index, NULL, 0));
  TRY(read_memory(given, &memory));
  if (memory.kind == CLAVE_DELEGATE_CL_MEM)
    return own(clave_session_bind_output_mem(session, method, index, memory.memory, memory.offset,
                                             memory.bytes));
  if (memory.kind == CLAVE_DELEGATE_DMA_BUF)
    return own(clave_session_bind_output_dma_buf(session, method, index, memory.fd, memory.offset,
                                                 memory.bytes));
  /* NULL memory fits only an empty output, which may have any address. */
  static char nowhere[1];
  char *there = memory.memory ? (char *)memory.memory + memory.offset : nowhere;
  return own(clave_session_bind_output(session, method, index, there, memory.bytes));
}

clave_status delegate_bind_output(clave_delegate_handle instance, const char *method,
                                  uint32_t index, const clave_delegate_memory *memory) {
  delegate_instance *in;
  TRY(instance_enter(instance, &in));
  clave_status st = bind_output(in->session, method, index, memory);
  instance_leave(in);
  return status_while(st, "binding output %u", index);
}

clave_status delegate_result(clave_delegate_handle instance, const char *method, uint32_t index,
                             clave_tensor *out) {
  delegate_instance *in;
  TRY_GIVEN(out);
  TRY(instance_enter(instance, &in));
  clave_status st = own(clave_session_output(in->session, method, index, out));
  instance_leave(in);
  return st;
}
