/* Where the nodes of a program run: before there is a session, and in one. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"

struct clave_placement {
  clave_program *program; /* held */
  clave_device *device;   /* held: reasons are its texts */
  node_placement **rows;  /* [method][node], in the pool */
  mem_pool *pool;
};

static clave_status fill_rows(clave_placement *l, const executable *x) {
  const ir_program *p = &l->program->p->ir;
  TRY(mem_pool_create(&l->pool));
  l->rows = mem_pool_alloc(l->pool, (size_t)p->methods.count + 1, sizeof *l->rows);
  if (!l->rows) return status_no_memory();
  for (uint32_t m = 0; m < p->methods.count; m++) {
    size_t n = program_count_nodes(p, p->methods.items[m].chain);
    l->rows[m] = mem_pool_alloc(l->pool, n + 1, sizeof **l->rows);
    if (!l->rows[m]) return status_no_memory();
    executable_placement(x, m, l->rows[m]);
  }
  return NULL;
}

static clave_status create_placement(clave_program *p, clave_device *d, const executable *x,
                                     clave_placement **out) {
  clave_placement *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->program = p;
  p->holds++;
  l->device = clave_device_retain(d);
  clave_status st = fill_rows(l, x);
  if (st) {
    clave_placement_destroy(l);
    return st;
  }
  *out = l;
  return NULL;
}

clave_status clave_program_supported(clave_program *p, clave_device *device,
                                     const clave_session_options *options, clave_placement **out) {
  OWN_FLOAT_ENV;
  executable_options o;
  executable *x;
  *out = NULL;
  TRY(read_executable_options(options, &o));
  o.partial = true;
  TRY(executable_create(p->p, &device->set, &o, &x));
  clave_status st = create_placement(p, device, x, out);
  executable_destroy(x);
  return st;
}

/* Of a session that the CPU backend answers for a device. */
static void explain_rows(const clave_placement *l) {
  const ir_program *p = &l->program->p->ir;
  for (uint32_t m = 0; m < p->methods.count; m++) {
    size_t n = program_count_nodes(p, p->methods.items[m].chain);
    for (size_t i = 0; i < n; i++) {
      node_placement *row = &l->rows[m][i];
      if (strcmp(row->where, "cpu") != 0) continue;
      row->reason = "the device is not ready";
      row->supported = false;
    }
  }
}

clave_status clave_session_placement(const clave_session *s, clave_placement **out) {
  *out = NULL;
  TRY(create_placement(s->program, s->device, session_executable(s->s), out));
  if (session_device(s->s) != &s->device->set.backends[0]->info) explain_rows(*out);
  return NULL;
}

void clave_placement_destroy(clave_placement *l) {
  if (!l) return;
  mem_pool_destroy(l->pool);
  clave_program_destroy(l->program);
  clave_device_destroy(l->device);
  free(l);
}

clave_status clave_placement_get(const clave_placement *l, const char *method, uint32_t index,
                                 clave_placement_info *info) {
  uint32_t m, chain, at;
  TRY(program_find_method(l->program, method, &m));
  const ir_program *p = &l->program->p->ir;
  chain = p->methods.items[m].chain;
  uint32_t n = program_count_nodes(p, chain);
  if (index >= n) return INVALID("node %u of a method with %u", index, n);
  program_find_node(p, index, &chain, &at);
  const ir_instruction *ins = &p->chains.items[chain].instructions.items[at];
  const node_placement *row = &l->rows[m][index];
  clave_placement_info own = {.op = op_table[ins->op_type].name,
                              .name = ins->name,
                              .where = row->where,
                              .reason = row->reason,
                              .supported = row->supported,
                              .into = row->into};
  return sized_write(&own, info, SIZED(clave_placement_info, supported));
}
