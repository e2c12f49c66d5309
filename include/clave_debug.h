#ifndef CLAVE_DEBUG_H
#define CLAVE_DEBUG_H
/* Debugging of sessions: replaces values during a run, and shows where tensors are in an arena. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Like clave_observe_fn, but may change the numbers in `value`, which is contiguous. If it sets
 * *edited, later instructions, outputs and state get the new numbers. */
typedef bool (*clave_edit_fn)(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value,
                              bool *edited);
/* Sets `edit` in place of the session's observer; NULL removes it. */
CLAVE_API clave_status clave_session_edit(clave_session *session, clave_edit_fn edit,
                                          void *ctx) CLAVE_CHECK;

/* A block of a device's arena, as planned for the last run of a method. */
typedef struct clave_block_info {
  size_t size;          /* sizeof(clave_block_info) */
  const char *device;   /* "opencl" or "cpu" */
  const char *name;     /* name of the first tensor in the block; "" for a copy */
  clave_slot_kind kind; /* kind of the tensor `name` */
  uint32_t chunk;       /* index of the arena's chunk; offsets count from its start */
  uint64_t offset, bytes;
  uint32_t first, last; /* first and last command that use it, inclusive */
  uint64_t node;        /* the node of command `first`; n_nodes if none */
} clave_block_info;
/* Counts the blocks and the commands of the whole plan. INVALID before the method has run. */
CLAVE_API clave_status clave_session_count_blocks(const clave_session *session, const char *method,
                                                  uint32_t *blocks, uint32_t *commands) CLAVE_CHECK;
/* Describes block `index`. Names are borrowed from the program. */
CLAVE_API clave_status clave_session_block(const clave_session *session, const char *method,
                                           uint32_t index, clave_block_info *info) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
