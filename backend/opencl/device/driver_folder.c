/* This process's folder for drivers' files. A lock file in it shows that the process is alive. */
#include "backend/opencl/device/driver_folder.h"

#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/device.h"
#include "base/file.h"
#include "base/process.h"

enum { LOCK_TIMEOUT_MS = 2000 };
static const char stem[] = "driver-";
static const char lock_name[] = "lock";        /* in each driver folder; locked by its process */
static const char all_lock_name[] = "drivers"; /* locked while folders are made or swept */

static struct {
  once made;
  char *parent, *path; /* owned; NULL if none exists */
  file_lock *alive;
  long process; /* process that made the folder; a forked child does not remove it */
  bool is_set;  /* the environment variable is set. Atomic */
} own;

/* ---------------------------------------------------------------- all driver folders */

static file_lock *lock_in(const char *folder, const char *name, int timeout_ms) {
  char *path = path_join(folder, name);
  file_lock *lock = NULL;
  if (path) (void)file_lock_take(path, timeout_ms, &lock);
  free(path);
  return lock;
}

static bool is_driver_folder(const folder_entry *entry) {
  return strncmp(entry->name, stem, sizeof stem - 1) == 0;
}

static uint64_t remove_dead(const char *path) {
  uint64_t bytes = 0;
  file_lock *lock = lock_in(path, lock_name, 0);
  if (lock) (void)folder_remove(path, &bytes);
  file_lock_release(lock);
  return bytes;
}

static uint64_t sweep_locked(const char *folder) {
  folder_entry *entries;
  size_t n;
  uint64_t bytes = 0;
  clave_status st = folder_list_folders(folder, &entries, &n);
  for (size_t i = 0; !st && i < n; i++) {
    char *path = is_driver_folder(&entries[i]) ? path_join(folder, entries[i].name) : NULL;
    if (path) bytes += remove_dead(path);
    free(path);
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
  return bytes;
}

static uint64_t sweep(const char *folder) {
  file_lock *lock = lock_in(folder, all_lock_name, LOCK_TIMEOUT_MS);
  uint64_t bytes = lock ? sweep_locked(folder) : 0;
  file_lock_release(lock);
  return bytes;
}

/* Returns the user's folder in `place`, owned by the caller; NULL if memory runs out. */
static char *users_folder(const char *place) {
  text path = {0};
  text_printf(&path, "%s/clave-%lu", place, user_id());
  if (path.failed) text_free(&path);
  return path.data;
}

uint64_t driver_folders_sweep(const char *folder) {
  const char *places[] = {memory_folder(), temporary_folder()};
  uint64_t bytes = sweep(folder);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char *path = users_folder(places[i]);
    if (path && folder_is_private(path)) bytes += sweep(path);
    free(path);
  }
  return bytes;
}

void driver_folders_measure(const char *folder, uint64_t *bytes, uint64_t *files) {
  folder_entry *entries;
  size_t n;
  clave_status st = folder_list_folders(folder, &entries, &n);
  for (size_t i = 0; !st && i < n; i++) {
    uint64_t its_bytes = 0, its_files = 0;
    char *path = is_driver_folder(&entries[i]) ? path_join(folder, entries[i].name) : NULL;
    if (path) folder_measure(path, &its_bytes, &its_files);
    free(path);
    *bytes += its_bytes;
    *files += its_files;
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
}

/* ---------------------------------------------------------------- this process's folder */

static bool make_locked(const char *parent) {
  (void)sweep_locked(parent);
  own.path = folder_create_unique(parent, stem);
  own.alive = own.path ? lock_in(own.path, lock_name, 0) : NULL;
  if (own.alive) return true;
  uint64_t bytes;
  if (own.path) (void)folder_remove(own.path, &bytes);
  free(own.path);
  own.path = NULL;
  return false;
}

static bool make_in(const char *parent) {
  clave_status st = make_folders(parent, FOLDERS_PRIVATE);
  bool good = !st && folder_is_private(parent) && folder_accepts_code(parent);
  status_free(st);
  file_lock *lock = good ? lock_in(parent, all_lock_name, LOCK_TIMEOUT_MS) : NULL;
  good = lock && make_locked(parent);
  file_lock_release(lock);
  return good;
}

static bool make_in_users(const char *place) {
  char *parent = folder_accepts_code(place) ? users_folder(place) : NULL;
  bool good = parent && make_in(parent);
  free(parent);
  return good;
}

static void make_own(void) {
  const char *variable = quirk_files_variable(), *given = getenv(variable);
  if ((given && *given) || opencl_is_loaded()) return;
  /* The folder in memory is preferred, because PoCL waits for the disk after each file that it
   * writes. */
  if (!make_in_users(memory_folder()) && !(own.parent && make_in(own.parent)) &&
      !make_in_users(temporary_folder()))
    return;
  own.process = process_id();
  environment_set(variable, own.path);
  __atomic_store_n(&own.is_set, true, __ATOMIC_RELEASE);
}

static void remove_own(void) {
  uint64_t bytes;
  if (own.path && own.process == process_id()) (void)folder_remove(own.path, &bytes);
  file_lock_release(own.alive);
  free(own.path);
  own.path = NULL;
  own.alive = NULL;
}

void driver_folder_enter(void) { once_run(&own.made, make_own); }

void driver_folder_leave(bool is_used) {
  if (!__atomic_exchange_n(&own.is_set, false, __ATOMIC_ACQ_REL)) return;
  environment_set(quirk_files_variable(), NULL);
  if (!is_used) remove_own();
}

const char *driver_folder_parent(void) { return own.parent; }

const char *driver_folder_path(void) { return own.path; }

void opencl_keep_files_in(const char *folder) {
  static bool is_taken;
  if (__atomic_exchange_n(&is_taken, true, __ATOMIC_ACQ_REL)) return;
  own.parent = folder ? strdup(folder) : NULL;
}

__attribute__((destructor)) static void end_process(void) {
  remove_own();
  free(own.parent);
  own.parent = NULL;
}
