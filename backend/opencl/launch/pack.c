/* Packs weights: runs the launches that a request recorded. */
#include "backend/opencl/launch/stream.h"

/* Launches that need more scratch memory than the packed weight get a temporary buffer. */
clave_status opencl_pack(stream *base, const packed_weight_request *request,
                         const bound_tensor *operands, bool clears, buffer *to) {
  cl_stream *queue = (cl_stream *)base;
  const backend_vtable *vt = base->owner->vt;
  const size_t scratch_bytes = request->pack->scratch_bytes;
  const bool profiling = queue->profiling;
  buffer *larger = NULL, *written = to;
  void *state = NULL;
  unsigned char first;
  if (scratch_bytes > to->bytes) {
    TRY(vt->buffer_create(base->owner, scratch_bytes, &larger));
    written = larger;
  }
  const run_operands run_operands = {.tensors = operands, .scratch = written};
  queue->profiling = false;
  clave_status st = clears ? opencl_fill_zero(base, written, 0, written->bytes) : NULL;
  if (!st) st = opencl_run(base, request->pack, &state, &run_operands, queue->number);
  if (!st && larger) st = opencl_copy_buffer(base, to, 0, larger, 0, to->bytes);
  if (!st) st = opencl_read(base, to, 0, &first, to->bytes ? sizeof first : 0); /* waits */
  queue->profiling = profiling;
  if (state) vt->state_destroy(base, state);
  vt->buffer_destroy(base->owner, larger);
  return st;
}
