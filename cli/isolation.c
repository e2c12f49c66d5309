/* The doctor's report on isolation: how the library passes new programs to drivers, and the
 * programs that it refuses because a driver did not survive them. */
#include "cli/isolation.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "json/fields.h"

static bool is_set_to(const char *value) {
  const char *set = getenv("CLAVE_ISOLATION");
  return set && strcmp(set, value) == 0;
}

static void write_how(json_writer *writer, const char *folder) {
  const char *how = "off", *why;
  char *helper = find_helper();
  if (is_set_to("off")) {
    why = "CLAVE_ISOLATION is off";
  } else if (helper) {
    how = "child processes";
    why = is_set_to("on") ? "CLAVE_ISOLATION is on" : "all drivers except PoCL";
  } else {
    how = folder ? "marks on disk" : "off";
    why = folder ? "no helper can be started" : "there is no helper and no cache folder";
  }
  emit_object(writer, "isolation");
  emit_string(writer, "how", how);
  emit_string(writer, "why", why);
  emit_end_object(writer);
  free(helper);
}

/* Writes one mark, unless its text lacks `device`. Its lines are the state, the kernel and the
 * reason.
 */
static void write_refused(json_writer *writer, const char *device, const char *lines, size_t size) {
  enum { LINES = 3 };
  char copy[LINES][512] = {{0}};
  for (int i = 0; i < LINES; i++) {
    const char *end = memchr(lines, '\n', size);
    size_t n = end ? (size_t)(end - lines) : size;
    memcpy(copy[i], lines, n < sizeof copy[i] ? n : sizeof copy[i] - 1);
    n += end != NULL;
    lines += n;
    size -= n;
  }
  const char *pending = "a process tries it, or has ended while the driver had it";
  if (!strstr(copy[1], device) || strcmp(copy[0], "accepted") == 0) return;
  emit_record(writer, NULL);
  emit_string(writer, "kernel", copy[1]);
  emit_string(writer, "reason", *copy[2] ? copy[2] : pending);
  emit_end_object(writer);
}

static void isolation_write_mark(json_writer *writer, const char *device, const char *folder,
                                 const char *name) {
  char *path = path_has_ending(name, ".mark") ? path_join(folder, name) : NULL;
  file_map map = {0};
  clave_status st = path ? file_map_open(path, &map) : NULL;
  if (!st && map.size) write_refused(writer, device, (const char *)map.data, map.size);
  status_free(st);
  file_map_close(&map);
  free(path);
}

/* Writes the marks of kernels whose description contains `device`. */
static void write_marks(json_writer *writer, const char *device, const char *folder) {
  folder_entry *entries = NULL;
  size_t n = 0;
  clave_status st = folder ? folder_list(folder, &entries, &n) : NULL;
  emit_array(writer, "refused_kernels");
  for (size_t i = 0; !st && i < n; i++)
    isolation_write_mark(writer, device, folder, entries[i].name);
  emit_end_array(writer);
  if (!st) folder_list_free(entries, n);
  status_free(st);
}

void isolation_write(json_writer *writer, const char *folder) {
  write_how(writer, folder);
  write_marks(writer, "", folder);
}

void isolation_write_device(json_writer *writer, const char *folder, const json *device) {
  const json *trusted = field_or_null(device, "trusted");
  const char *kind = text_or_null(device, "kind"), *name = text_or_null(device, "name"),
             *driver = text_or_null(device, "driver"), *how = "in this process";
  if (!kind || !name || !driver || strcmp(kind, "opencl") != 0) return;
  const bool is_trusted = trusted && json_is_true(trusted);
  char *helper = find_helper();
  if (!is_set_to("off") && (!is_trusted || is_set_to("on")))
    how = helper ? "in a child process" : folder ? "in this process, marked on disk" : how;
  free(helper);
  emit_string(writer, "first_contact", how);
  text described = {0};
  text_printf(&described, " on %s, driver %s (", name, driver);
  write_marks(writer, described.data ? described.data : "", folder);
  text_free(&described);
}
