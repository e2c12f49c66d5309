/* Writes the software bill of materials of a compiled program. */
#include "compile/sbom.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/sha256.h"
#include "json/writer.h"

#define OUR_LICENCE "MIT"

static void write_hash(json_writer *writer, const void *bytes, size_t n) {
  char hex[SHA256_TEXT];
  sha256 sha256;
  sha256_begin(&sha256);
  sha256_add(&sha256, bytes, n);
  sha256_end(&sha256, hex);
  emit_array(writer, "hashes");
  emit_record(writer, NULL);
  emit_string(writer, "alg", "SHA-256");
  emit_string(writer, "content", hex);
  emit_end_object(writer);
  emit_end_array(writer);
}

static clave_status write_path_hash(json_writer *writer, const char *path) {
  file_map map;
  TRY(file_map_open(path, &map));
  write_hash(writer, map.data, map.size);
  file_map_close(&map);
  return NULL;
}

static clave_status write_file_hash(json_writer *writer, const char *folder, const char *name) {
  char *path = path_join(folder, name);
  clave_status st = path ? write_path_hash(writer, path) : status_no_memory();
  free(path);
  return st;
}

static void begin_component(json_writer *writer, const char *key, const char *type,
                            const char *name) {
  emit_object(writer, key);
  emit_string(writer, "type", type);
  emit_string(writer, "name", name);
}

static void write_licence(json_writer *writer, const char *id) {
  emit_array(writer, "licenses");
  emit_object(writer, NULL);
  emit_object(writer, "license");
  emit_string(writer, "id", id);
  emit_end_object(writer);
  emit_end_object(writer);
  emit_end_array(writer);
}

static void write_property(json_writer *writer, const char *name, const char *value) {
  emit_record(writer, NULL);
  emit_string(writer, "name", name);
  emit_string(writer, "value", value);
  emit_end_object(writer);
}

static clave_status write_flags(json_writer *writer, const char *name, const char *const *flags) {
  text text = {0};
  for (; *flags; flags++) text_printf(&text, "%s%s", text.size ? " " : "", *flags);
  clave_status st = text_status(&text);
  if (!st) write_property(writer, name, text.data);
  text_free(&text);
  return st;
}

/* ---------------------------------------------------------------- the document */

/* Formats SOURCE_DATE_EPOCH (seconds), the convention of reproducible builds; "" if it is not set.
 */
static clave_status read_time(char written[32]) {
  const char *given = getenv("SOURCE_DATE_EPOCH");
  char *end;
  struct tm t;
  written[0] = '\0';
  if (!given || !*given) return NULL;
  errno = 0;
  const long long seconds = strtoll(given, &end, 10);
  const time_t at = (time_t)seconds;
  if (*end || errno || seconds < 0 || seconds > 253402300799 || !gmtime_r(&at, &t))
    return INVALID("SOURCE_DATE_EPOCH: expected seconds since 1970, got '%s'", given);
  (void)strftime(written, 32, "%Y-%m-%dT%H:%M:%SZ", &t);
  return NULL;
}

static clave_status write_time(json_writer *writer) {
  char written[32];
  TRY(read_time(written));
  if (*written) emit_string(writer, "timestamp", written);
  return NULL;
}

clave_status sbom_check(const compile_options *options) {
  char written[32];
  file_writer *writer = NULL;
  if (!options->sbom) return NULL;
  TRY(read_time(written));
  clave_status st = file_writer_create(options->sbom, &writer);
  file_writer_destroy(writer);
  return st;
}

static void write_tools(json_writer *writer, const char *compiler) {
  emit_object(writer, "tools");
  emit_array(writer, "components");
  begin_component(writer, NULL, "application", "clave");
  emit_string(writer, "version", CLAVE_VERSION);
  write_licence(writer, OUR_LICENCE);
  emit_end_object(writer);
  if (compiler) {
    begin_component(writer, NULL, "application", "C compiler");
    emit_string(writer, "version", compiler);
    emit_end_object(writer);
  }
  emit_end_array(writer);
  emit_end_object(writer);
}

