/* A program's trial, its first contact with a driver: its state, marks on disk and outcome. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/binaries.h"
#include "backend/opencl/program/kernel_program.h"
#include "backend/opencl/program/marks.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "base/process.h"

enum { OTHERS_MS = 10000, MOMENT_MS = 20, TIMEOUT_S = 60, MAX_TIMEOUT_S = 86400 };

const char trial_has_ended[] = "an earlier process ended while the driver had it";

/* ---------------------------------------------------------------- the device */

/* Returns a stamp of the driver's library file. The loader forwards this query to the driver, so
 * the address of the returned function is in that file. */
static uint64_t find_driver_stamp(const cl_device *device) {
  void *function = device->cl->clGetExtensionFunctionAddressForPlatform(device->entry->platform,
                                                                        "clIcdGetPlatformIDsKHR");
  if (!function) memcpy(&function, &device->cl->clGetPlatformIDs, sizeof function);
  return library_stamp(function);
}

clave_status trials_timeout(int *seconds) {
  const char *timeout = getenv("CLAVE_BUILD_TIMEOUT");
  *seconds = TIMEOUT_S;
  if (!timeout || !*timeout) return NULL;
  char *end;
  const double given = number_read(timeout, &end);
  if (*end || !(given >= 1 && given <= MAX_TIMEOUT_S))
    return INVALID("CLAVE_BUILD_TIMEOUT: expected 1 to %d seconds, got '%s'", MAX_TIMEOUT_S,
                   timeout);
  *seconds = (int)given;
  return NULL;
}

clave_status trials_prepare(cl_device *device, bool builds_here) {
  const char *how = getenv("CLAVE_ISOLATION");
  device->driver_stamp = find_driver_stamp(device);
  TRY(trials_timeout(&device->build_timeout_s));
  device->isolates = !device->base.info.is_trusted;
  if (how && strcmp(how, "on") == 0)
    device->isolates = true;
  else if (how && strcmp(how, "off") == 0)
    device->isolates = false;
  else if (how && *how)
    return INVALID("CLAVE_ISOLATION: expected on or off, got '%s'", how);
  if (builds_here) device->isolates = false;
  return NULL;
}

/* ---------------------------------------------------------------- a program */

bool trial_is_over(const cl_device *device, kernel_program *program) {
  if (!device->isolates || __atomic_load_n(&program->is_accepted, __ATOMIC_RELAXED)) return true;
  if (!device->cache_dir ||
      !cache_is_current(device->cache_dir, program->key, device->driver_stamp))
    return false;
  __atomic_store_n(&program->is_accepted, true, __ATOMIC_RELAXED);
  return true;
}

/* Refuses the program in this process. */
static clave_status trials_refuse(kernel_program *program, const char *reason) {
  clave_status st = UNSUPPORTED("kernel %s of %s.cl: %s", program->kernel, program->stem, reason);
  free(program->refusal);
  program->refusal = strdup(status_message(st));
  memcpy(program->refused_key, program->key, sizeof program->key);
  __atomic_store_n(&program->refused_items, 1, __ATOMIC_RELAXED);
  return st;
}

bool trial_was_refused(cl_device *device, kernel_program *program) {
  if (__atomic_load_n(&program->refused_items, __ATOMIC_RELAXED) == 1) return true;
  if (!device->cache_dir) return false;
  const found_mark found = mark_find(device->cache_dir, program->key);
  if (found.state == MARK_REFUSED) status_free(trials_refuse(program, found.reason));
  return found.state == MARK_REFUSED;
}

/* Finds the program's mark. If another process is trying the program, waits a while for it. */
static found_mark find_settled(const cl_device *device, const kernel_program *program) {
  const int64_t end = clock_ns() + (int64_t)OTHERS_MS * 1000000;
  found_mark found = mark_find(device->cache_dir, program->key);
  while (found.state == MARK_LIVE && clock_ns() < end) {
    (void)socket_wait(NULL, 0, MOMENT_MS);
    found = mark_find(device->cache_dir, program->key);
  }
  return found;
}

