/* Shared libraries opened at run time. */
#include <windows.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/windows/wide.h"

struct library {
  HMODULE handle;
};

/* As dlopen does for a name without a folder, Windows searches its system folder and PATH. */
clave_status library_open(const char *name, library **out) {
  wchar_t *wide = wide_of(name);
  library *library = *out = wide ? calloc(1, sizeof *library) : NULL;
  if (library) library->handle = LoadLibraryW(wide);
  free(wide);
  if (!library) return status_no_memory();
  if (library->handle) return NULL;
  const unsigned long code = GetLastError();
  free(library);
  *out = NULL;
  return UNSUPPORTED("%s: cannot be loaded (error %lu of Windows)", name, code);
}

bool library_is_loaded(const char *name) {
  wchar_t *wide = wide_of(name);
  const bool is_loaded = wide && GetModuleHandleW(wide);
  free(wide);
  return is_loaded;
}

void library_close(library *library) {
  if (!library) return;
  (void)FreeLibrary(library->handle);
  free(library);
}

void *library_symbol(library *library, const char *name) {
  const FARPROC found = GetProcAddress(library->handle, name);
  void *symbol;
  memcpy(&symbol, &found, sizeof symbol);
  return symbol;
}

uint64_t library_stamp(const void *address) {
  HMODULE module = NULL;
  wchar_t path[32768];
  WIN32_FILE_ATTRIBUTE_DATA found;
  const DWORD how =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExW(how, (LPCWSTR)address, &module)) return 0;
  const DWORD n = GetModuleFileNameW(module, path, sizeof path / sizeof *path);
  if (n == 0 || n == sizeof path / sizeof *path) return 0;
  if (!GetFileAttributesExW(path, GetFileExInfoStandard, &found)) return 0;
  const uint32_t file[] = {found.nFileSizeHigh, found.nFileSizeLow,
                           found.ftLastWriteTime.dwHighDateTime,
                           found.ftLastWriteTime.dwLowDateTime};
  return hash_bytes(file, sizeof file);
}
