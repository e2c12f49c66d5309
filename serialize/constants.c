/* A program's constants: bound where their bytes are, and their hash. */
#include <string.h>

#include "base/hash.h"
#include "serialize/program_files.h"

clave_status alloc_constants(program *p) {
  p->constants = mem_pool_alloc(p->pool, p->ir.constants.count, sizeof *p->constants);
  return p->constants ? NULL : status_no_memory();
}

clave_status bind_constant(program *p, uint32_t i, const void *data) {
  size_t bytes;
  if (!tensor_bytes(&p->types[i], &bytes)) return INVALID("its size overflows");
  if (bytes && !data) return INVALID("its data is NULL, expected %zu bytes", bytes);
  p->constants[i] = bytes ? data : NULL;
  if (bytes == 0 || (uintptr_t)data % dtype_size(p->types[i].type) == 0) return NULL;
  void *copy = mem_pool_alloc(p->pool, bytes, 1);
  if (!copy) return status_no_memory();
  p->constants[i] = memcpy(copy, data, bytes);
  return NULL;
}

static void hash_constant(hash_state *h, const ir_constant *c, const tensor *t, const void *data) {
  uint8_t kind[2] = {(uint8_t)t->type, (uint8_t)t->rank};
  size_t bytes = 0;
  (void)tensor_bytes(t, &bytes); /* checked when it was bound */
  hash_update(h, c->name, strlen(c->name) + 1);
  hash_update(h, kind, sizeof kind);
  hash_update(h, t->dims, (size_t)t->rank * sizeof *t->dims);
  if (bytes) hash_update(h, data, bytes);
}

clave_status hash_constants(const program *p, uint64_t *out) {
  *out = 0;
  if (p->ir.constants.count == 0) return NULL;
  hash_state *h = hash_create();
  if (!h) return status_no_memory();
  for (uint32_t i = 0; i < p->ir.constants.count; i++) {
    hash_constant(h, &p->ir.constants.items[i], &p->types[i], p->constants[i]);
  }
  *out = hash_value(h);
  hash_destroy(h);
  return NULL;
}

clave_status program_check_hashes(const program *p) {
  uint64_t is;
  if (p->unhashed) return NULL;
  TRY(hash_constants(p, &is));
  if (is == p->ir.consts_hash) return forms_check(p);
  return INVALID("the constants are not those of the program: hash %016llx, expected %016llx",
                 (unsigned long long)is, (unsigned long long)p->ir.consts_hash);
}
