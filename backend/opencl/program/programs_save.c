/* Records which programs were launched and which of their results were right. Saves news of them
 * to the cache on disk. */
#include <stdlib.h>

#include "backend/opencl/program/binaries.h"
#include "backend/opencl/program/kernel_program.h"

bool program_has_launched(const kernel_program *program, size_t items) {
  return items <= __atomic_load_n(&program->launched_items, __ATOMIC_RELAXED);
}

bool program_mark_run(kernel_program *program, size_t items) {
  if (!program_has_launched(program, items))
    __atomic_store_n(&program->launched_items, items, __ATOMIC_RELAXED);
  return !__atomic_exchange_n(&program->has_run, true, __ATOMIC_RELAXED);
}

bool program_first_launch(kernel_program *program) {
  return !__atomic_exchange_n(&program->was_launched, true, __ATOMIC_RELAXED);
}

bool program_is_proven(kernel_program *program, uint64_t class) {
  mutex_lock(program->lock);
  bool is_proven = proof_set_has(&program->proven, class);
  mutex_unlock(program->lock);
  return is_proven;
}

void program_prove(kernel_program *program, uint64_t class) {
  mutex_lock(program->lock);
  proof_set_add(&program->proven, class);
  mutex_unlock(program->lock);
}

bool program_is_built(const kernel_program *program) {
  return __atomic_load_n(&program->handle, __ATOMIC_ACQUIRE) != NULL;
}

bool program_was_tried(const kernel_program *program) {
  return program_is_built(program) || program_was_refused(program, 1);
}

/* Returns true if the cache has a file, from this process or from a builder. Keeps its binary and
 * adds our proven classes. */
static bool save_again(cl_device *device, kernel_program *program, clave_status *st) {
  cache_entry entry;
  bool damaged;
  if (!cache_load(device->cache_dir, program->key, &entry, &damaged)) return false;
  for (uint32_t i = 0; i < entry.n_proven; i++) proof_set_add(&program->proven, entry.proven[i]);
  bool adds = program->proven.count > entry.n_proven;
  entry.proven = program->proven.items;
  entry.n_proven = program->proven.count;
  if (adds) *st = cache_save(device->cache_dir, program->key, &entry);
  file_map_close(&entry.map);
  return true;
}

static clave_status programs_save_program(cl_device *device, kernel_program *program) {
  clave_status st = NULL;
  if (save_again(device, program, &st)) return st;
  unsigned char *data = NULL;
  size_t size = 0;
  st = binary_read(device, program->handle, &data, &size);
  if (!st && size)
    st = cache_save(device->cache_dir, program->key,
                    &(cache_entry){.data = data,
                                   .size = size,
                                   .proven = program->proven.items,
                                   .n_proven = program->proven.count});
  free(data);
  return st;
}

/* Saves the program if it has news. Returns true if it had. */
static bool save_if_new(cl_device *device, kernel_program *program) {
  mutex_lock(program->lock);
  bool has_run = __atomic_load_n(&program->has_run, __ATOMIC_RELAXED);
  clave_status st = NULL;
  bool is_new = has_run && (!program->is_saved || program->proven.count != program->saved_proven);
  if (is_new) {
    st = programs_save_program(device, program);
    program->is_saved = true; /* if saving failed, it is not tried again */
    program->saved_proven = program->proven.count;
  }
  mutex_unlock(program->lock);
  if (st && !__atomic_exchange_n(&device->cache_noted, true, __ATOMIC_RELAXED))
    device_note(device, "kernel binaries are not cached: %s", status_message(st));
  status_free(st);
  return is_new;
}

bool programs_save_next(cl_device *device) {
  if (!device->cache_dir) return false;
  for (int i = 0;; i++) {
    mutex_lock(device->lock);
    kernel_program *program = i < device->n_programs ? device->programs[i] : NULL;
    mutex_unlock(device->lock);
    if (!program) return false;
    if (save_if_new(device, program)) return true;
  }
}

void programs_save(cl_device *device) {
  while (programs_save_next(device)) continue;
}

/* Appends the program's binary if it has run, so that the binary holds code. */
static clave_status append_program(const cl_device *device, kernel_program *program, text *to) {
  unsigned char *data = NULL;
  size_t size = 0;
  mutex_lock(program->lock);
  clave_status st = program->handle && __atomic_load_n(&program->has_run, __ATOMIC_RELAXED)
                        ? binary_read(device, program->handle, &data, &size)
                        : NULL;
  if (!st && size) {
    binaries_append(to, program->key,
                    &(cache_entry){.data = data,
                                   .size = size,
                                   .proven = program->proven.items,
                                   .n_proven = program->proven.count});
  }
  mutex_unlock(program->lock);
  free(data);
  return st ? st : text_status(to);
}

clave_status programs_append(cl_device *device, text *to) {
  for (int i = 0;; i++) {
    mutex_lock(device->lock);
    kernel_program *program = i < device->n_programs ? device->programs[i] : NULL;
    mutex_unlock(device->lock);
    if (!program) return NULL;
    TRY(append_program(device, program, to));
  }
}
