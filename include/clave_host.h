#ifndef CLAVE_HOST_H
#define CLAVE_HOST_H
/* For applications and other engines that bring their own files, weights, profilers and memory:
 * constants by name, node timings, inputs and outputs in dma-bufs.
 *
 * SIGBUS. Reading a mapped file that another process cut short raises this signal. The library
 * installs a handler while it maps a file (files of more than 256 KB; smaller ones are copied). In
 * its own mappings the handler replaces the missing bytes by zeros. The call that reads them
 * (clave_program_load, sessions and their runs, clave_program_save, ...) then fails with CLAVE_IO
 * and the file's name, and so do later calls. All other faults go to the handler that the process
 * had before or set since, which may call the library's. Each run installs the handler again;
 * unmapping the last file restores the process's. Threads must not block the signal.
 *
 * A host that reads constants itself (clave_program_constant) must call clave_program_check_hashes
 * afterwards. A host that reads tensors (clave_tensors_get) must call clave_tensors_check.
 * clave_guard_create guards the host's own mappings. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a constant by name. *constant arrives with the dtype and dims that the program declares
 * (for an encoded constant: U8, as stored). On success the function sets its data to the
 * contiguous, borrowed bytes, which must not change while the program lives, and returns true. It
 * returns false if there is no such constant. If it changes the dtype or shape,
 * clave_program_create_by_name fails. */
typedef bool (*clave_find_fn)(void *ctx, const char *name, clave_tensor *constant);

/* Like clave_program_create, but looks up each constant by name, in the program's order. */
CLAVE_API clave_status clave_program_create_by_name(const void *flatbuffer, size_t size,
                                                    clave_find_fn find, void *ctx,
                                                    clave_program **out) CLAVE_CHECK;

/* Copies the constants that the program borrows from its caller, who may then change and free them.
 * Without the copy they must not change while the program or a session of it lives: sessions keep
 * packed copies of some and read others in place, and would mix old and new values. Constants in
 * files are not copied. Call this before any session is created. */
CLAVE_API clave_status clave_program_own_constants(clave_program *program) CLAVE_CHECK;

/* Guards a private mapping of a file that the host made itself and that a program's constants may
 * borrow. If the file is cut short, reads find zeros in place of the missing bytes, and *is_cut
 * becomes true: data read since the last check may be wrong. pages: start of the mapping,
 * page-aligned; size: bytes, not 0. At most 256 mappings are guarded, including the library's; one
 * more is CLAVE_NO_MEMORY. is_cut must outlive the guard. */
typedef struct clave_guard clave_guard;
CLAVE_API clave_status clave_guard_create(const void *pages, size_t size, volatile bool *is_cut,
                                          clave_guard **out) CLAVE_CHECK;
CLAVE_API void clave_guard_destroy(clave_guard *guard); /* call it before unmapping */

typedef enum clave_timing_kind {
  CLAVE_TIMING_NODE = 0,
  CLAVE_TIMING_COPY = 1,    /* within a device's memory */
  CLAVE_TIMING_TRANSFER = 2 /* between devices */
} clave_timing_kind;
typedef struct clave_timing {
  size_t size; /* sizeof(clave_timing) */
  clave_timing_kind kind;
  uint32_t node;    /* index for clave_program_node; n_nodes: an update of state */
  const char *op;   /* "softmax"; "copy" or "transfer" */
  const char *name; /* the source graph's node */
  const char *device;
  int64_t start_ns, end_ns; /* monotonic clock */
  const char *shapes;       /* "F32 [2, 3], F32 [3, 4] -> F32 [2, 4]"; "" for CLAVE_TIMING_COPY,
                               _TRANSFER */
  clave_dtype dtype;        /* dtype of the computation: I8 if rows are rounded to 8 bits */
  double flops; /* operations, a multiply-add counting as two (docs/reference/ops.md); negative if
                   unknown */
  double bytes; /* read and written; weights count as stored */
  double compute_ns, memory_ns; /* time of flops and bytes at the device's peaks; 0 if unknown */
} clave_timing;
typedef void (*clave_timing_fn)(void *ctx, const clave_timing *timing);

/* Peak speeds of a device, for clave_timing and profiles. */
typedef struct clave_peak {
  size_t size;           /* sizeof(clave_peak) */
  const char *device;    /* clave_timing.device */
  clave_dtype dtype;     /* dtype of the factors; F32 also serves dtypes without an entry */
  double flops_a_second; /* 0 if unknown */
  double bytes_a_second; /* 0 if unknown */
} clave_peak;
/* Replaces the session's peaks by copies of these. */
CLAVE_API clave_status clave_session_set_peaks(clave_session *session, const clave_peak *peaks,
                                               size_t n) CLAVE_CHECK;

/* Calls `each` for each command of the last run, in order; texts are valid during the call. Needs
 * options.profile. */
CLAVE_API clave_status clave_session_timings(const clave_session *session, clave_timing_fn each,
                                             void *ctx) CLAVE_CHECK;

/* ---------------------------------------------------------------- dma-bufs
 * Memory that Linux drivers share (a camera's frame, a display's or a codec's buffer), by its file
 * descriptor. Shared memory that cannot shrink, a memfd with F_SEAL_SHRINK, is accepted as well on
 * devices that map it.
 *
 * A device imports it by cl_khr_external_memory_dma_buf or cl_arm_import_memory_dma_buf
 * (clave_device_info.extensions), and runs acquire and release it. A device that runs on the host
 * (the CPU backend or an OpenCL driver of the CPU) maps it, with DMA_BUF_IOCTL_SYNC around each
 * run. Any other device is UNSUPPORTED. A run does not wait for other devices that still write or
 * read the memory: the caller waits before the run (polls the descriptor, or a fence). While the
 * CPU backend runs in the device's place (clave_session_options.warm_up) no dma-buf can be bound:
 * INVALID. */

/* Like clave_session_bind_input, but from the memory of `fd`. The caller keeps fd and may close it
 * when this returns; the session holds the memory until the input is set or bound again. fd -1
 * removes the input. shape: dtype and dims, contiguous; its data is ignored. The elements begin at
 * byte `offset`, a multiple of the element size. Host scalars cannot be bound this way. */
CLAVE_API clave_status clave_session_bind_input_dma_buf(clave_session *session, const char *method,
                                                        uint32_t index, const clave_tensor *shape,
                                                        int fd, size_t offset) CLAVE_CHECK;
/* Like clave_session_bind_output, but runs write the contiguous result to `size` bytes of fd's
 * memory from byte `offset` on. fd -1 restores the session's own memory. The bytes may overlap an
 * input, but not another output, even through another descriptor. clave_session_output returns
 * dtype and dims, with data NULL. */
CLAVE_API clave_status clave_session_bind_output_dma_buf(clave_session *session, const char *method,
                                                         uint32_t index, int fd, size_t offset,
                                                         size_t size) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
