/* Creates executables from verified programs and opened devices. */
#include "interp/executable.h"

#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

static clave_status executable_init_method(executable *executable, uint32_t index) {
  method *method = &executable->methods[index];
  TRY(graph_create(executable->prog, &executable->prog->ir.methods.items[index], executable->pool,
                   &method->graph));
  TRY(run_passes(&method->graph, !executable->options.unfused));
  method->where = mem_pool_alloc(executable->pool, method->graph.n + 1, sizeof *method->where);
  method->reason = mem_pool_alloc(executable->pool, method->graph.n + 1, sizeof *method->reason);
  bool good = method->where && method->reason;
  for (int b = 0; b < executable->devices.count; b++)
    good = (method->cache[b] =
                mem_pool_alloc(executable->pool, method->graph.n + 1, sizeof(void *))) &&
           good;
  if (!good) return status_no_memory();
  TRY(place_method(executable, method));
  TRY(graph_find_multiplied(&method->graph, executable->is_multiplied));
  return executable->options.partial ? NULL : check_placement(method);
}

static uint64_t version_of(const tuning *tuning) { return tuning ? tuning_version(tuning) : 0; }

bool executable_is_of(const executable *executable, const device_set *set,
                      const executable_options *options) {
  const executable_options *mine = &executable->options;
  bool same = mine->unfused == options->unfused && mine->fast == options->fast &&
              mine->custom == options->custom && mine->wide == options->wide &&
              mine->partial == options->partial && executable->devices.count == set->count &&
              executable->devices.no_fallback == set->no_fallback;
  for (int b = 0; b < set->count && same; b++)
    same = executable->devices.backends[b] == set->backends[b] &&
           executable->tuned[b] == version_of(set->backends[b]->tuning);
  return same;
}

static clave_status init_executable(executable *executable) {
  const ir_program *program = &executable->prog->ir;
  TRY(mutex_create(&executable->lock));
  for (int b = 0; b < executable->devices.count; b++)
    executable->tuned[b] = version_of(executable->devices.backends[b]->tuning);
  TRY(mem_pool_create(&executable->pool));
  executable->methods =
      mem_pool_alloc(executable->pool, program->methods.count + 1, sizeof *executable->methods);
  executable->state_home =
      mem_pool_alloc(executable->pool, program->n_state + 1, sizeof *executable->state_home);
  executable->copy_cache =
      mem_pool_alloc(executable->pool, MAX_BACKENDS, sizeof *executable->copy_cache);
  executable->is_multiplied = mem_pool_alloc(executable->pool, slot_count(executable->prog) + 1,
                                             sizeof *executable->is_multiplied);
  if (!executable->methods || !executable->state_home || !executable->copy_cache ||
      !executable->is_multiplied)
    return status_no_memory();
  for (uint32_t i = 0; i < program->methods.count; i++)
    TRY(status_while(executable_init_method(executable, i), "method '%s'",
                     program->methods.items[i].name));
  return place_state(executable);
}

clave_status executable_create(const program *program, const device_set *devices,
                               const executable_options *options, executable **out) {
  *out = NULL;
  executable *executable = calloc(1, sizeof *executable);
  if (!executable) return status_no_memory();
  executable->prog = program;
  executable->devices = *devices;
  executable->options = *options;
  executable->copy = (ir_copy){.x = slot_count(program), .out = slot_count(program) + 1};
  executable->copy_instruction =
      (ir_instruction){.op_type = IR_OP_COPY, .op = &executable->copy, .name = ""};
  clave_status st = init_executable(executable);
  if (st) {
    executable_destroy(executable);
    return st;
  }
  *out = executable;
  return NULL;
}

/* Places the instructions of `moved` as in `old`, except that instructions with a reason move to
 * backend `to`. Custom ops with a reason run as their reference. */
static clave_status move_instructions(const executable *executable, method *moved,
                                      const method *old, const char *const *reasons, uint8_t to) {
  for (uint32_t i = 0; i < moved->graph.n; i++) {
    const char *reason = reasons[i] ? reasons[i] : old->reason[i];
    bool is_custom = moved->graph.instructions[i].op_type == IR_OP_CUSTOM;
    moved->where[i] = !reasons[i] ? old->where[i] : is_custom ? WHERE_CONTROL : to;
    moved->reason[i] = reason ? mem_pool_strdup(executable->pool, reason, strlen(reason)) : NULL;
    if (reason && !moved->reason[i]) return status_no_memory();
  }
  return check_placement(moved);
}

clave_status executable_move(const executable *input, const char *const *const *reasons, uint8_t to,
                             executable **out) {
  executable *moved;
  *out = NULL;
  TRY(executable_create(input->prog, &input->devices, &input->options, &moved));
  for (uint32_t k = 0; k < input->prog->ir.methods.count; k++) {
    clave_status st =
        move_instructions(moved, &moved->methods[k], &input->methods[k], reasons[k], to);
    if (!st) continue;
    executable_destroy(moved);
    return st;
  }
  for (uint32_t i = 0; i < input->prog->ir.n_state; i++)
    moved->state_home[i] = input->state_home[i];
  *out = moved;
  return NULL;
}

static void destroy_caches(executable *executable, int b) {
  backend *be = executable->devices.backends[b];
  if (!be->vt->building) return;
  for (uint32_t k = 0; executable->methods && k < executable->prog->ir.methods.count; k++) {
    const method *method = &executable->methods[k];
    for (uint32_t i = 0; method->cache[b] && i < method->graph.n; i++)
      be->vt->building->cache_destroy(be, method->cache[b][i]);
  }
  if (executable->copy_cache) be->vt->building->cache_destroy(be, executable->copy_cache[b]);
}

void executable_destroy(executable *executable) {
  if (!executable) return;
  for (uint32_t i = 0; executable->methods && i < executable->prog->ir.methods.count; i++)
    schedule_list_clear(&executable->methods[i].schedules);
  for (int b = 0; b < executable->devices.count; b++) destroy_caches(executable, b);
  mem_pool_destroy(executable->pool);
  mutex_destroy(executable->lock);
  free(executable);
}
