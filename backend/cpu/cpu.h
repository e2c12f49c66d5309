#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H
/* The interface for op families of the CPU backend. Each op has a function cpu_<op>() that runs
 * once per schedule: it describes the op (ops/<family>.h) and records commands. A command is a pure
 * function of backend/cpu/kernels/ with its arguments.
 *
 *   clave_status cpu_rms_norm(cpu_recorder *r, const node *n) {
 *     norm_desc f;
 *     describe_rms_norm(n, &f);
 *     return cpu_launch(r, rms_norm, &(row_norm){.x = cpu_operand(r, f.x), ...});
 *   }
 */
#include "backend/cpu/recorded.h"
#include "base/kernel.h"
#include "base/threads.h"

typedef struct cpu_span {
  int64_t start_ns, end_ns;
} cpu_span;

typedef struct cpu_stream {
  stream base;
  thread_pool *threads;  /* borrowed from the backend */
  kernel_context kernel; /* its pool is this stream */
  char *scratch;         /* borrowed; scratch memory of the running recording */
  size_t scratch_size, scratch_used;
  kernel_fault fault; /* fault of the running node, written by kernels */
  device_fault first; /* first fault since the last finish */
  bool profile;
  cpu_span *spans; /* owned, (n_spans), by node number */
  uint32_t n_spans;
} cpu_stream;

/* ---------------------------------------------------------------- recording */

typedef struct cpu_recorder cpu_recorder;

/* One row per op, generated from the schema (build/gen/cpu_table.c). */
typedef clave_status (*cpu_op)(cpu_recorder *recorder, const node *node);
extern const cpu_op cpu_table[IR_OP_COUNT];

/* Returns true if a fast recording of the node can read or write the slot, an F32 operand, as BF16.
 * The recording of `recorder` is discarded. The table in bf16.c has the rules. */
typedef bool (*cpu_bf16_rule)(cpu_recorder *recorder, const node *node, uint32_t slot);
bool conv_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot);
bool conv_transpose_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot);
bool elementwise_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot);
bool group_norm_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot);
bool matmul_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot);
/* Evaluates a rule with a recorder whose recording is discarded. */
bool cpu_bf16_rule_holds(backend *backend, cpu_bf16_rule rule, const node *node, uint32_t slot);

/* Returns an operand for a struct of arguments. Until a run, its data pointer is a placeholder for
 * the slot. If tensor is NULL, data is NULL, too. */
ktensor cpu_operand(cpu_recorder *recorder, const bound_tensor *tensor);
/* Returns the operand with the dims and strides of tensor, from its first element on. */
ktensor cpu_view(cpu_recorder *recorder, const bound_tensor *operand, const tensor *tensor);
/* Returns the dims and strides of tensor. */
klayout cpu_layout(const tensor *tensor);

/* Records a kernel, by its name in KERNEL, with a pointer to its arguments. */
#define cpu_launch(r, name, ...) \
  cpu_record_kernel(r, &kernel_##name, 1 ? (__VA_ARGS__) : (const name##_kernel_args *)NULL)
/* A request for a packed constant operand. The kernel `desc` packs it once per device, into its
 * scratch memory (see packed_weight_request). size: all other values that the packed bytes depend
 * on, besides the dims, strides and dtype of x. */
typedef enum cpu_packed_kind {
  CPU_PACKED_CONV,
  CPU_PACKED_MATMUL,
  CPU_PACKED_PAIRS,
  CPU_PACKED_WINOGRAD,
  CPU_PACKED_CONV_DIRECT,
  CPU_PACKED_CONV_PAIRS,
  CPU_PACKED_DIRECT_PAIRS,
  CPU_PACKED_CONV_TILES,
  CPU_PACKED_DIRECT_TILES,
  CPU_PACKED_MATMUL_TILES,
  CPU_PACKED_INTEGER_TILES
} cpu_packed_kind;
typedef struct cpu_packed_request {
  cpu_packed_kind kind;
  const bound_tensor *x;
  int64_t size[3];
  const kernel_desc *desc;
  const void *args;
} cpu_packed_request;
/* cpu_key begins the key of a choice; cpu_choose returns the variant of a family for this key, see
 * base/tuning.h. Choices do not change the bits of results, except in families with
 * changes_rounding. */
tuning_key cpu_key(const cpu_recorder *recorder);
const kernel_variant *cpu_choose(cpu_recorder *recorder, const variants *all,
                                 const tuning_key *key);
bool cpu_is_fast(const cpu_recorder *recorder);        /* the `fast` of backend.record */
void cpu_rounds(cpu_recorder *recorder, rounding how); /* sets recording.rounds */
bool cpu_may_pack(const cpu_recorder *recorder,
                  const bound_tensor *tensor); /* must be true for cpu_packed */
/* Requests a packed weight and records its packing. Sets *data to the placeholder to store in the
 * arguments. */
clave_status cpu_packed(cpu_recorder *recorder, const cpu_packed_request *request,
                        const void **data) STATUS_CHECK;
/* Placeholders of a constant: the packed weight of x, kind and size, if another node has packed it,
 * and the plain constant. In a run, exactly one of the two pointers is NULL. */
typedef struct cpu_packed_or_plain {
  const void *packed, *plain;
} cpu_packed_or_plain;
cpu_packed_or_plain cpu_packed_by_others(cpu_recorder *recorder, const cpu_packed_request *request,
                                         const bound_tensor *tensor);
clave_status cpu_record_kernel(cpu_recorder *recorder, const kernel_desc *desc,
                               const void *args) STATUS_CHECK;
/* Records the steps of the node's epilogue, if it has one, after the node's own commands. */
clave_status cpu_epilogue(cpu_recorder *recorder, const node *node) STATUS_CHECK;
/* Declares that the node's own commands compute its epilogue. */
void cpu_accepts_epilogue(cpu_recorder *recorder);
/* True if the node's own commands compute its epilogue, or if the node has none. */
bool cpu_has_own_epilogue(const cpu_recorder *recorder, const node *node);

/* ---------------------------------------------------------------- the vtable */

/* buffer.c: buffers that own their memory, or wrap the caller's. */
clave_status cpu_buffer_create(backend *backend, size_t bytes, buffer **out) STATUS_CHECK;
clave_status cpu_buffer_wrap(backend *backend, const void *host, size_t bytes, bool writable,
                             buffer **out) STATUS_CHECK;
void cpu_buffer_destroy(backend *backend, buffer *buf); /* accepts NULL */
/* Returns a context like that of a stream's kernels, to compute their scratch sizes. */
kernel_context cpu_kernel_context(const backend *backend);
bool cpu_supports_bf16(backend *backend, const node *node, uint32_t slot);
clave_status cpu_record(backend *backend, const node *node, bool fast,
                        recording **out) STATUS_CHECK;
void cpu_recording_destroy(backend *backend, recording *recording);
void cpu_state_destroy(stream *stream, void *state);
/* Runs the commands. *state keeps their arguments, with data pointers, for one stream. */
clave_status cpu_run_commands(cpu_stream *stream, const recording *recording, void **state,
                              const run_operands *operands) STATUS_CHECK;
clave_status cpu_pack(stream *stream, const packed_weight_request *request,
                      const bound_tensor *operands, bool clears,
                      buffer *to) STATUS_CHECK; /* the vtable's pack */

#endif
