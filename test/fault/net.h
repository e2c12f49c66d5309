#ifndef TEST_FAULT_NET_H
#define TEST_FAULT_NET_H
/* Reads a method's inputs and torch's outputs from a data file as test/replay.c does: "in.A.0",
 * ..., "out.0.0", ... */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "clave_files.h"
#include "test/fault/loop.h"

static inline clave_status set_inputs(clave_session *session, const clave_tensors *data) {
  clave_tensor tensor;
  char name[32];
  for (uint32_t i = 0;
       snprintf(name, sizeof name, "in.A.%u", i), clave_tensors_find(data, name, &tensor); i++)
    TRY(i % 2 ? clave_session_set_input(session, "forward", i, &tensor)
              : clave_session_bind_input(session, "forward", i, &tensor));
  return NULL;
}

/* Compares f32 within 1e-3, absolutely and relatively, others exactly. */
static inline bool same_values(const clave_tensor *got, const clave_tensor *want) {
  size_t n = 1;
  if (got->dtype != want->dtype || got->rank != want->rank) return false;
  for (int i = 0; i < want->rank; i++) {
    if (got->dims[i] != want->dims[i]) return false;
    n *= (size_t)want->dims[i];
  }
  if (want->dtype != CLAVE_F32)
    return n == 0 || !memcmp(got->data, want->data, n * clave_dtype_size(want->dtype));
  for (size_t i = 0; i < n; i++) {
    float g = ((float *)got->data)[i], w = ((float *)want->data)[i];
    if (!(fabsf(g - w) <= 1e-3f + 1e-3f * fabsf(w))) return false;
  }
  return true;
}

/* True if the first output of the last run equals that in the data file. */
static inline bool right_output(clave_session *session, const clave_tensors *data) {
  clave_tensor got, want;
  clave_status st = clave_session_output(session, "forward", 0, &got);
  bool right = !st && clave_tensors_find(data, "out.0.0", &want) && same_values(&got, &want);
  clave_status_free(st);
  return right;
}

#endif
