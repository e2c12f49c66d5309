#ifndef CLAVE_HOST_H
#define CLAVE_HOST_H
/* For applications and other engines that bring files, weights, profilers and memory of their own:
 * constants by name, the time that each node took, inputs and outputs in dma-bufs.
 *
 * SIGBUS. Reading a mapped file that another process cut short raises this signal. While a file is
 * mapped (one of more than 256 KB; smaller ones are copied) the library has a handler. In its own
 * mappings it replaces the missing bytes by zeros. The call that reads them (clave_program_load,
 * sessions and their runs, clave_program_save, ...) then fails with CLAVE_IO and the file's name,
 * and so do later calls. All other faults go to the handler that the process had, or set since,
 * which may call the library's. Each run installs the handler again; the last mapping restores the
 * process's. Threads must not block the signal. A host that reads constants itself
 * (clave_program_constant) checks them by clave_program_check_hashes, tensors (clave_tensors_get)
 * by clave_tensors_check. What a host maps itself is guarded likewise by clave_guard_create. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a constant by name. *constant arrives with the dtype and dims that the program declares
 * (for an encoded constant: U8, as stored). On success the function sets its data to the
 * contiguous, borrowed bytes, which must not change while the program lives, and returns true. It
 * returns false if it has no such constant. The call fails if the tensor has another dtype or
 * shape. */
typedef bool (*clave_find_fn)(void *ctx, const char *name, clave_tensor *constant);

/* As clave_program_create, with each constant asked for by its name, in the program's order. */
CLAVE_API clave_status clave_program_create_by_name(const void *flatbuffer, size_t size,
                                                    clave_find_fn find, void *ctx,
                                                    clave_program **out) CLAVE_CHECK;

/* Copies the constants that the program borrows from its caller, who may then change and free them.
 * Without the copy they must not change while the program or a session of it lives: a session has
 * packed copies of some and reads others in place, so it would mix old and new ones. Constants in
 * files are not copied. Called before any session is created. */
CLAVE_API clave_status clave_program_own_constants(clave_program *program) CLAVE_CHECK;

/* Guards a private mapping of a file that the host made itself, from which a program may borrow its
 * constants. Where the file is cut short, reads find zeros in place of the missing bytes, and
 * *is_cut is set: what was read since the last look may be wrong. pages: whole pages, from where
 * the mapping begins; size: its bytes, not 0. At most 256 mappings are guarded, those of the
 * library too; one more is CLAVE_NO_MEMORY. is_cut outlives the guard. */
typedef struct clave_guard clave_guard;
CLAVE_API clave_status clave_guard_create(const void *pages, size_t size, volatile bool *is_cut,
                                          clave_guard **out) CLAVE_CHECK;
CLAVE_API void clave_guard_destroy(clave_guard *guard); /* before the memory is unmapped */

typedef enum clave_timing_kind {
  CLAVE_TIMING_NODE = 0,
  CLAVE_TIMING_COPY = 1,    /* within a device's memory */
  CLAVE_TIMING_TRANSFER = 2 /* between devices */
} clave_timing_kind;
typedef struct clave_timing {
  size_t size; /* sizeof(clave_timing) */
  clave_timing_kind kind;
  uint32_t node;    /* as clave_program_node numbers it; n_nodes: an update of state */
  const char *op;   /* "softmax"; of copies "copy", of transfers "transfer" */
  const char *name; /* the source graph's node */
  const char *device;
  int64_t start_ns, end_ns; /* monotonic clock */
  const char *shapes;       /* "F32 [2, 3], F32 [3, 4] -> F32 [2, 4]"; "" of copies and transfers */
  clave_dtype dtype;        /* that it is computed in: I8 where rows are rounded to 8 bits */
  double flops; /* operations, a multiply-add being two (docs/ops.md); negative: not known */
  double bytes; /* read and written, of weights as they are stored */
  double compute_ns, memory_ns; /* what these take at the device's peaks; 0: not known */
} clave_timing;
typedef void (*clave_timing_fn)(void *ctx, const clave_timing *timing);

/* What a device can do at most, for clave_timing and profiles. */
typedef struct clave_peak {
  size_t size;           /* sizeof(clave_peak) */
  const char *device;    /* clave_timing.device */
  clave_dtype dtype;     /* of what is multiplied and added; F32 stands for dtypes without one */
  double flops_a_second; /* 0: not known, */
  double bytes_a_second; /* as this */
} clave_peak;
/* Replaces those given before; copied. */
CLAVE_API clave_status clave_session_set_peaks(clave_session *session, const clave_peak *peaks,
                                               size_t n) CLAVE_CHECK;

/* What the last run did, in order; texts are valid during the call. Needs options.profile. */
CLAVE_API clave_status clave_session_timings(const clave_session *session, clave_timing_fn each,
                                             void *ctx) CLAVE_CHECK;

/* ---------------------------------------------------------------- dma-bufs
 * Memory that Linux drivers share (a camera's frame, a display's or a codec's buffer), by its
 * descriptor. Shared memory that cannot shrink, a memfd with F_SEAL_SHRINK, is taken as well, where
 * it is mapped.
 *
 * A device imports it by cl_khr_external_memory_dma_buf or cl_arm_import_memory_dma_buf
 * (clave_device_info.extensions), and runs acquire and release it. One that runs on the host, the
 * CPU backend or an OpenCL driver of the CPU, gets it mapped, with DMA_BUF_IOCTL_SYNC around each
 * run. Another device is UNSUPPORTED. A run does not wait for other devices that still write or
 * read the memory: the caller does, before it begins (poll the descriptor, or a fence). While the
 * CPU backend answers for the device (clave_session_options.warm_up) no dma-buf is bound: INVALID.
 */

/* As clave_session_bind_input, from `fd`, which stays the caller's and may be closed when this
 * returns; the memory is held until the input is set or bound again. fd -1: no input. shape: dtype
 * and dims, contiguous; its data is not used. The elements lie from `offset` on, in bytes, a
 * multiple of an element's size. Host scalars are not bound this way. */
CLAVE_API clave_status clave_session_bind_input_dma_buf(clave_session *session, const char *method,
                                                        uint32_t index, const clave_tensor *shape,
                                                        int fd, size_t offset) CLAVE_CHECK;
/* As clave_session_bind_output: runs write the result, contiguous, to the `size` bytes from
 * `offset` on. fd -1: to the session's own memory. It may lie in an input's memory, not in another
 * output's, of whatever descriptors. clave_session_output gives its dtype and dims, with data NULL.
 */
CLAVE_API clave_status clave_session_bind_output_dma_buf(clave_session *session, const char *method,
                                                         uint32_t index, int fd, size_t offset,
                                                         size_t size) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
