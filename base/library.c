/* Shared libraries opened at run time: the only user of dlopen. */
#include <dlfcn.h>
#include <stdlib.h>

#include "base/file.h"

struct library {
  void *handle;
};

clave_status library_open(const char *name, library **out) {
  *out = NULL;
  library *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!l->handle) {
    const char *reason = dlerror(); /* per thread in glibc and musl */
    free(l);
    return UNSUPPORTED("%s", reason ? reason : name);
  }
  *out = l;
  return NULL;
}

bool library_is_loaded(const char *name) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (handle) (void)dlclose(handle);
  return handle != NULL;
}

void library_close(library *l) {
  if (!l) return;
  (void)dlclose(l->handle);
  free(l);
}

void *library_symbol(library *l, const char *name) { return dlsym(l->handle, name); }
