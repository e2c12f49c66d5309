/* Binds a program's constants to their bytes, copies the caller's constants, and hashes them. */
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "serialize/program_files.h"

clave_status alloc_constants(program *program) {
  program->constants =
      mem_pool_alloc(program->pool, program->ir.constants.count, sizeof *program->constants);
  return program->constants ? NULL : status_no_memory();
}

clave_status bind_constant(program *program, uint32_t i, const void *data) {
  size_t bytes;
  if (!tensor_bytes(&program->types[i], &bytes))
    return INVALID("the size of the constant overflows");
  if (bytes && !data)
    return INVALID("the data of the constant: expected %zu bytes, got NULL", bytes);
  program->constants[i] = bytes ? data : NULL;
  if (bytes == 0 || (uintptr_t)data % dtype_size(program->types[i].type) == 0) return NULL;
  void *copy = mem_pool_alloc(program->pool, bytes, 1);
  if (!copy) return status_no_memory();
  program->constants[i] = memcpy(copy, data, bytes);
  return NULL;
}

/* ---------------------------------------------------------------- the caller's constants */

/* Large constants are page-aligned, as in a file, so that devices can read them in place. */
enum { LARGE_CONSTANT = 64 << 10, PAGE = 4096 };

static bool is_in_file(const program *program, const void *data) {
  for (size_t i = 0; i < program->n_files; i++) {
    const file_map *map = &program->files[i].map;
    const uintptr_t start = (uintptr_t)map->data, at = (uintptr_t)data;
    if (start && at >= start && at - start < map->size) return true;
  }
  return false;
}

/* True if the bytes belong to the program, or to a program that it was made from. */
static bool is_owned(const program *program, const void *data) {
  for (; program; program = program->base)
    if (is_in_file(program, data) || mem_pool_has(program->pool, data) ||
        mem_pool_has(program->data, data))
      return true;
  return false;
}

/* Sets *begin to the aligned offset of the next constant after *end, and advances *end past it.
 * Returns false if the size overflows. */
static bool place_copied_constant(size_t bytes, size_t *end, size_t *begin) {
  const size_t alignment = bytes >= LARGE_CONSTANT ? PAGE : MEMORY_ALIGNMENT;
  if (!add_size(*end, alignment - 1, begin)) return false;
  *begin -= *begin % alignment;
  return add_size(*begin, bytes, end);
}

/* Copies the caller's constants to `to`. If `to` is NULL, only sets *total to the bytes needed. */
static clave_status copy_constants(program *program, char *to, size_t *total) {
  *total = 0;
  for (uint32_t i = 0; i < program->ir.constants.count; i++) {
    const void *data = program->constants[i];
    size_t bytes, begin;
    if (!data || is_owned(program, data)) continue;
    if (!tensor_bytes(&program->types[i], &bytes) || !place_copied_constant(bytes, total, &begin))
      return status_no_memory();
    if (to) program->constants[i] = memcpy(to + begin, data, bytes);
  }
  return NULL;
}

clave_status program_own_constants(program *program) {
  size_t total;
  if (program->copied) return NULL;
  TRY(copy_constants(program, NULL, &total));
  if (!total) return NULL;
  /* large enough for memory_alloc to align it to a page */
  program->copied = memory_alloc(total < MEMORY_LARGE ? MEMORY_LARGE : total);
  if (!program->copied) return status_no_memory();
  return copy_constants(program, program->copied, &total);
}

/* ---------------------------------------------------------------- hashes */

static void hash_constant(hash_state *hash, const ir_constant *constant, const tensor *tensor,
                          const void *data) {
  uint8_t kind[2] = {(uint8_t)tensor->type, (uint8_t)tensor->rank};
  size_t bytes = 0;
  (void)tensor_bytes(tensor, &bytes); /* overflow was checked when the constant was bound */
  hash_update(hash, constant->name, strlen(constant->name) + 1);
  hash_update(hash, kind, sizeof kind);
  hash_update(hash, tensor->dims, (size_t)tensor->rank * sizeof *tensor->dims);
  if (bytes) hash_update(hash, data, bytes);
}

clave_status hash_constants(const program *program, uint64_t *out) {
  *out = 0;
  if (program->ir.constants.count == 0) return NULL;
  hash_state *hash = hash_create();
  if (!hash) return status_no_memory();
  for (uint32_t i = 0; i < program->ir.constants.count; i++) {
    hash_constant(hash, &program->ir.constants.items[i], &program->types[i], program->constants[i]);
  }
  *out = hash_value(hash);
  hash_destroy(hash);
  return NULL;
}

/* Checks a file whose time of change differs. Its bytes may still be the same: the hash of the
 * constants tells, or the time of writing if the program was imported and has no hash. */
static clave_status check_changed_file(const program *program, const file_map *map,
                                       const char *path) {
  clave_status st = program_check_hashes(program);
  if (status_code_of(st) == STATUS_NO_MEMORY) return st;
  if (!st) st = file_map_check(map, path, NULL);
  if (!st && !(program->unhashed && file_map_is_written(map))) {
    file_map_settle(map);
    return NULL;
  }
  status_free(st);
  return status_new(STATUS_IO,
                    "%s: the constants have changed since the file was opened: load the file again",
                    path);
}

clave_status program_check_files(const program *program) {
  for (; program; program = program->base)
    for (size_t i = 0; i < program->n_files; i++) {
      bool is_changed;
      const program_file *file = &program->files[i];
      TRY(file_map_check(&file->map, file->path, &is_changed));
      if (is_changed) TRY(check_changed_file(program, &file->map, file->path));
    }
  return NULL;
}

clave_status program_check_after(const program *program, clave_status st) {
  clave_status changed = program_check_files(program);
  if (!changed) return st;
  status_free(st);
  return changed;
}

clave_status program_check_hashes(const program *program) {
  uint64_t is;
  if (program->unhashed) return NULL;
  TRY(hash_constants(program, &is));
  if (is == program->ir.consts_hash) return packed_weights_check(program);
  return INVALID("the constants are not those of the program: expected hash %016llx, got %016llx",
                 (unsigned long long)program->ir.consts_hash, (unsigned long long)is);
}
