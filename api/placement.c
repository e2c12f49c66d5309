/* Placements: where the nodes of a program run, on a device or in a session. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"

struct clave_placement {
  clave_program *program; /* held */
  clave_device *device;   /* held; owns the texts of reasons */
  node_placement **rows;  /* [method][node], in `pool` */
  mem_pool *pool;
};

static clave_status api_placement_fill_rows(clave_placement *placement,
                                            const executable *executable) {
  const ir_program *program = &placement->program->program->ir;
  TRY(mem_pool_create(&placement->pool));
  placement->rows =
      mem_pool_alloc(placement->pool, (size_t)program->methods.count + 1, sizeof *placement->rows);
  if (!placement->rows) return status_no_memory();
  for (uint32_t m = 0; m < program->methods.count; m++) {
    size_t n = program_count_nodes(program, program->methods.items[m].chain);
    placement->rows[m] = mem_pool_alloc(placement->pool, n + 1, sizeof **placement->rows);
    if (!placement->rows[m]) return status_no_memory();
    executable_placement(executable, m, placement->rows[m]);
  }
  return NULL;
}

static clave_status create_placement(clave_program *program, clave_device *device,
                                     const executable *executable, clave_placement **out) {
  clave_placement *placement = calloc(1, sizeof *placement);
  if (!placement) return status_no_memory();
  placement->program = program;
  program->holds++;
  placement->device = clave_device_retain(device);
  clave_status st = api_placement_fill_rows(placement, executable);
  if (st) {
    clave_placement_destroy(placement);
    return st;
  }
  *out = placement;
  return NULL;
}

clave_status clave_program_supported(clave_program *program, clave_device *device,
                                     const clave_session_options *options, clave_placement **out) {
  OWN_FLOAT_ENV;
  executable_options executable_options;
  executable *executable;
  *out = NULL;
  TRY(read_executable_options(options, &executable_options));
  executable_options.partial = true;
  TRY(executable_create(program->program, &device->set, &executable_options, &executable));
  clave_status st = create_placement(program, device, executable, out);
  executable_destroy(executable);
  return st;
}

/* Sets the reason of nodes that the CPU backend runs because the device is not ready. */
static void explain_rows(const clave_placement *placement) {
  const ir_program *program = &placement->program->program->ir;
  for (uint32_t m = 0; m < program->methods.count; m++) {
    size_t n = program_count_nodes(program, program->methods.items[m].chain);
    for (size_t i = 0; i < n; i++) {
      node_placement *row = &placement->rows[m][i];
      if (strcmp(row->where, "cpu") != 0) continue;
      row->reason = "the device is not ready";
      row->supported = false;
    }
  }
}

clave_status clave_session_placement(const clave_session *session, clave_placement **out) {
  *out = NULL;
  TRY(create_placement(session->program, session->device, session_executable(session->session),
                       out));
  if (session_device(session->session) != &session->device->set.backends[0]->info)
    explain_rows(*out);
  return NULL;
}

void clave_placement_destroy(clave_placement *placement) {
  if (!placement) return;
  mem_pool_destroy(placement->pool);
  clave_program_destroy(placement->program);
  clave_device_destroy(placement->device);
  free(placement);
}

clave_status clave_placement_get(const clave_placement *placement, const char *method,
                                 uint32_t index, clave_placement_info *info) {
  uint32_t m, chain, at;
  TRY(program_find_method(placement->program, method, &m));
  const ir_program *program = &placement->program->program->ir;
  chain = program->methods.items[m].chain;
  uint32_t n = program_count_nodes(program, chain);
  if (index >= n) return INVALID("index %u is out of range: the method has %u nodes", index, n);
  program_find_node(program, index, &chain, &at);
  const ir_instruction *ins = &program->chains.items[chain].instructions.items[at];
  const node_placement *row = &placement->rows[m][index];
  clave_placement_info own = {.op = op_table[ins->op_type].name,
                              .name = ins->name,
                              .where = row->where,
                              .reason = row->reason,
                              .supported = row->supported,
                              .into = row->into};
  return sized_write(&own, info, SIZED(clave_placement_info, supported));
}
