/* Packed forms of constants: made ahead for a device, kept in the program and its file. */
#include "api/internal.h"
#include "base/float_env.h"
#include "clave_files.h"

/* A session and its stores that no other session shares: the forms leave them. */
typedef struct packing {
  clave_program *program;
  const device_set *devices;
  constant_store *stores[MAX_BACKENDS]; /* owned */
  executable *x;                        /* owned */
  session *s;                           /* owned; NULL once all forms are made */
} packing;

static clave_status open_packing(packing *k, const clave_session_options *options,
                                 const clave_device *device) {
  session_options o;
  executable_options x;
  TRY(read_session_options(options, &o));
  TRY(read_executable_options(options, &x));
  o.message = device->message;
  o.message_ctx = device->message_ctx;
  o.packs = true;
  o.unchecked = false; /* damaged forms are made anew */
  for (int b = 0; b < k->devices->count; b++)
    TRY(constant_store_create(k->program->p, k->devices->backends[b], &k->stores[b]));
  TRY(executable_create(k->program->p, k->devices, &x, &k->x));
  return session_create(k->x, k->stores, &o, &k->s);
}

static clave_status pack_methods(packing *k) {
  const ir_methods *m = &k->program->p->ir.methods;
  for (uint32_t i = 0; i < m->count; i++) TRY(session_pack(k->s, i));
  session_destroy(k->s);
  k->s = NULL;
  for (int b = 0; b < k->devices->count; b++)
    TRY(constant_store_keep_packed(k->stores[b], k->program->p));
  return NULL;
}

static void close_packing(packing *k) {
  session_destroy(k->s);
  executable_destroy(k->x);
  for (int b = 0; b < k->devices->count; b++) constant_store_destroy(k->stores[b]);
}

clave_status clave_program_pack(clave_program *c, clave_device *device,
                                const clave_session_options *options) {
  OWN_FLOAT_ENV;
  packing k = {.program = c, .devices = &device->set};
  TRY(device_check_process(device));
  if (program_is_in_use(c)) return INVALID("a program is packed before sessions use it");
  clave_status st = open_packing(&k, options, device);
  if (!st) st = program_check_after(c->p, pack_methods(&k));
  close_packing(&k);
  return status_while(st, "packing for %s", device->info.name);
}

clave_status clave_program_unpack(clave_program *c) {
  OWN_FLOAT_ENV;
  if (program_is_in_use(c)) return INVALID("packed forms are dropped before sessions use them");
  program_drop_forms(c->p);
  return NULL;
}

uint32_t clave_program_count_forms(const clave_program *c) { return (uint32_t)c->p->n_forms; }

clave_status clave_program_form(const clave_program *c, uint32_t index, clave_form_info *info) {
  OWN_FLOAT_ENV;
  if (index >= c->p->n_forms) return INVALID("form %u of a program with %zu", index, c->p->n_forms);
  const program_form *f = &c->p->forms[index];
  const clave_form_info own = {.device = f->layout, .slot = f->constant, .bytes = f->bytes};
  return sized_write(&own, info, SIZED(clave_form_info, bytes));
}
