/* This process: its environment, its id, and the files beside its library. */
#include "base/process.h"

#include <windows.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/windows/wide.h"

void environment_set(const char *name, const char *value) {
  (void)(value ? setenv(name, value, 1) : unsetenv(name));
}

bool environment_provide(const char *program) {
  (void)program;
  return true; /* drivers for Windows bring their own tools */
}

const char *environment_trusted(const char *name) { return getenv(name); }

long process_id(void) { return (long)GetCurrentProcessId(); }
unsigned long user_id(void) { return 0; }
unsigned process_generation(void) { return 0; } /* processes do not fork */

/* Returns the path of the library or program with this function, with slashes. Owned by the
 * caller; NULL when memory is out. */
static char *own_file(void) {
  HMODULE own = NULL;
  wchar_t path[32768];
  const DWORD how =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExW(how, (LPCWSTR)(uintptr_t)own_file, &own)) return NULL;
  const DWORD n = GetModuleFileNameW(own, path, sizeof path / sizeof *path);
  if (n == 0 || n == sizeof path / sizeof *path) return NULL;
  for (wchar_t *at = path; *at; at++)
    if (*at == '\\') *at = '/';
  return utf8_of(path);
}

char *find_own(const char *const *names, size_t n, bool runs) {
  char *own = own_file(), *slash = own ? strrchr(own, '/') : NULL;
  text path = {0};
  (void)runs;
  for (size_t i = 0; slash && i < n; i++) {
    struct stat s;
    text_clear(&path);
    text_printf(&path, "%.*s%s", (int)(slash - own), own, names[i]);
    if (!path.failed && stat(path.data, &s) == 0 && S_ISREG(s.st_mode)) break;
    text_free(&path);
  }
  free(own);
  return path.data;
}

clave_status cache_home(char **out) {
  const char *local = getenv("LOCALAPPDATA");
  *out = local && *local ? path_join(local, "clave/cache") : NULL;
  return *out || !local || !*local ? NULL : status_no_memory();
}

const char *temporary_folder(void) {
  const char *given = getenv("TEMP");
  return given && *given ? given : ".";
}

const char *memory_folder(void) { return temporary_folder(); }

clave_status path_absolute(const char *path, char **out) {
  wchar_t *wide = wide_of(path), *whole = wide ? _wfullpath(NULL, wide, 0) : NULL;
  *out = whole ? utf8_of(whole) : NULL;
  free(wide);
  free(whole);
  if (!*out) return status_no_memory();
  for (char *at = *out; *at; at++)
    if (*at == '\\') *at = '/';
  return NULL;
}
