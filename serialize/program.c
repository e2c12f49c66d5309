/* The program object: made from memory, its constants, its hash. */
#include "serialize/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "ops/ops.h"
#include "serialize/decode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

clave_status program_new(program **out) {
  program *p = calloc(1, sizeof *p);
  *out = p;
  if (!p) return status_no_memory();
  clave_status st = mem_pool_create(&p->pool);
  if (st) {
    program_destroy(p);
    *out = NULL;
  }
  return st;
}

void program_destroy(program *p) {
  if (!p) return;
  tensor_file_destroy(p->tensors);
  mem_pool_destroy(p->pool);
  mem_pool_destroy(p->data);
  for (size_t i = 0; i < sizeof p->maps / sizeof *p->maps; i++) file_map_close(&p->maps[i]);
  free(p);
}

/* ---------------------------------------------------------------- constants */

clave_status alloc_constants(program *p) {
  p->constants = mem_pool_alloc(p->pool, p->ir.constants.count, sizeof *p->constants);
  return p->constants ? NULL : status_no_memory();
}

clave_status bind_constant(program *p, uint32_t i, const void *data) {
  size_t bytes;
  if (!tensor_bytes(&p->types[i], &bytes)) return INVALID("its size overflows");
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
  TRY(hash_constants(p, &is));
  if (is == p->ir.consts_hash) return NULL;
  return INVALID("the constants are not those of the program: hash %016llx, expected %016llx",
                 (unsigned long long)is, (unsigned long long)p->ir.consts_hash);
}

/* ---------------------------------------------------------------- from memory */

static bool same_shape(const constant_data *c, const tensor *t) {
  return c->type == t->type && c->rank == t->rank &&
         (t->rank == 0 || memcmp(c->dims, t->dims, (size_t)t->rank * sizeof *t->dims) == 0);
}

static clave_status bind_given(program *p, const constant_data *constants, size_t n) {
  if (n != p->ir.constants.count)
    return INVALID("%zu constants given, the program has %u", n, p->ir.constants.count);
  TRY(alloc_constants(p));
  for (uint32_t i = 0; i < n; i++) {
    clave_status st = same_shape(&constants[i], &p->types[i])
                          ? bind_constant(p, i, constants[i].data)
                          : INVALID("its dtype or shape is not what the program declares");
    if (st) return status_while(st, "constant %u ('%.200s')", i, p->ir.constants.items[i].name);
  }
  return hash_constants(p, &p->ir.consts_hash);
}

/* The highest `since` of the ops. */
static uint32_t needed_version(const ir_program *p) {
  int version = 0;
  for (uint32_t c = 0; c < p->chains.count; c++) {
    const ir_instructions *list = &p->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++) {
      int since = op_table[list->items[i].op_type].since;
      if (since > version) version = since;
    }
  }
  return (uint32_t)version;
}

static clave_status fill_program(program *p, const void *flatbuffer, size_t size,
                                 const constant_data *constants, size_t n) {
  TRY(decode_flatbuffer(flatbuffer, size, p->pool, &p->ir));
  p->ir.version = needed_version(&p->ir);
  TRY(verify_program(p));
  return bind_given(p, constants, n);
}

clave_status program_create(const void *flatbuffer, size_t size, const constant_data *constants,
                            size_t n_constants, program **out) {
  program *p;
  *out = NULL;
  TRY(program_new(&p));
  clave_status st = fill_program(p, flatbuffer, size, constants, n_constants);
  if (st) {
    program_destroy(p);
    return st;
  }
  *out = p;
  return NULL;
}
