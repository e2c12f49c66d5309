/* The table of functions, and the one symbol that returns it. */
#include <string.h>

#include "delegate/objects.h"

static clave_code code_of(const struct clave_error *st) { return (clave_code)status_code_of(st); }

static const clave_delegate functions = {.size = sizeof functions,
                                         .version = CLAVE_DELEGATE_VERSION,
                                         .status_code = code_of,
                                         .status_message = status_message,
                                         .status_free = status_free,
                                         .devices_count = delegate_devices_count,
                                         .devices_get = delegate_devices_get,
                                         .devices_hint = clave_devices_hint,
                                         .open = delegate_open,
                                         .device_info = delegate_device_info,
                                         .close = delegate_close,
                                         .query = delegate_query,
                                         .query_program = delegate_query_program,
                                         .load = delegate_load,
                                         .unload = delegate_unload,
                                         .program_info = delegate_program_info,
                                         .method = delegate_method,
                                         .input = delegate_input,
                                         .output = delegate_output,
                                         .state = delegate_state,
                                         .node = delegate_node,
                                         .create = delegate_create,
                                         .destroy = delegate_destroy,
                                         .set_input = delegate_set_input,
                                         .bind_input = delegate_bind_input,
                                         .bind_output = delegate_bind_output,
                                         .result = delegate_result,
                                         .execute = delegate_execute,
                                         .submit = delegate_submit,
                                         .wait = delegate_wait,
                                         .cancel = delegate_cancel,
                                         .reset = delegate_reset,
                                         .resize = delegate_resize,
                                         .read_state = delegate_read_state,
                                         .write_state = delegate_write_state,
                                         .copy_state = delegate_copy_state,
                                         .observe = delegate_observe};

clave_code clave_delegate_register(uint32_t version, clave_delegate *given) {
  clave_delegate own_table = functions;
  own_table.library = clave_version();
  if (!given) return CLAVE_INVALID;
  if (version != CLAVE_DELEGATE_VERSION) return CLAVE_UNSUPPORTED;
  const size_t size = given->size;
  clave_status st = sized_write(&own_table, given, SIZED(clave_delegate, observe));
  const clave_code code = code_of(st);
  status_free(st);
  /* Clears the fields that a newer host knows and this plugin does not. */
  if (!st && size > sizeof own_table)
    memset((char *)given + sizeof own_table, 0, size - sizeof own_table);
  return code;
}
