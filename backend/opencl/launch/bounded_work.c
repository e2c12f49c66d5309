/* Limits the work that a queue holds. Some drivers start no work before a flush (Mali, PowerVR),
 * some end a context whose work takes too long (Intel's i915, Windows), and some abort if a queue
 * is too long (Adreno). Estimates are pessimistic: needless flushes of a fast GPU cost little. */
#include "backend/opencl/launch/stream.h"
#include "ops/work.h"

enum {
  FLUSHED_LAUNCHES = 32, /* the queue is flushed after this many launches, or this much work */
  FLUSHED_NS = 20000000,
  AWAITED_NS = 1000000000, /* the queue holds at most twice this work */
  LAUNCHED_NS = 500000000, /* a launch with more work is split */
  MAX_SPLITS = 1024
};

/* Operations per cycle and compute unit, and bytes per nanosecond of the device, that kernels reach
 * even on phones. Drivers that do not know the clock report 0 or 1 MHz. */
enum { UNIT_OPERATIONS = 4, F64_SLOWDOWN = 16, MIN_CLOCK_MHZ = 400, DEVICE_BYTES = 4 };

static bool has_f64(const node *node) {
  for (operand_iter i = operands_of(node->instruction); next_operand(&i);)
    if (node->tensors[i.operand.tid].tensor.type == DTYPE_F64) return true;
  return false;
}

int64_t estimate_work(const cl_device *device, const node *node) {
  enum { SLOW = 1000000 };
  const double max_ns = 1e15;
  const op_work work = measure_work(&(work_node){.node = node});
  const backend_info *info = &device->base.info;
  const double clock_mhz = info->clock_mhz < MIN_CLOCK_MHZ ? MIN_CLOCK_MHZ : info->clock_mhz,
               units = info->compute_units ? info->compute_units : 1,
               operations =
                   units * clock_mhz * UNIT_OPERATIONS * 1e-3 / (has_f64(node) ? F64_SLOWDOWN : 1),
               ns = (work.flops > 0 ? work.flops / operations : 0) + work.bytes / DEVICE_BYTES,
               given = device->entry->traits.is_slow ? ns * SLOW : ns;
  return given < max_ns ? (int64_t)given : (int64_t)max_ns;
}

/* ---------------------------------------------------------------- a launch */

bool launch_is_long(const cl_recorder *recorder) {
  return !recorder_traits(recorder)->is_cpu && recorder->out->estimated_ns > LAUNCHED_NS;
}

/* The third dimension is never split, because kernels may use its number of groups. */
void split_launch(const cl_recorder *recorder, recorded_launch *launch) {
  const size_t groups[2] = {launch->global[0] / launch->local[0],
                            launch->global[1] / launch->local[1]};
  const int dim = groups[1] > groups[0];
  const int64_t n = recorder->out->estimated_ns / LAUNCHED_NS + 1;
  launch->split_dim = dim;
  launch->n_splits = n < MAX_SPLITS ? (size_t)n : MAX_SPLITS;
  if (launch->n_splits > groups[dim]) launch->n_splits = groups[dim];
}

/* ---------------------------------------------------------------- the queue */

/* Enqueues a marker and waits for the previous one, so that the device always has work. */
static clave_status wait_for_earlier(cl_stream *stream) {
  const cl_event before = stream->mark;
  cl_event mark;
  cl_int code = stream->cl->clEnqueueMarkerWithWaitList(stream->queue, 0, NULL, &mark);
  if (code != CL_SUCCESS) return stream_failed(stream, code, "clEnqueueMarkerWithWaitList");
  stream->mark = mark;
  stream->unmarked_ns = 0;
  code = stream->cl->clFlush(stream->queue);
  if (code != CL_SUCCESS) return stream_lost(stream, code, "clFlush");
  if (!before) return NULL;
  code = stream->cl->clWaitForEvents(1, &before);
  if (code != CL_SUCCESS) return stream_lost(stream, code, "clWaitForEvents");
  stream->cl->clReleaseEvent(before);
  return NULL;
}

clave_status bound_work(cl_stream *stream, int64_t ns) {
  if (stream->device->entry->traits.is_cpu) return NULL;
  stream->unflushed++;
  stream->unflushed_ns += ns;
  stream->unmarked_ns += ns;
  if (stream->unmarked_ns >= AWAITED_NS) {
    stream->unflushed = 0;
    stream->unflushed_ns = 0;
    return wait_for_earlier(stream);
  }
  if (stream->unflushed < FLUSHED_LAUNCHES && stream->unflushed_ns < FLUSHED_NS) return NULL;
  stream->unflushed = 0;
  stream->unflushed_ns = 0;
  const cl_int code = stream->cl->clFlush(stream->queue);
  return code == CL_SUCCESS ? NULL : stream_lost(stream, code, "clFlush");
}
