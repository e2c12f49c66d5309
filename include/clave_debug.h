#ifndef CLAVE_DEBUG_H
#define CLAVE_DEBUG_H
/* Looking into sessions: runs with other values in the place of what is computed. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As clave_observe_fn, and may put other numbers into `value`, which is contiguous: with *edited
 * set, they are what later instructions read, and what outputs and state hold. */
typedef bool (*clave_edit_fn)(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value,
                              bool *edited);
/* In the place of what observes; NULL: off. */
CLAVE_API clave_status clave_session_edit(clave_session *s, clave_edit_fn edit,
                                          void *ctx) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
