/* The kernel cache on disk, in the folder named by the caller or the environment. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "base/process.h"
#include "clave_files.h"

/* Makes the path absolute, because the process may change its working folder later. If the present
 * working folder no longer exists, *out is the path as given. */
static clave_status keep_path(const char *given, char **out) {
  clave_status st = path_absolute(given, out);
  if (status_code_of(st) != STATUS_IO) return st;
  status_free(st);
  return (*out = strdup(given)) ? NULL : status_no_memory();
}

clave_status cache_folder(const char *given, char **out) {
  *out = NULL;
  const char *named = given && *given ? given : getenv("CLAVE_CACHE_DIR");
  if (named && strcmp(named, "off") == 0) return NULL;
  if (named && *named) return keep_path(named, out);
  return cache_home(out);
}

/* Measures, or removes, the libraries that Python's clave.executorch built, each in its own folder.
 * Adds to *bytes and *files. */
static void visit_libraries(const char *folder, bool removes, uint64_t *bytes, uint64_t *files) {
  static const char stem[] = "executorch-";
  folder_entry *entries;
  size_t n;
  clave_status st = folder_list_folders(folder, &entries, &n);
  for (size_t i = 0; !st && i < n; i++) {
    const bool is_one = strncmp(entries[i].name, stem, sizeof stem - 1) == 0;
    char *path = is_one ? path_join(folder, entries[i].name) : NULL;
    uint64_t its_bytes = 0, its_files = 0;
    if (path && removes) (void)folder_remove(path, &its_bytes);
    if (path && !removes) folder_measure(path, &its_bytes, &its_files);
    free(path);
    *bytes += its_bytes;
    *files += its_files;
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
}

clave_status clave_cache_get_info(clave_cache_info *info) {
  static _Thread_local char shown[4096]; /* the path of the thread's last call */
  clave_cache_info own = {0};
  char *folder;
  TRY(cache_folder(NULL, &folder));
  cache_stats stats;
  clave_status st = folder ? cache_info(folder, &stats) : NULL;
  uint64_t tables = 0;
  if (!st && folder) tuning_measure(folder, &stats.bytes, &tables);
  if (!st && folder) visit_libraries(folder, false, &stats.bytes, &stats.files);
  if (!st && folder && strlen(folder) < sizeof shown) {
    strcpy(shown, folder);
    own = (clave_cache_info){.path = shown,
                             .bytes = stats.bytes,
                             .files = stats.files + tables,
                             .tables = tables,
                             .limit_bytes = stats.limit_bytes};
  }
  free(folder);
  return st ? st : sized_write(&own, info, SIZED(clave_cache_info, limit_bytes));
}

clave_status clave_serve_builds(int socket) {
  OWN_FLOAT_ENV;
  return opencl_serve_builds(socket);
}

typedef struct kernel_listener {
  clave_cache_report report;
  void *ctx;
} kernel_listener;

static void report_kernels(void *ctx, const kernel_group *group) {
  const kernel_listener *listener = ctx;
  if (!listener->report) return;
  listener->report(listener->ctx, &(clave_cache_kernels){.size = sizeof(clave_cache_kernels),
                                                         .platform = group->platform,
                                                         .device = group->device,
                                                         .driver = group->driver,
                                                         .kernels = group->kernels,
                                                         .bytes = group->bytes,
                                                         .added = group->added,
                                                         .is_present = group->is_present});
}

/* Moves kernels between the cache and a file, by cache_export or cache_import. */
static clave_status cache_move(clave_status (*move)(const char *folder, const char *path,
                                                    kernel_report report, void *ctx),
                               const char *path, clave_cache_report report, void *ctx) {
  kernel_listener listener = {report, ctx};
  char *folder;
  TRY(cache_folder(NULL, &folder));
  if (!folder) return INVALID("there is no kernel cache: CLAVE_CACHE_DIR is off or HOME is unset");
  opencl_keep_files_in(folder); /* before an import loads the drivers */
  clave_status st = move(folder, path, report_kernels, &listener);
  free(folder);
  return st;
}

clave_status clave_cache_export(const char *path, clave_cache_report report, void *ctx) {
  OWN_FLOAT_ENV;
  return cache_move(cache_export, path, report, ctx);
}

clave_status clave_cache_import(const char *path, clave_cache_report report, void *ctx) {
  OWN_FLOAT_ENV;
  return cache_move(cache_import, path, report, ctx);
}

clave_status clave_cache_trim(uint64_t max_bytes, uint64_t *removed_bytes) {
  uint64_t removed = 0, files = 0;
  char *folder;
  TRY(cache_folder(NULL, &folder));
  clave_status st = folder ? cache_trim(folder, max_bytes, &removed) : NULL;
  if (folder && max_bytes == 0) {
    removed += tuning_remove(folder);
    visit_libraries(folder, true, &removed, &files);
  }
  free(folder);
  if (removed_bytes) *removed_bytes = removed;
  return st;
}
