/* What went into a compiled program. */
#include "compile/sbom.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/sha256.h"
#include "json/writer.h"

#define OUR_LICENCE "MIT"

static void write_hash(json_writer *j, const void *bytes, size_t n) {
  char hex[SHA256_TEXT];
  sha256 h;
  sha256_begin(&h);
  sha256_add(&h, bytes, n);
  sha256_end(&h, hex);
  emit_array(j, "hashes");
  emit_record(j, NULL);
  emit_string(j, "alg", "SHA-256");
  emit_string(j, "content", hex);
  emit_end_object(j);
  emit_end_array(j);
}

static clave_status write_path_hash(json_writer *j, const char *path) {
  file_map m;
  TRY(file_map_open(path, &m));
  write_hash(j, m.data, m.size);
  file_map_close(&m);
  return NULL;
}

static clave_status write_file_hash(json_writer *j, const char *folder, const char *name) {
  char *path = path_join(folder, name);
  clave_status st = path ? write_path_hash(j, path) : status_no_memory();
  free(path);
  return st;
}

static void begin_component(json_writer *j, const char *key, const char *type, const char *name) {
  emit_object(j, key);
  emit_string(j, "type", type);
  emit_string(j, "name", name);
}

static void write_licence(json_writer *j, const char *id) {
  emit_array(j, "licenses");
  emit_object(j, NULL);
  emit_object(j, "license");
  emit_string(j, "id", id);
  emit_end_object(j);
  emit_end_object(j);
  emit_end_array(j);
}

static void write_property(json_writer *j, const char *name, const char *value) {
  emit_record(j, NULL);
  emit_string(j, "name", name);
  emit_string(j, "value", value);
  emit_end_object(j);
}

static clave_status write_flags(json_writer *j, const char *name, const char *const *flags) {
  text t = {0};
  for (; *flags; flags++) text_printf(&t, "%s%s", t.size ? " " : "", *flags);
  clave_status st = text_status(&t);
  if (!st) write_property(j, name, t.data);
  text_free(&t);
  return st;
}

/* ---------------------------------------------------------------- the document */

/* SOURCE_DATE_EPOCH, in seconds, as others that build reproducibly read it; "": it is not set. */
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

static clave_status write_time(json_writer *j) {
  char written[32];
  TRY(read_time(written));
  if (*written) emit_string(j, "timestamp", written);
  return NULL;
}

clave_status sbom_check(const compile_options *o) {
  char written[32];
  file_writer *w = NULL;
  if (!o->sbom) return NULL;
  TRY(read_time(written));
  clave_status st = file_writer_create(o->sbom, &w);
  file_writer_destroy(w);
  return st;
}

static void write_tools(json_writer *j, const char *compiler) {
  emit_object(j, "tools");
  emit_array(j, "components");
  begin_component(j, NULL, "application", "clave");
  emit_string(j, "version", CLAVE_VERSION);
  write_licence(j, OUR_LICENCE);
  emit_end_object(j);
  if (compiler) {
    begin_component(j, NULL, "application", "C compiler");
    emit_string(j, "version", compiler);
    emit_end_object(j);
  }
  emit_end_array(j);
  emit_end_object(j);
}

static clave_status write_metadata(json_writer *j, const project *k, const compile_options *o,
                                   const char *made, const char *compiler) {
  const char *compile[MOST_FLAGS], *link[MOST_FLAGS];
  project_compile_flags(k, o, compile);
  project_link_flags(k, o, link);
  emit_object(j, "metadata");
  TRY(write_time(j));
  write_tools(j, compiler);
  begin_component(j, "component", o->library ? "library" : "application", o->name);
  if (made) TRY(write_file_hash(j, k->folder, made));
  emit_array(j, "properties");
  if (made) write_property(j, "clave:compiler", o->compiler);
  TRY(write_flags(j, "clave:compile-flags", compile));
  TRY(write_flags(j, "clave:link-flags", link));
  emit_end_array(j);
  emit_end_object(j);
  emit_end_object(j);
  return NULL;
}

/* The program as it was read; of a text the constants alone are bytes that stay. */
static void write_program(json_writer *j, const program *p, const char *name) {
  const file_map *m = p->maps[0].data ? &p->maps[0] : &p->maps[1];
  begin_component(j, NULL, "machine-learning-model", name);
  if (m->data) write_hash(j, m->data, m->size);
  emit_end_object(j);
}

static clave_status write_linked(json_writer *j, const char *path, const char *licence) {
  begin_component(j, NULL, "library", strrchr(path, '/') + 1);
  TRY(write_path_hash(j, path));
  write_licence(j, licence);
  emit_end_object(j);
  return NULL;
}

/* The archives that went in; shared libraries (-lNAME) are the host's where it runs. */
static clave_status write_archives(json_writer *j, const project *k) {
  for (int i = 0; i < 2 && k->archives[i]; i++) TRY(write_linked(j, k->archives[i], OUR_LICENCE));
  for (int i = 0; k->libs[i]; i++)
    if (*k->libs[i] == '/') TRY(write_linked(j, k->libs[i], host_libraries[i].licence));
  return NULL;
}

static clave_status write_components(json_writer *j, const project *k, const program *p,
                                     const compile_options *o) {
  emit_array(j, "components");
  write_program(j, p, o->name);
  for (size_t i = 0; i < k->n_files; i++) {
    begin_component(j, NULL, "file", k->files[i].path);
    TRY(write_file_hash(j, k->folder, k->files[i].path));
    if (k->files[i].is_ours) write_licence(j, OUR_LICENCE);
    emit_end_object(j);
  }
  TRY(write_archives(j, k));
  emit_end_array(j);
  return NULL;
}

static clave_status write_document(json_writer *j, const project *k, const program *p,
                                   const compile_options *o, const char *made,
                                   const char *compiler) {
  emit_object(j, NULL);
  emit_string(j, "bomFormat", "CycloneDX");
  emit_string(j, "specVersion", "1.5");
  emit_integer(j, "version", 1);
  TRY(write_metadata(j, k, o, made, compiler));
  TRY(write_components(j, k, p, o));
  emit_end_object(j);
  return NULL;
}

clave_status sbom_write(const project *k, const program *p, const compile_options *o,
                        const char *made, const char *compiler, file_writer **out) {
  text t = {0};
  *out = NULL;
  json_writer j = {.out = &t};
  clave_status st = write_document(&j, k, p, o, made, compiler);
  if (!st) st = text_status(&t);
  if (!st) st = file_writer_create(o->sbom, out);
  if (!st) st = file_writer_append(*out, t.data, t.size);
  text_free(&t);
  return st;
}
