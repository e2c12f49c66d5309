/* Inputs and outputs: copied, or where the host has them. What is bound is checked against the room
 * that the host says there is. */
#include <stdlib.h>

#include "base/checked.h"
#include "clave_host.h"
#include "clave_opencl.h"
#include "delegate/objects.h"

static clave_status check_described(const clave_tensor *t) {
  if (!clave_dtype_name(t->dtype)) return INVALID("dtype %d is none", (int)t->dtype);
  if (t->rank < 0 || t->rank > CLAVE_MAX_RANK)
    return INVALID("expected rank 0 to %d, got %d", (int)CLAVE_MAX_RANK, t->rank);
  for (int k = 0; k < t->rank; k++)
    if (t->dims[k] < 0) return INVALID("dimension %d is %lld", k, (long long)t->dims[k]);
  return NULL;
}

/* Bytes from the first element to behind the last; 0 of an empty one. */
static clave_status measure(const clave_tensor *t, size_t *out) {
  int64_t last = 0, step;
  *out = 0;
  for (int k = 0; k < t->rank; k++)
    if (t->dims[k] == 0) return NULL;
  for (int k = 0; k < t->rank; k++) {
    if (t->strides[k] < 0)
      return INVALID("stride %lld of dimension %d: memory is bound with strides of 0 or more",
                     (long long)t->strides[k], k);
    if (!mul_i64(t->dims[k] - 1, t->strides[k], &step) || !add_i64(last, step, &last))
      return INVALID("its size overflows");
  }
  if (!add_i64(last, 1, &last) || !mul_size(clave_dtype_size(t->dtype), (uint64_t)last, out))
    return INVALID("its size overflows");
  return NULL;
}

static clave_status read_memory(const clave_delegate_memory *given, clave_delegate_memory *out) {
  TRY(sized_read(given, out, SIZED(clave_delegate_memory, bytes)));
  switch (out->kind) {
    case CLAVE_DELEGATE_HOST:
    case CLAVE_DELEGATE_CL_MEM:
      if (out->memory || !out->bytes) return NULL;
      return INVALID("memory is NULL, with %zu bytes", out->bytes);
    case CLAVE_DELEGATE_DMA_BUF:
      return out->fd >= 0 ? NULL : INVALID("descriptor %d of a dma-buf is negative", out->fd);
  }
  return INVALID("memory: expected a clave_delegate_memory_kind, got %d", (int)out->kind);
}

/* ---------------------------------------------------------------- inputs */

static clave_status set_input(clave_session *s, const char *method, uint32_t index,
                              const clave_tensor *value) {
  bool empty = false;
  TRY(check_described(value));
  for (int k = 0; k < value->rank; k++) empty = empty || value->dims[k] == 0;
  if (!value->data && !empty) return INVALID("its data is NULL");
  return own(clave_session_set_input(s, method, index, value));
}

clave_status delegate_set_input(clave_delegate_handle instance, const char *method, uint32_t index,
                                const clave_tensor *value) {
  delegate_instance *in;
  TRY_GIVEN(value);
  TRY(instance_enter(instance, &in));
  clave_status st = set_input(in->s, method, index, value);
  instance_leave(in);
  return status_while(st, "setting input %u", index);
}

static clave_status bind_input(clave_session *s, const char *method, uint32_t index,
                               const clave_tensor *value, const clave_delegate_memory *given) {
  clave_delegate_memory m;
  size_t need;
  if (!given) return own(clave_session_bind_input(s, method, index, NULL));
  TRY_GIVEN(value);
  TRY(read_memory(given, &m));
  TRY(check_described(value));
  TRY(measure(value, &need));
  if (need > m.bytes) return INVALID("it needs %zu bytes, the memory has %zu", need, m.bytes);
  if (m.kind == CLAVE_DELEGATE_CL_MEM)
    return own(clave_session_bind_input_mem(s, method, index, value, m.memory, m.offset));
  if (m.kind == CLAVE_DELEGATE_DMA_BUF)
    return own(clave_session_bind_input_dma_buf(s, method, index, value, m.fd, m.offset));
  clave_tensor there = *value;
  there.data = m.memory ? (char *)m.memory + m.offset : NULL;
  return own(clave_session_bind_input(s, method, index, &there));
}

clave_status delegate_bind_input(clave_delegate_handle instance, const char *method, uint32_t index,
                                 const clave_tensor *value, const clave_delegate_memory *memory) {
  delegate_instance *in;
  TRY(instance_enter(instance, &in));
  clave_status st = bind_input(in->s, method, index, value, memory);
  instance_leave(in);
  return status_while(st, "binding input %u", index);
}

/* ---------------------------------------------------------------- outputs */

static clave_status bind_output(clave_session *s, const char *method, uint32_t index,
                                const clave_delegate_memory *given) {
  clave_delegate_memory m;
  if (!given) return own(clave_session_bind_output(s, method, index, NULL, 0));
  TRY(read_memory(given, &m));
  if (m.kind == CLAVE_DELEGATE_CL_MEM)
    return own(clave_session_bind_output_mem(s, method, index, m.memory, m.offset, m.bytes));
  if (m.kind == CLAVE_DELEGATE_DMA_BUF)
    return own(clave_session_bind_output_dma_buf(s, method, index, m.fd, m.offset, m.bytes));
  /* An output without room is one of no elements: it lies anywhere. */
  static char nowhere[1];
  char *there = m.memory ? (char *)m.memory + m.offset : nowhere;
  return own(clave_session_bind_output(s, method, index, there, m.bytes));
}

clave_status delegate_bind_output(clave_delegate_handle instance, const char *method,
                                  uint32_t index, const clave_delegate_memory *memory) {
  delegate_instance *in;
  TRY(instance_enter(instance, &in));
  clave_status st = bind_output(in->s, method, index, memory);
  instance_leave(in);
  return status_while(st, "binding output %u", index);
}

clave_status delegate_result(clave_delegate_handle instance, const char *method, uint32_t index,
                             clave_tensor *out) {
  delegate_instance *in;
  TRY_GIVEN(out);
  TRY(instance_enter(instance, &in));
  clave_status st = own(clave_session_output(in->s, method, index, out));
  instance_leave(in);
  return st;
}
