/* Executables: made of a verified program and opened devices. */
#include "interp/executable.h"

#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

static clave_status init_method(executable *x, uint32_t index) {
  method *m = &x->methods[index];
  TRY(graph_create(x->prog, &x->prog->ir.methods.items[index], x->pool, &m->g));
  TRY(run_passes(&m->g, !x->options.unfused));
  m->where = mem_pool_alloc(x->pool, m->g.n + 1, sizeof *m->where);
  m->reason = mem_pool_alloc(x->pool, m->g.n + 1, sizeof *m->reason);
  bool good = m->where && m->reason;
  for (int b = 0; b < x->devices.count; b++)
    good = (m->cache[b] = mem_pool_alloc(x->pool, m->g.n + 1, sizeof(void *))) && good;
  if (!good) return status_no_memory();
  TRY(place_method(x, m));
  TRY(graph_find_multiplied(&m->g, x->is_multiplied));
  return x->options.partial ? NULL : check_placement(m);
}

static uint64_t version_of(const tuning *t) { return t ? tuning_version(t) : 0; }

bool executable_is_of(const executable *x, const device_set *d, const executable_options *o) {
  const executable_options *mine = &x->options;
  bool same = mine->unfused == o->unfused && mine->fast == o->fast && mine->custom == o->custom &&
              mine->wide == o->wide && mine->partial == o->partial &&
              x->devices.count == d->count && x->devices.no_fallback == d->no_fallback;
  for (int b = 0; b < d->count && same; b++)
    same = x->devices.backends[b] == d->backends[b] &&
           x->tuned[b] == version_of(d->backends[b]->tuning);
  return same;
}

static clave_status init_executable(executable *x) {
  const ir_program *p = &x->prog->ir;
  TRY(mutex_create(&x->lock));
  for (int b = 0; b < x->devices.count; b++)
    x->tuned[b] = version_of(x->devices.backends[b]->tuning);
  TRY(mem_pool_create(&x->pool));
  x->methods = mem_pool_alloc(x->pool, p->methods.count + 1, sizeof *x->methods);
  x->state_home = mem_pool_alloc(x->pool, p->n_state + 1, sizeof *x->state_home);
  x->copy_cache = mem_pool_alloc(x->pool, MAX_BACKENDS, sizeof *x->copy_cache);
  x->is_multiplied = mem_pool_alloc(x->pool, slot_count(x->prog) + 1, sizeof *x->is_multiplied);
  if (!x->methods || !x->state_home || !x->copy_cache || !x->is_multiplied)
    return status_no_memory();
  for (uint32_t i = 0; i < p->methods.count; i++)
    TRY(status_while(init_method(x, i), "method '%s'", p->methods.items[i].name));
  return place_state(x);
}

clave_status executable_create(const program *p, const device_set *devices,
                               const executable_options *o, executable **out) {
  *out = NULL;
  executable *x = calloc(1, sizeof *x);
  if (!x) return status_no_memory();
  x->prog = p;
  x->devices = *devices;
  x->options = *o;
  x->copy = (ir_copy){.x = slot_count(p), .out = slot_count(p) + 1};
  x->copy_instruction = (ir_instruction){.op_type = IR_OP_COPY, .op = &x->copy, .name = ""};
  clave_status st = init_executable(x);
  if (st) {
    executable_destroy(x);
    return st;
  }
  *out = x;
  return NULL;
}

/* m: of x, as `old` but for what is moved. */
static clave_status move_instructions(const executable *x, method *m, const method *old,
                                      const char *const *reasons, uint8_t to) {
  for (uint32_t i = 0; i < m->g.n; i++) {
    const char *reason = reasons[i] ? reasons[i] : old->reason[i];
    bool is_custom = m->g.instructions[i].op_type == IR_OP_CUSTOM;
    m->where[i] = !reasons[i] ? old->where[i] : is_custom ? WHERE_CONTROL : to;
    m->reason[i] = reason ? mem_pool_strdup(x->pool, reason, strlen(reason)) : NULL;
    if (reason && !m->reason[i]) return status_no_memory();
  }
  return check_placement(m);
}

clave_status executable_move(const executable *x, const char *const *const *reasons, uint8_t to,
                             executable **out) {
  executable *moved;
  *out = NULL;
  TRY(executable_create(x->prog, &x->devices, &x->options, &moved));
  for (uint32_t k = 0; k < x->prog->ir.methods.count; k++) {
    clave_status st = move_instructions(moved, &moved->methods[k], &x->methods[k], reasons[k], to);
    if (!st) continue;
    executable_destroy(moved);
    return st;
  }
  for (uint32_t i = 0; i < x->prog->ir.n_state; i++) moved->state_home[i] = x->state_home[i];
  *out = moved;
  return NULL;
}

static void destroy_caches(executable *x, int b) {
  backend *be = x->devices.backends[b];
  if (!be->vt->building) return;
  for (uint32_t k = 0; x->methods && k < x->prog->ir.methods.count; k++) {
    const method *m = &x->methods[k];
    for (uint32_t i = 0; m->cache[b] && i < m->g.n; i++)
      be->vt->building->cache_destroy(be, m->cache[b][i]);
  }
  if (x->copy_cache) be->vt->building->cache_destroy(be, x->copy_cache[b]);
}

void executable_destroy(executable *x) {
  if (!x) return;
  for (uint32_t i = 0; x->methods && i < x->prog->ir.methods.count; i++)
    schedule_list_clear(&x->methods[i].schedules);
  for (int b = 0; b < x->devices.count; b++) destroy_caches(x, b);
  mem_pool_destroy(x->pool);
  mutex_destroy(x->lock);
  free(x);
}
