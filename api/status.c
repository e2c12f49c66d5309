/* Errors, version and tensor descriptions of the public API. */
#include <string.h>

#include "api/internal.h"

_Static_assert(CLAVE_IO == (int)STATUS_IO && CLAVE_INVALID == (int)STATUS_INVALID &&
                   CLAVE_DEVICE == (int)STATUS_DEVICE && CLAVE_CANCELLED == (int)STATUS_CANCELLED,
               "codes");
_Static_assert(CLAVE_BOOL == (int)DTYPE_BOOL && CLAVE_F8_E5M2 == (int)DTYPE_F8_E5M2 &&
                   CLAVE_MAX_RANK == (int)MAX_RANK,
               "dtypes");

clave_code clave_status_code(const struct clave_error *status) {
  return (clave_code)status_code_of(status);
}
const char *clave_status_message(const struct clave_error *status) {
  return status_message(status);
}
void clave_status_free(clave_status status) { status_free(status); }
const char *clave_version(void) { return CLAVE_VERSION; }

const char *clave_dtype_name(clave_dtype type) {
  return (unsigned)type < DTYPE_COUNT ? dtype_name((dtype)type) : NULL;
}
size_t clave_dtype_size(clave_dtype type) {
  return (unsigned)type < DTYPE_COUNT ? dtype_size((dtype)type) : 0;
}

clave_tensor clave_tensor_make(clave_dtype type, int rank, const int64_t *dims, void *data) {
  clave_tensor tensor = {.dtype = type,
                         .rank = rank < 0                ? 0
                                 : rank > CLAVE_MAX_RANK ? CLAVE_MAX_RANK
                                                         : rank,
                         .data = data};
  int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; i--) {
    tensor.dims[i] = dims[i];
    tensor.strides[i] = stride;
    stride *= dims[i] > 0 ? dims[i] : 1;
  }
  return tensor;
}

tensor tensor_from_public(const clave_tensor *value) {
  tensor tensor = {.type = (dtype)value->dtype, .rank = value->rank};
  memcpy(tensor.dims, value->dims, sizeof tensor.dims);
  memcpy(tensor.strides, value->strides, sizeof tensor.strides);
  return tensor;
}

void tensor_to_public(const tensor *tensor, const void *data, clave_tensor *out) {
  union {
    const void *in;
    void *out;
  } cast = {data};
  *out = clave_tensor_make((clave_dtype)tensor->type, tensor->rank, tensor->dims, cast.out);
}
