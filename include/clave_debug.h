#ifndef CLAVE_DEBUG_H
#define CLAVE_DEBUG_H
/* Looking into sessions: runs with other values in the place of what is computed, and where in a
 * device's memory a run keeps what. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As clave_observe_fn, and may put other numbers into `value`, which is contiguous: with *edited
 * set, they are what later instructions read, and what outputs and state hold. */
typedef bool (*clave_edit_fn)(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value,
                              bool *edited);
/* In the place of what observes; NULL: off. */
CLAVE_API clave_status clave_session_edit(clave_session *session, clave_edit_fn edit,
                                          void *ctx) CLAVE_CHECK;

/* A block of a device's arena, as the last run of a method had it planned. */
typedef struct clave_block_info {
  size_t size;          /* sizeof(clave_block_info) */
  const char *device;   /* "opencl" or "cpu" */
  const char *name;     /* of the first tensor that lies there; "": none, but a copy */
  clave_slot_kind kind; /* of that tensor */
  uint32_t chunk;       /* of the arena, which begins its offsets anew */
  uint64_t offset, bytes;
  uint32_t first, last; /* commands that it is alive for, inclusive */
  uint64_t node;        /* what the first of them belongs to; n_nodes: none */
} clave_block_info;
/* INVALID before the method has run. commands: of the whole plan. */
CLAVE_API clave_status clave_session_count_blocks(const clave_session *session, const char *method,
                                                  uint32_t *blocks, uint32_t *commands) CLAVE_CHECK;
/* Names are borrowed from the program. */
CLAVE_API clave_status clave_session_block(const clave_session *session, const char *method,
                                           uint32_t index, clave_block_info *info) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