/* Writes the program and driver of a mark as text. */
static void describe(const cl_device *device, const kernel_program *program, char *out,
                     size_t size) {
  (void)snprintf(out, size, "kernel %s of %s.cl on %s, driver %s (%s)", program->kernel,
                 program->stem, device->base.info.name, device->base.info.driver, program->options);
}

/* Writes the mark. If the folder cannot be written, the program stays unmarked without an error. */
static void write_trial(cl_device *device, kernel_program *program, const found_mark *before,
                        bool is_load) {
  char about[512];
  describe(device, program, about, sizeof about);
  mutex_lock(device->trial_lock);
  if (!device->sign) device->sign = life_sign_create(device->cache_dir);
  program->is_marked = device->sign && mark_try(device->cache_dir, program->key, device->sign,
                                                before, is_load, about);
  if (!program->is_marked) mutex_unlock(device->trial_lock);
}

clave_status trial_begin(cl_device *device, kernel_program *program, bool *began, bool *skips) {
  cache_entry packed;
  *began = *skips = false;
  if (program->is_marked || trial_is_over(device, program) || !device->cache_dir) return NULL;
  const found_mark found = find_settled(device, program);
  if (found.state == MARK_REFUSED) return trials_refuse(program, found.reason);
  if (found.state == MARK_DEAD && !found.is_load && !found.is_expired)
    return trials_refuse(program, trial_has_ended);
  *skips = found.state == MARK_DEAD && found.is_load;
  if (*skips) cache_remove(device->cache_dir, program->key);
  const bool is_load =
      !program->handle && !*skips &&
      (cache_has(device->cache_dir, program->key) || binaries_find(device, program->key, &packed));
  write_trial(device, program, &found, is_load);
  *began = program->is_marked;
  return NULL;
}

void trial_end(const cl_device *device, kernel_program *program) {
  mark_remove(device->cache_dir, program->key);
  program->is_marked = false;
  mutex_unlock(device->trial_lock);
}

clave_status program_try(cl_device *device, kernel_program *program, bool *began) {
  bool skips;
  mutex_lock(program->lock);
  clave_status st = trial_begin(device, program, began, &skips);
  mutex_unlock(program->lock);
  return st;
}

void program_end_try(const cl_device *device, kernel_program *program) {
  mutex_lock(program->lock);
  trial_end(device, program);
  __atomic_store_n(&program->is_accepted, true, __ATOMIC_RELAXED);
  mutex_unlock(program->lock);
}

/* ---------------------------------------------------------------- verdicts of children */

void program_accepted(const cl_device *device, kernel_program *program, const char *binary,
                      size_t size) {
  mutex_lock(program->lock);
  if (size && !program->child_binary && (program->child_binary = malloc(size))) {
    memcpy(program->child_binary, binary, size);
    program->child_binary_size = size;
  }
  mutex_unlock(program->lock);
  if (__atomic_exchange_n(&program->is_accepted, true, __ATOMIC_RELAXED)) return;
  if (device->cache_dir) mark_remove(device->cache_dir, program->key);
}

bool program_fail_trial(cl_device *device, kernel_program *program, const char *reason,
                        bool lasts) {
  char about[512];
  mutex_lock(program->lock);
  const bool has_binary = lasts && device->cache_dir && cache_has(device->cache_dir, program->key),
             was_loaded = has_binary && !program->was_retried;
  if (has_binary) cache_remove(device->cache_dir, program->key);
  if (!was_loaded) {
    describe(device, program, about, sizeof about);
    status_free(trials_refuse(program, reason));
    if (lasts && device->cache_dir) mark_refuse(device->cache_dir, program->key, about, reason);
  }
  mutex_unlock(program->lock);
  return !was_loaded;
}

bool program_may_retry(kernel_program *program) {
  const bool may = !program->was_retried;
  program->was_retried = true;
  return may;
}
