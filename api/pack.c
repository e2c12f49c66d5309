/* Packed weights: packs them ahead of time for a device, and keeps them in the program, which can
 * save them to its file. */
#include "api/internal.h"
#include "base/float_env.h"
#include "clave_files.h"

/* A session with its own constant stores, whose packed weights move to the program. */
typedef struct packing {
  clave_program *program;
  const device_set *devices;
  constant_store *stores[MAX_BACKENDS]; /* owned */
  executable *executable;               /* owned */
  session *session;                     /* owned; NULL once all weights are packed */
} packing;

static clave_status open_packing(packing *packing, const clave_session_options *options,
                                 const clave_device *device) {
  session_options session_options;
  executable_options executable_options;
  TRY(read_session_options(options, &session_options));
  TRY(read_executable_options(options, &executable_options));
  session_options.message = device->message;
  session_options.message_ctx = device->message_ctx;
  session_options.packs = true;
  session_options.unchecked =
      false; /* checks the program's packed weights, and replaces damaged ones */
  for (int b = 0; b < packing->devices->count; b++)
    TRY(constant_store_create(packing->program->program, packing->devices->backends[b],
                              &packing->stores[b]));
  TRY(executable_create(packing->program->program, packing->devices, &executable_options,
                        &packing->executable));
  return session_create(packing->executable, packing->stores, &session_options, &packing->session);
}

static clave_status pack_methods(packing *packing) {
  const ir_methods *methods = &packing->program->program->ir.methods;
  for (uint32_t i = 0; i < methods->count; i++) TRY(session_pack(packing->session, i));
  session_destroy(packing->session);
  packing->session = NULL;
  for (int b = 0; b < packing->devices->count; b++)
    TRY(constant_store_keep_packed(packing->stores[b], packing->program->program));
  return NULL;
}

static void close_packing(packing *packing) {
  session_destroy(packing->session);
  executable_destroy(packing->executable);
  for (int b = 0; b < packing->devices->count; b++) constant_store_destroy(packing->stores[b]);
}

clave_status clave_program_pack(clave_program *program, clave_device *device,
                                const clave_session_options *options) {
  OWN_FLOAT_ENV;
  packing packing = {.program = program, .devices = &device->set};
  TRY(device_check_process(device));
  if (program_is_in_use(program)) return INVALID("a program must be packed before sessions use it");
  clave_status st = open_packing(&packing, options, device);
  if (!st) st = program_check_after(program->program, pack_methods(&packing));
  close_packing(&packing);
  return status_while(st, "packing for %s", device->info.name);
}

clave_status clave_program_unpack(clave_program *program) {
  OWN_FLOAT_ENV;
  if (program_is_in_use(program))
    return INVALID("packed weights must be dropped before sessions use the program");
  program_drop_packed_weights(program->program);
  return NULL;
}

uint32_t clave_program_count_packed_weights(const clave_program *program) {
  return (uint32_t)program->program->n_packed_weights;
}

clave_status clave_program_packed_weight(const clave_program *program, uint32_t index,
                                         clave_packed_weight_info *info) {
  OWN_FLOAT_ENV;
  if (index >= program->program->n_packed_weights)
    return INVALID("index %u is out of range: the program has %zu packed weights", index,
                   program->program->n_packed_weights);
  const program_packed_weight *desc = &program->program->packed_weights[index];
  const clave_packed_weight_info own = {
      .device = desc->layout, .slot = desc->constant, .bytes = desc->bytes};
  return sized_write(&own, info, SIZED(clave_packed_weight_info, bytes));
}
