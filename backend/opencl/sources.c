/* Kernel source text: the embedded files, or those of the device's kernel folder, with #include
 * "..." written out. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "base/file.h"

enum { MAX_INCLUDE_DEPTH = 4 };

static clave_status append_file(const cl_device *d, const char *name, int depth, text *out);

/* The name in a line `#include "name"`, or false. */
static bool included_name(const char *line, size_t n, char *name, size_t size) {
  static const char head[] = "#include \"";
  size_t h = sizeof head - 1;
  if (n <= h || memcmp(line, head, h) != 0) return false;
  const char *close = memchr(line + h, '"', n - h);
  if (!close || (size_t)(close - line) - h >= size) return false;
  size_t length = (size_t)(close - line) - h;
  memcpy(name, line + h, length);
  name[length] = 0;
  return true;
}

static clave_status append_lines(const cl_device *d, const char *bytes, size_t size, int depth,
                                 text *out) {
  char name[64];
  for (size_t at = 0; at < size;) {
    const char *end = memchr(bytes + at, '\n', size - at);
    size_t n = end ? (size_t)(end - bytes) - at + 1 : size - at;
    if (included_name(bytes + at, n, name, sizeof name))
      TRY(append_file(d, name, depth + 1, out));
    else
      text_append(out, bytes + at, n);
    at += n;
  }
  text_append(out, "\n", 1);
  return NULL;
}

static clave_status append_from_folder(const cl_device *d, const char *name, int depth, text *out) {
  char *path = path_join(d->kernel_dir, name);
  if (!path) return status_no_memory();
  file_map map;
  clave_status st = file_map_open(path, &map);
  free(path);
  if (st) return status_while(st, "kernel file %s", name);
  st = append_lines(d, (const char *)map.data, map.size, depth, out);
  file_map_close(&map);
  return st;
}

static clave_status append_file(const cl_device *d, const char *name, int depth, text *out) {
  if (depth > MAX_INCLUDE_DEPTH) return INVALID("kernel file %s is included too deeply", name);
  if (d->kernel_dir) return append_from_folder(d, name, depth, out);
  for (int i = 0; i < n_kernel_files; i++)
    if (strcmp(kernel_files[i].name, name) == 0)
      return append_lines(d, (const char *)kernel_files[i].bytes, kernel_files[i].size, depth, out);
  return INVALID("there is no kernel file %s", name);
}

clave_status source_of_file(const cl_device *d, const char *stem, text *out) {
  text name = {0};
  text_printf(&name, "%s.cl", stem);
  clave_status st = text_status(&name);
  if (!st) st = append_file(d, name.data, 0, out);
  text_free(&name);
  return st ? st : text_status(out);
}

clave_status source_expand(const cl_device *d, const text *generated, text *out) {
  TRY(append_lines(d, generated->data, generated->size, 0, out));
  return text_status(out);
}