static clave_status sbom_write_metadata(json_writer *writer, const project *project,
                                        const compile_options *options, const char *made,
                                        const char *compiler) {
  const char *compile[MAX_FLAGS], *link[MAX_FLAGS];
  project_compile_flags(project, options, compile);
  project_link_flags(project, options, link);
  emit_object(writer, "metadata");
  TRY(write_time(writer));
  write_tools(writer, compiler);
  begin_component(writer, "component", options->library ? "library" : "application", options->name);
  if (made) TRY(write_file_hash(writer, project->folder, made));
  emit_array(writer, "properties");
  if (made) write_property(writer, "clave:compiler", options->compiler);
  TRY(write_flags(writer, "clave:compile-flags", compile));
  TRY(write_flags(writer, "clave:link-flags", link));
  emit_end_array(writer);
  emit_end_object(writer);
  emit_end_object(writer);
  return NULL;
}

/* Writes the name and hash of the program's file as it was read. For a .json program, this is the
 * file of constants, because only this file is still mapped. */
static void sbom_write_program(json_writer *writer, const program *program, const char *name) {
  const file_map *map = program->n_files ? &program->files[0].map : NULL;
  begin_component(writer, NULL, "machine-learning-model", name);
  if (map && map->data) write_hash(writer, map->data, map->size);
  emit_end_object(writer);
}

static clave_status write_linked(json_writer *writer, const char *path, const char *licence) {
  begin_component(writer, NULL, "library", strrchr(path, '/') + 1);
  TRY(write_path_hash(writer, path));
  write_licence(writer, licence);
  emit_end_object(writer);
  return NULL;
}

/* Lists the linked archives; shared libraries (-lNAME) belong to the host. */
static clave_status write_archives(json_writer *writer, const project *project) {
  for (int i = 0; i < 2 && project->archives[i]; i++)
    TRY(write_linked(writer, project->archives[i], OUR_LICENCE));
  for (int i = 0; project->libs[i]; i++)
    if (*project->libs[i] == '/')
      TRY(write_linked(writer, project->libs[i], host_libraries[i].licence));
  return NULL;
}

static clave_status write_components(json_writer *writer, const project *project,
                                     const program *program, const compile_options *options) {
  emit_array(writer, "components");
  sbom_write_program(writer, program, options->name);
  for (size_t i = 0; i < project->n_files; i++) {
    begin_component(writer, NULL, "file", project->files[i].path);
    TRY(write_file_hash(writer, project->folder, project->files[i].path));
    if (project->files[i].is_ours) write_licence(writer, OUR_LICENCE);
    emit_end_object(writer);
  }
  TRY(write_archives(writer, project));
  emit_end_array(writer);
  return NULL;
}

static clave_status write_document(json_writer *writer, const project *project,
                                   const program *program, const compile_options *options,
                                   const char *made, const char *compiler) {
  emit_object(writer, NULL);
  emit_string(writer, "bomFormat", "CycloneDX");
  emit_string(writer, "specVersion", "1.5");
  emit_integer(writer, "version", 1);
  TRY(sbom_write_metadata(writer, project, options, made, compiler));
  TRY(write_components(writer, project, program, options));
  emit_end_object(writer);
  return NULL;
}

clave_status sbom_write(const project *project, const program *program,
                        const compile_options *options, const char *made, const char *compiler,
                        file_writer **out) {
  text text = {0};
  *out = NULL;
  json_writer writer = {.out = &text};
  clave_status st = write_document(&writer, project, program, options, made, compiler);
  if (!st) st = text_status(&text);
  if (!st) st = file_writer_create(options->sbom, out);
  if (!st) st = file_writer_append(*out, text.data, text.size);
  text_free(&text);
  return st;
}
