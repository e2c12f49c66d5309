/* Records which programs were launched and had right results; saves this to the cache on disk. */
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

/* Returns true if the cache has a file of the program, written by this process or a builder. Keeps
 * the file's binary and adds our proven classes. */
static bool save_again(cl_device *device, kernel_program *program, clave_status *st) {
  cache_entry entry;
  bool damaged;
  if (!cache_load(device->cache_dir, program->key, &entry, &damaged)) return false;
  for (uint32_t i = 0; i < entry.n_proven; i++) proof_set_add(&program->proven, entry.proven[i]);
  const bool has_binary = entry.size || !program->handle;
  bool adds = program->proven.count > entry.n_proven || entry.driver != device->driver_stamp;
  entry.driver = device->driver_stamp;
  entry.proven = program->proven.items;
  entry.n_proven = program->proven.count;
  if (adds && has_binary) *st = cache_save(device->cache_dir, &entry);
  file_map_close(&entry.map);
  return has_binary;
}

/* Appends a line, in which line ends of a driver's text are replaced. */
static void append_line(text *to, const char *line) {
  for (; *line; line++) text_append(to, *line == '\n' ? " " : line, 1);
  text_append(to, "\n", 1);
}

/* Returns the program's entry for the cache. The entry borrows the binary and the lines in `about`,
 * which the caller checks for errors and frees. */
static cache_entry entry_of(const cl_device *device, const kernel_program *program,
                            const unsigned char *data, size_t size, text *about) {
  const backend_info *info = &device->base.info;
  const char *const lines[ABOUT_LINES] = {[ABOUT_PLATFORM] = info->platform,
                                          [ABOUT_DEVICE] = info->name,
                                          [ABOUT_DRIVER] = info->driver,
                                          [ABOUT_KERNEL] = program->kernel,
                                          [ABOUT_OPTIONS] = program->options};
  for (int i = 0; i < ABOUT_LINES; i++) append_line(about, lines[i]);
  return (cache_entry){.origin = program->origin,
                       .about = about->data,
                       .n_about = about->size,
                       .data = data,
                       .size = size,
                       .driver = device->driver_stamp,
                       .proven = program->proven.items,
                       .n_proven = program->proven.count};
}

/* Saves the program's entry. saves_empty: even without a binary. */
static clave_status programs_save_program(cl_device *device, kernel_program *program,
                                          bool saves_empty) {
  clave_status st = NULL;
  if (save_again(device, program, &st)) return st;
  unsigned char *data = NULL;
  size_t size = 0;
  if (program->handle) st = binary_read(device, program->handle, &data, &size);
  if (st && saves_empty) { /* the driver returns no binaries */
    status_free(st);
    st = NULL;
    size = 0;
  }
  if (!st && (size || saves_empty)) {
    text about = {0};
    const cache_entry entry = entry_of(device, program, data, size, &about);
    st = text_status(&about);
    if (!st) st = cache_save(device->cache_dir, &entry);
    text_free(&about);
  }
  free(data);
  return st;
}

/* Saves the program if it has unsaved changes. Returns true if it had. */
static bool save_if_new(cl_device *device, kernel_program *program) {
  mutex_lock(program->lock);
  bool has_run = __atomic_load_n(&program->has_run, __ATOMIC_RELAXED);
  clave_status st = NULL;
  bool is_new = has_run && (!program->is_saved || program->proven.count != program->saved_proven);
  if (is_new) {
    st = programs_save_program(device, program, device->isolates);
    program->is_saved = true; /* not tried again if saving failed */
    program->saved_proven = program->proven.count;
  }
  mutex_unlock(program->lock);
  if (st && !__atomic_exchange_n(&device->cache_noted, true, __ATOMIC_RELAXED))
    device_note(device, "kernel binaries are not cached: %s", status_message(st));
  status_free(st);
  return is_new;
}

void program_save_accepted(cl_device *device, kernel_program *program) {
  if (!device->cache_dir) return;
  mutex_lock(program->lock);
  clave_status st = programs_save_program(device, program, true);
  status_free(st); /* if the other process cannot save either, it reports that */
  program->is_saved = true;
  mutex_unlock(program->lock);
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

/* Appends the program's binary if it has run: otherwise the binary may contain no code. */
static clave_status append_program(const cl_device *device, kernel_program *program, text *to) {
  unsigned char *data = NULL;
  size_t size = 0;
  mutex_lock(program->lock);
  clave_status st = program->handle && __atomic_load_n(&program->has_run, __ATOMIC_RELAXED)
                        ? binary_read(device, program->handle, &data, &size)
                        : NULL;
  if (!st && size) {
    text about = {0};
    const cache_entry entry = entry_of(device, program, data, size, &about);
    st = text_status(&about);
    if (!st) binaries_append(to, &entry);
    text_free(&about);
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
