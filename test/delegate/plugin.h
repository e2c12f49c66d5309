#ifndef TEST_DELEGATE_PLUGIN_H
#define TEST_DELEGATE_PLUGIN_H
/* Opens libclave_delegate.so as a host does, by its path in the build that the test belongs to. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "delegate/clave_delegate.h"

static clave_delegate d = {.size = sizeof d};

/* Returns the path of the plugin. The test is build/test/delegate/test_x, the plugin in build. */
static inline void plugin_path(char *path, size_t size) {
  static const char name[] = "/libclave_delegate.so";
  const ssize_t n = readlink("/proc/self/exe", path, size - sizeof name);
  assert_true(n > 0);
  path[n] = 0;
  for (int up = 0; up < 3; up++) *strrchr(path, '/') = 0;
  strcat(path, name);
}

static inline void *open_plugin(void) {
  char path[4096];
  plugin_path(path, sizeof path);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail_msg("%s", dlerror());
  return library;
}

static inline clave_delegate_register_fn find_register(void *library) {
  clave_delegate_register_fn get;
  void *symbol = dlsym(library, CLAVE_DELEGATE_REGISTER);
  assert_non_null(symbol);
  memcpy(&get, &symbol, sizeof get);
  return get;
}

static inline void *load_plugin(void) {
  void *library = open_plugin();
  assert_int_equal(find_register(library)(CLAVE_DELEGATE_VERSION, &d), CLAVE_OK);
  return library;
}

static inline void fine(clave_status st) {
  if (st) print_error("%s\n", d.status_message(st));
  assert_null(st);
}

/* Expects an error with this code whose message contains these words. */
static inline void expect(clave_status st, clave_code code, const char *part) {
  if (!strstr(d.status_message(st), part)) fail_msg("'%s': no '%s'", d.status_message(st), part);
  assert_int_equal(d.status_code(st), code);
  d.status_free(st);
}

/* Returns a file's bytes; the caller frees them. */
static inline void *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long n = ftell(file);
  rewind(file);
  void *bytes = aligned_alloc(64, ((size_t)n + 63) / 64 * 64);
  assert_int_equal(fread(bytes, 1, (size_t)n, file), (size_t)n);
  (void)fclose(file);
  *size = (size_t)n;
  return bytes;
}

#endif
