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
 * Handles are passed as void *, so that no OpenCL header is needed here. They must come from the
 * OpenCL library that clave uses (clave_opencl_library). clave cannot detect pointers that are not
 * handles, or handles of released objects. It retains each object while it uses it, never waits for
 * the caller's whole queue, and changes nothing but the bytes of bound outputs.
 *
 * A host that opens OpenCL before clave keeps its driver's own settings; docs/reference/devices.md
 * says what that means for PoCL. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name or path of the OpenCL library that clave uses, as it opened it:
 * "libOpenCL.so.1", another name of the platform, or the value of CLAVE_OPENCL_LIBRARY. Returns
 * NULL if clave uses no library; clave_devices_hint says why. */
CLAVE_API const char *clave_opencl_library(void);

/* True once an OpenCL device was lost in this process. Threads of its driver may still work, and
 * the driver's exit handlers may then crash or hang, so leave the process by _Exit instead of exit.
 * The next process that uses clave removes the files of such a process. */
CLAVE_API bool clave_opencl_was_lost(void);

/* Opens a device in the caller's context. context: a cl_context; device: a cl_device_id of it that
 * clave_devices_get lists (no sub-device). queue: a cl_command_queue of both, in order or not, or
 * NULL.
 *
 * Each session has its own queue in the context. A run begins when everything that the caller's
 * queue held at the call of clave_session_run is complete; the call flushes that queue, and fails
 * if its work failed. Without a queue the caller waits, before a run, for the commands that write
 * bound inputs or use bound outputs. A run is complete when clave_session_run returns, so commands
 * that the caller enqueues afterwards, in any queue, see its results. If the queue waits for
 * something that the same thread does only after the run (a user event), the run never returns.
 *
 * options: as for clave_device_open. The CPU backend runs the ops that the device cannot run,
 * unless no_fallback is set. */
CLAVE_API clave_status clave_device_create_from_opencl(void *context, void *device, void *queue,
                                                       const clave_device_options *options,
                                                       clave_device **out) CLAVE_CHECK;

/* Writes a file of the binaries of the kernels that have run on an OpenCL device in this process.
 * If clave_device_options.binaries holds its bytes, aligned to 8, a device takes kernels from them
 * before it looks in the cache, so a process without a cache builds nothing. Binaries of another
 * device, driver, processor or version of clave are ignored, with a note. UNSUPPORTED: nothing ran,
 * or the driver returns no binaries. */
CLAVE_API clave_status clave_device_save_binaries(const clave_device *device,
                                                  const char *path) CLAVE_CHECK;

/* Like clave_session_bind_input, but from memory of the session's OpenCL device. memory: a cl_mem
 * of the device's context, a buffer or sub-buffer, retained until the input is set or bound again;
 * NULL removes the input. shape: dtype and dims, contiguous; its data is ignored. The elements
 * begin at byte `offset`, a multiple of the element size, and each run reads them there. The buffer
 * must not be CL_MEM_WRITE_ONLY. It may be inaccessible to the host (CL_MEM_HOST_NO_ACCESS and the
 * like): ops on the CPU backend, and the check of kernels at their first run, read a copy. Host
 * scalars cannot be bound this way, and no input can be while the CPU backend runs in the device's
 * place (clave_session_options.warm_up). */
CLAVE_API clave_status clave_session_bind_input_mem(clave_session *session, const char *method,
                                                    uint32_t index, const clave_tensor *shape,
                                                    void *memory, size_t offset) CLAVE_CHECK;
/* Like clave_session_bind_output, but runs write the contiguous result to `size` bytes of a
 * CL_MEM_READ_WRITE buffer from byte `offset` on; NULL restores the session's own memory. The bytes
 * may overlap an input, but not another output; overlaps through sub-buffers and through buffers
 * over the same host memory (CL_MEM_USE_HOST_PTR) are detected. Results are computed in place. A
 * result that overlaps an input, or that this device does not compute alone, is copied to the
 * buffer when the run ends. clave_session_output returns its dtype and dims, with data NULL. */
CLAVE_API clave_status clave_session_bind_output_mem(clave_session *session, const char *method,
                                                     uint32_t index, void *memory, size_t offset,
                                                     size_t size) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
