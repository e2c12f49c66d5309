/* Kernel source text from the embedded files or the device's kernel folder. Includes are expanded
 * and other kernels removed, because some drivers compile every kernel of a program. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/program.h"
#include "base/file.h"

enum { MAX_INCLUDE_DEPTH = 6 };

static clave_status append_file(const kernel_request *kernel, const char *name, int depth,
                                text *out);

/* Extracts the name from a line `#include "name"`. Returns false for other lines. */
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

static bool begins_with(const char *line, size_t n, const char *head) {
  size_t h = strlen(head);
  return n >= h && memcmp(line, head, h) == 0;
}

/* embed.py ensures that all kernel heads begin with this text and end at a line end, and that a
 * kernel ends with a line that is a closing brace. */
static const char kernel_head[] = "__kernel void ";

/* True if the kernel that begins on this line has the name `kernel`. */
static bool begins_kernel(const char *line, size_t n, const char *kernel) {
  line += sizeof kernel_head - 1, n -= sizeof kernel_head - 1;
  return n > strlen(kernel) && begins_with(line, n, kernel) && line[strlen(kernel)] == '(';
}

static bool ends_head(const char *line, size_t n) {
  static const char end[] = ") {\n";
  return n >= sizeof end - 1 && memcmp(line + n - (sizeof end - 1), end, sizeof end - 1) == 0;
}

/* The place of a line: in copied text, the requested kernel's head, or another kernel. */
typedef enum line_place { IN_FILE, IN_HEAD, IN_OTHER_KERNEL } line_place;

/* Appends a file's lines. Drops all kernels except the requested one, whose head args_write_head
 * replaces. */
static clave_status append_lines(const kernel_request *kernel, const char *bytes, size_t size,
                                 int depth, text *out) {
  char name[64];
  line_place place = IN_FILE;
  for (size_t at = 0, n; at < size; at += n) {
    const char *line = bytes + at, *end = memchr(line, '\n', size - at);
    n = end ? (size_t)(end - line) + 1 : size - at;
    if (begins_with(line, n, kernel_head)) {
      place = begins_kernel(line, n, kernel->signature->kernel) ? IN_HEAD : IN_OTHER_KERNEL;
      if (place == IN_HEAD) args_write_head(out, kernel->signature, kernel->group);
    }
    if (included_name(line, n, name, sizeof name))
      TRY(append_file(kernel, name, depth + 1, out));
    else if (place == IN_FILE)
      text_append(out, line, n);
    if (place == IN_HEAD ? ends_head(line, n) : begins_with(line, n, "}\n")) place = IN_FILE;
  }
  text_append(out, "\n", 1);
  return NULL;
}

/* Returns the embedded file of that name, or NULL. */
static const kernel_file *find_file(const char *name) {
  for (int i = 0; i < n_kernel_files; i++)
    if (strcmp(kernel_files[i].name, name) == 0) return &kernel_files[i];
  return NULL;
}

/* Appends a file of the kernel folder. place: its name there, or its path as in kernels_cl. */
static clave_status append_from_folder(const kernel_request *kernel, const char *place, int depth,
                                       text *out) {
  char *path = path_join(kernel->device->kernel_dir, place);
  if (!path) return status_no_memory();
  file_map map;
  clave_status st = file_map_open(path, &map);
  free(path);
  if (st) return status_while(st, "kernel file %s", place);
  st = append_lines(kernel, (const char *)map.data, map.size, depth, out);
  file_map_close(&map);
  return st;
}

static bool is_header(const char *name) {
  const char *end = strrchr(name, '.');
  return end && strcmp(end, ".h") == 0;
}

/* Appends a file of the kernel folder, else the embedded one. Some headers are from base/. */
static clave_status append_file(const kernel_request *kernel, const char *name, int depth,
                                text *out) {
  if (depth > MAX_INCLUDE_DEPTH) return INVALID("kernel file %s is included too deeply", name);
  const kernel_file *file = find_file(name);
  if (kernel->device->kernel_dir) {
    clave_status st = append_from_folder(kernel, name, depth, out);
    if (file && strcmp(file->path, name) != 0 && status_code_of(st) == STATUS_IO) {
      status_free(st);
      st = append_from_folder(kernel, file->path, depth, out);
    }
    if (!is_header(name) || status_code_of(st) != STATUS_IO) return st;
    status_free(st);
  }
  if (file) return append_lines(kernel, (const char *)file->bytes, file->size, depth, out);
  return INVALID("unknown kernel file %s", name);
}

static clave_status append_header(const kernel_request *kernel, text *out) {
  return kernel->header ? append_file(kernel, kernel->header, 0, out) : NULL;
}

clave_status source_of_kernel(const kernel_request *kernel, text *out) {
  text name = {0};
  text_printf(&name, "%s.cl", kernel->signature->stem);
  clave_status st = text_status(&name);
  if (!st) st = append_header(kernel, out);
  if (!st) st = append_file(kernel, name.data, 0, out);
  text_free(&name);
  return st ? st : text_status(out);
}

clave_status source_expand(const kernel_request *kernel, const text *generated, text *out) {
  TRY(append_header(kernel, out));
  TRY(append_lines(kernel, generated->data, generated->size, 0, out));
  return text_status(out);
}
