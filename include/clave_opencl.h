#ifndef CLAVE_OPENCL_H
#define CLAVE_OPENCL_H
/* clave in a program that uses OpenCL itself: a device in the caller's context, inputs and outputs
 * in the caller's buffers, without a copy through the host.
 *
 *   clave_device_create_from_opencl(context, device_id, queue, NULL, &device);
 *   clave_session_create(program, device, NULL, &session);
 *   clEnqueueNDRangeKernel(queue, ...);  // writes the buffer `image`
 *   clave_session_bind_input_mem(session, "forward", 0, &shape, image, 0);
 *   clave_session_bind_output_mem(session, "forward", 0, logits, 0, 10 * sizeof(float));
 *   clave_session_run(session, "forward");  // after what `queue` held; complete when it returns
 *
 * Handles are passed as void *, so that no OpenCL header is needed here. They are of the OpenCL
 * that libOpenCL.so.1 gives, which clave opens as well. What is no handle at all, or of an object
 * that is gone, cannot be told and is the caller's to avoid. clave retains what it uses as long as
 * it does; it never waits for the caller's queue as a whole, and changes no object but the bytes of
 * bound outputs.
 *
 * A host that opens OpenCL before clave keeps its driver's own settings: docs/devices.md says what
 * that means for PoCL. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* context: a cl_context; device: a cl_device_id of it, one that clave_devices_get lists (no
 * sub-device). queue: a cl_command_queue of both, in order or not, or NULL.
 *
 * A session has a queue of its own in the context. What a run enqueues there begins when all is
 * over that the caller's queue held at the call of clave_session_run, which flushes it, and fails
 * if that failed. Without a queue the caller waits, before a run, for what writes bound inputs and
 * what uses bound outputs. A run is complete when clave_session_run returns, so that all that the
 * caller enqueues then, in any queue, sees its results. A queue that waits for what its own thread
 * does after the run (a user event) blocks the run for good.
 *
 * options: as for clave_device_open. The CPU backend takes what the device cannot run unless
 * no_fallback is set. */
CLAVE_API clave_status clave_device_create_from_opencl(void *context, void *device, void *queue,
                                                       const clave_device_options *options,
                                                       clave_device **out) CLAVE_CHECK;

/* A file of the binaries of the kernels that have run on an OpenCL device in this process. As
 * clave_device_options.binaries, its bytes, aligned to 8, are where a device that is opened takes
 * kernels from, ahead of the cache: processes that begin without one build nothing. Those of
 * another device, driver, processor or version of clave are left alone, with a note. UNSUPPORTED:
 * nothing ran, or the driver gives no binaries. */
CLAVE_API clave_status clave_device_save_binaries(const clave_device *device,
                                                  const char *path) CLAVE_CHECK;

/* As clave_session_bind_input, from memory of the session's OpenCL device. memory: a cl_mem of the
 * context that the device was made from, a buffer or a part of one, retained until the input is set
 * or bound again; NULL: no input. shape: dtype and dims, contiguous; its data is not used. The
 * elements lie from `offset` on, in bytes, a multiple of an element's size; each run reads them
 * there. The buffer is not CL_MEM_WRITE_ONLY; it may be closed to the host (CL_MEM_HOST_NO_ACCESS
 * and the like), though ops that run on the CPU backend get a copy, and kernels are compared with
 * it when they first run. Host scalars are not bound this way; nothing is while the CPU backend
 * answers for the device (clave_session_options.warm_up). */
CLAVE_API clave_status clave_session_bind_input_mem(clave_session *session, const char *method,
                                                    uint32_t index, const clave_tensor *shape,
                                                    void *memory, size_t offset) CLAVE_CHECK;
/* As clave_session_bind_output: runs write the result, contiguous, to the `size` bytes of a cl_mem
 * from `offset` on, in a CL_MEM_READ_WRITE buffer; NULL: to the session's own memory. It may lie in
 * an input's memory, not in another output's; parts of one buffer, and buffers over the same host
 * memory (CL_MEM_USE_HOST_PTR), are told by where they lie. A result that lies on an input, or is
 * not made as a whole on that device, is copied there when the run ends; others are made there.
 * clave_session_output gives its dtype and dims, with data NULL. */
CLAVE_API clave_status clave_session_bind_output_mem(clave_session *session, const char *method,
                                                     uint32_t index, void *memory, size_t offset,
                                                     size_t size) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
