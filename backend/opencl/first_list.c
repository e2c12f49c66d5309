/* The list of devices at the first contact with the installed drivers. A driver that crashes or
 * hangs in it would end every process, so a child process makes the list first. If no child can be
 * started, a mark on disk tells that this process makes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/opencl/device/driver_folder.h"
#include "backend/opencl/program/build_messages.h"
#include "backend/opencl/program/cache.h"
#include "backend/opencl/program/marks.h"
#include "base/hash.h"

static const char about[] = "the list of OpenCL devices",
                  refused[] = "OpenCL is not used, because its devices cannot be listed: ";
enum { SUSPECT = 1 }; /* a process that ended once in the list may have been killed by the user */
static char refusal[256]; /* why there are no devices, or "" */

/* ---------------------------------------------------------------- the installed drivers */

/* Appends the path and what an update of the file or folder changes, if it exists. */
static void append_stamp(text *text, const char *path) {
  struct stat s;
  if (stat(path, &s) == 0)
    text_printf(text, "%s %lld %lld\n", path, (long long)s.st_size, (long long)s.st_mtime);
}

/* Hashes what changes when a driver is installed or updated: the OpenCL library, the list of
 * drivers, and the linker's cache, which each installation of a library writes. */
static bool drivers_key(const cl_functions *cl, uint64_t key[2]) {
  static const char *const variables[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH",
                                          "OCL_ICD_FILENAMES", "LD_LIBRARY_PATH"};
  const void *function;
  text text = {0};
  memcpy(&function, &cl->clGetPlatformIDs, sizeof function);
  text_printf(&text, "%s %llu\n", cl->file, (unsigned long long)library_stamp(function));
  append_stamp(&text, "/etc/OpenCL/vendors");
  append_stamp(&text, "/etc/ld.so.cache");
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = getenv(variables[i]);
    if (!value) continue;
    text_printf(&text, "%s=%s\n", variables[i], value);
    append_stamp(&text, value);
  }
  const bool good = !text.failed;
  if (good) hash_bytes_128(text.data, text.size, key);
  text_free(&text);
  return good;
}

/* ---------------------------------------------------------------- a trial */

/* Tries the drivers, in this process if necessary, and writes the outcome to the folder. */
static void contact_drivers(const char *folder, const uint64_t key[2], found_mark *found) {
  const greeting task = {.task = TASK_LIST};
  const device_list *list;
  char reason[128];
  int seconds;
  status_free(trials_timeout(&seconds)); /* reported when a device is opened */
  const child_outcome outcome = child_try(&task, seconds, reason, sizeof reason);
  if (outcome == CHILD_HARMED) (void)snprintf(refusal, sizeof refusal, "%s%s", refused, reason);
  clave_status st = cache_open(folder);
  const bool is_open = !st;
  status_free(st);
  if (!is_open) return;
  if (outcome == CHILD_HARMED && found->tries < SUSPECT) found->tries = SUSPECT;
  life_sign *sign = outcome == CHILD_GOOD ? NULL : life_sign_create(folder);
  if (sign) (void)mark_try(folder, key, sign, found, false, about);
  if (outcome == CHILD_UNTRIED) status_free(opencl_device_list(&list));
  if (outcome != CHILD_HARMED) mark_accept(folder, key, about);
  life_sign_destroy(sign);
}

static void first_contact(void) {
  const char *folder = driver_folder_parent(), *how = getenv("CLAVE_ISOLATION"), *reason;
  const cl_functions *cl;
  uint64_t key[2];
  if (!folder || (how && strcmp(how, "off") == 0) || opencl_is_loaded()) return;
  driver_folder_enter();
  clave_status st = opencl_functions(&cl, &reason);
  const bool can_try = !st && cl && drivers_key(cl, key);
  status_free(st);
  if (!can_try) return;
  found_mark found = mark_find(folder, key);
  if (found.state == MARK_ACCEPTED) return;
  if (found.state == MARK_DEAD && !found.is_expired && found.tries > SUSPECT)
    (void)snprintf(refusal, sizeof refusal, "%s%s", refused, trial_has_ended);
  else
    contact_drivers(folder, key, &found);
  if (*refusal) driver_folder_leave(false);
}

clave_status opencl_devices(const backend_info **infos, int *count, const char **reason) {
  static once tried;
  const device_list *list;
  *infos = NULL;
  *count = 0;
  once_run(&tried, first_contact);
  *reason = *refusal ? refusal : NULL;
  if (*refusal) return NULL;
  TRY(opencl_device_list(&list));
  *infos = list->infos;
  *count = list->count;
  *reason = list->reason;
  return NULL;
}
