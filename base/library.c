/* Shared libraries opened at run time: the only user of dlopen. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"

struct library {
  void *handle;
};

clave_status library_open(const char *name, library **out) {
  *out = NULL;
  library *library = calloc(1, sizeof *library);
  if (!library) return status_no_memory();
  library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library->handle) {
    const char *reason = dlerror(); /* per thread in glibc and musl */
    free(library);
    return UNSUPPORTED("%s", reason ? reason : name);
  }
  *out = library;
  return NULL;
}

bool library_is_loaded(const char *name) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (handle) (void)dlclose(handle);
  return handle != NULL;
}

void library_close(library *library) {
  if (!library) return;
  (void)dlclose(library->handle);
  free(library);
}

void *library_symbol(library *library, const char *name) { return dlsym(library->handle, name); }

uint64_t library_stamp(const void *address) {
  Dl_info found;
  struct stat s;
  if (!dladdr(address, &found) || !found.dli_fname || stat(found.dli_fname, &s) != 0) return 0;
  const int64_t file[] = {s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
  return hash_bytes(file, sizeof file);
}
