#ifndef TEST_OPENCL_CALLS_H
#define TEST_OPENCL_CALLS_H
/* A host program's own OpenCL calls, as cl.clName. Define their list HOST_CALLS(X) before including
 * this. */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

static struct {
#define X(f) __typeof__(&f) f;
  HOST_CALLS(X)
#undef X
} cl;

/* Returns false if the library, which may be NULL, lacks a call. */
static inline bool load_calls(void *library) {
  void *from;
#define X(name)                                  \
  from = library ? dlsym(library, #name) : NULL; \
  memcpy(&cl.name, &from, sizeof from);          \
  if (!from) return false;
  HOST_CALLS(X)
#undef X
  return true;
}

#endif
