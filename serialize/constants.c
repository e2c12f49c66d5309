/* A program's constants: bound where their bytes are, and their hash. */
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "serialize/program_files.h"

clave_status alloc_constants(program *p) {
  p->constants = mem_pool_alloc(p->pool, p->ir.constants.count, sizeof *p->constants);
  return p->constants ? NULL : status_no_memory();
}

clave_status bind_constant(program *p, uint32_t i, const void *data) {
  size_t bytes;
  if (!tensor_bytes(&p->types[i], &bytes)) return INVALID("its size overflows");
  if (bytes && !data) return INVALID("its data: expected %zu bytes, got NULL", bytes);
  p->constants[i] = bytes ? data : NULL;
  if (bytes == 0 || (uintptr_t)data % dtype_size(p->types[i].type) == 0) return NULL;
  void *copy = mem_pool_alloc(p->pool, bytes, 1);
  if (!copy) return status_no_memory();
  p->constants[i] = memcpy(copy, data, bytes);
  return NULL;
}

/* ---------------------------------------------------------------- copies of the caller's */

/* Large constants begin at a page, as in a file, so that devices read them in place. */
enum { LARGE_CONSTANT = 64 << 10, PAGE = 4096 };

static bool is_in_file(const program *p, const void *data) {
  for (size_t i = 0; i < sizeof p->maps / sizeof *p->maps; i++) {
    const uintptr_t start = (uintptr_t)p->maps[i].data, at = (uintptr_t)data;
    if (start && at >= start && at - start < p->maps[i].size) return true;
  }
  return false;
}

/* True if the bytes are in memory of the program, or of one that it was made of. */
static bool is_owned(const program *p, const void *data) {
  for (; p; p = p->base)
    if (is_in_file(p, data) || mem_pool_has(p->pool, data) || mem_pool_has(p->data, data))
      return true;
  return false;
}

/* Places the next constant after `end`, and moves `end` after it. False: the size overflows. */
static bool place_constant(size_t bytes, size_t *end, size_t *begin) {
  const size_t alignment = bytes >= LARGE_CONSTANT ? PAGE : MEMORY_ALIGNMENT;
  if (!add_size(*end, alignment - 1, begin)) return false;
  *begin -= *begin % alignment;
  return add_size(*begin, bytes, end);
}

/* Copies constants that are the caller's to `to`; if it is NULL, only sets *total, their bytes. */
static clave_status copy_constants(program *p, char *to, size_t *total) {
  *total = 0;
  for (uint32_t i = 0; i < p->ir.constants.count; i++) {
    const void *data = p->constants[i];
    size_t bytes, begin;
    if (!data || is_owned(p, data)) continue;
    if (!tensor_bytes(&p->types[i], &bytes) || !place_constant(bytes, total, &begin))
      return status_no_memory();
    if (to) p->constants[i] = memcpy(to + begin, data, bytes);
  }
  return NULL;
}

clave_status program_own_constants(program *p) {
  size_t total;
  if (p->copied) return NULL;
  TRY(copy_constants(p, NULL, &total));
  if (!total) return NULL;
  /* aligned as pages are, whatever its size */
  p->copied = memory_alloc(total < MEMORY_LARGE ? MEMORY_LARGE : total);
  if (!p->copied) return status_no_memory();
  return copy_constants(p, p->copied, &total);
}

/* ---------------------------------------------------------------- hashes */

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

/* Compares the constants with their hash, as a file with another date may hold the same bytes. */
static clave_status check_written(const program *p, const file_map *m, const char *path) {
  clave_status st = program_check_hashes(p);
  if (status_code_of(st) == STATUS_NO_MEMORY) return st;
  if (!st) st = file_map_check(m, path, NULL);
  if (!st) {
    file_map_settle(m);
    return NULL;
  }
  status_free(st);
  return status_new(STATUS_IO,
                    "%s: expected the constants that it had when it was opened, got others: the "
                    "file was changed meanwhile; load it again",
                    path);
}

clave_status program_check_files(const program *p) {
  for (; p; p = p->base)
    for (size_t i = 0; i < sizeof p->maps / sizeof *p->maps; i++) {
      bool is_changed;
      TRY(file_map_check(&p->maps[i], p->paths[i], &is_changed));
      if (is_changed) TRY(check_written(p, &p->maps[i], p->paths[i]));
    }
  return NULL;
}

clave_status program_check_after(const program *p, clave_status st) {
  clave_status changed = program_check_files(p);
  if (!changed) return st;
  status_free(st);
  return changed;
}

clave_status program_check_hashes(const program *p) {
  uint64_t is;
  if (p->unhashed) return NULL;
  TRY(hash_constants(p, &is));
  if (is == p->ir.consts_hash) return forms_check(p);
  return INVALID("the constants are not those of the program: expected hash %016llx, got %016llx",
                 (unsigned long long)p->ir.consts_hash, (unsigned long long)is);
}
