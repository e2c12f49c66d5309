/* Replaces our kernel sources by the user's sources of the same names. */
#include "compile/kernel_folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Returns "softmax.c" for "backend/cpu/kernels/softmax.c", also from a folder below it; NULL for
 * other sources. */
static const char *kernel_folder_name_of(const source_file *file) {
  static const char folder[] = "backend/cpu/kernels/";
  return strncmp(file->path, folder, sizeof folder - 1) == 0 ? strrchr(file->path, '/') + 1 : NULL;
}

clave_status kernel_folder_find(const char *folder, const source_file *file, char **path) {
  const char *name = kernel_folder_name_of(file);
  *path = NULL;
  if (!folder || !name) return NULL;
  *path = path_join(folder, name);
  if (!*path) return status_no_memory();
  if (file_exists(*path)) return NULL;
  free(*path);
  *path = NULL;
  return NULL;
}

/* Checks that the file defines every kernel that our source defines. */
static clave_status kernel_folder_check_kernels(const char *path, int source) {
  file_map map;
  clave_status st = file_map_open(path, &map);
  for (int i = 0; i < n_kernel_infos && !st; i++) {
    if (kernel_infos[i].source != source) continue;
    text want = {0};
    text_printf(&want, "kernel_desc %s ", kernel_infos[i].name);
    st = text_status(&want);
    if (!st && !(map.data && memmem(map.data, map.size, want.data, want.size)))
      st = INVALID("%s: the file does not define `const kernel_desc %s`, which its header declares",
                   path, kernel_infos[i].name);
    text_free(&want);
  }
  if (map.data) file_map_close(&map);
  return st;
}

static clave_status fits_none(const char *folder, const bool *needed) {
  text names = {0};
  for (int i = 0; i < n_source_files; i++)
    if (needed[i] && kernel_folder_name_of(&source_files[i]) &&
        path_has_ending(source_files[i].path, ".c"))
      text_printf(&names, "%s%s", names.size ? ", " : "", kernel_folder_name_of(&source_files[i]));
  clave_status st = names.failed
                        ? status_no_memory()
                        : INVALID("%s: the folder has no kernel source that the program uses: %s",
                                  folder, names.size ? names.data : "the program uses no kernels");
  text_free(&names);
  return st;
}

clave_status kernel_folder_check(const char *folder, const bool *needed) {
  int n_found = 0;
  if (!folder_exists(folder)) return status_new(STATUS_IO, "%s: expected a folder", folder);
  for (int i = 0; i < n_source_files; i++) {
    char *path = NULL;
    if (needed[i]) TRY(kernel_folder_find(folder, &source_files[i], &path));
    if (!path) continue;
    n_found++;
    clave_status st = kernel_folder_check_kernels(path, i);
    free(path);
    if (st) return st;
  }
  return n_found ? NULL : fits_none(folder, needed);
}
