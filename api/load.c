/* Loads programs: files of clave's own formats, and models of other formats, which are imported. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_builder.h"
#include "clave_files.h"
#include "import/import.h"

/* Adds the files with its constants to a program. Frees the list. */
static clave_status keep_files(clave_program *program, import_file *files, size_t n) {
  clave_status st = NULL;
  for (size_t i = 0; i < n; i++) {
    const program_file file = {files[i].map, files[i].path};
    st = status_first(st, program_add_file(program->program, file));
  }
  free(files);
  return st;
}

/* Runs the passes on an imported program, which it holds. */
static clave_status optimize_imported(clave_program *imported, clave_program **out) {
  clave_status st = clave_program_optimize(imported, NULL, out);
  clave_program_destroy(imported);
  return st;
}

/* Imports a model. model: the mapped file, which the program then owns, or NULL. */
static clave_status load_imported(const import_source *source, program_file *model,
                                  clave_program **out) {
  clave_program *imported;
  import_file *files;
  size_t n_files;
  TRY(import_program(source, &imported, &files, &n_files));
  clave_status st = keep_files(imported, files, n_files);
  if (model) {
    st = status_first(st, program_add_file(imported->program, *model));
    *model = (program_file){0};
  }
  if (!st) st = program_check_files(imported->program);
  if (!st) return optimize_imported(imported, out);
  clave_program_destroy(imported);
  return st;
}

/* Imports the file if it has a format of an importer. *done: it has. */
static clave_status load_other_format(const char *path, const clave_program_options *options,
                                      bool *done, clave_program **out) {
  program_file model = {.path = strdup(path)};
  *done = false;
  if (!model.path) return status_no_memory();
  clave_status st = file_map_open(path, &model.map);
  if (st) { /* program_load reports it */
    status_free(st);
    free(model.path);
    return NULL;
  }
  const import_source source = {path,
                                model.map.data,
                                model.map.size,
                                options->max_context,
                                options->has_tokenizer,
                                options->kv,
                                options->prompt_piece};
  *done = import_accepts(path, source.bytes, source.size);
  if (*done) st = status_while(load_imported(&source, &model, out), "%s", path);
  if (model.path) file_map_close(&model.map);
  free(model.path);
  return st;
}

clave_status clave_program_load(const char *path, const clave_program_options *options,
                                clave_program **out) {
  OWN_FLOAT_ENV;
  clave_program_options known;
  program *program;
  bool done = false;
  *out = NULL;
  TRY(sized_read(options, &known, SIZED(clave_program_options, consts)));
  if (known.max_context < 0 || known.max_context > INT32_MAX)
    return INVALID("clave_program_options: max_context %lld", (long long)known.max_context);
  if (known.prompt_piece < 0 || known.prompt_piece > INT32_MAX)
    return INVALID("clave_program_options: prompt_piece %lld", (long long)known.prompt_piece);
  if (!known.consts) TRY(load_other_format(path, &known, &done, out));
  if (done) return NULL;
  TRY(program_load(path, known.consts, &program));
  if (!known.kv) return program_wrap(program, out);
  program_destroy(program);
  return INVALID("%s: kv: only the caches of a .gguf file can be chosen", path);
}

clave_status clave_program_load_clv(const void *clv, size_t size, const char *name,
                                    clave_program **out) {
  OWN_FLOAT_ENV;
  program *program;
  *out = NULL;
  TRY(program_load_bytes(clv, size, name, &program));
  return program_wrap(program, out);
}

clave_status clave_program_load_bytes(const void *bytes, size_t size, const char *name,
                                      clave_program **out) {
  OWN_FLOAT_ENV;
  const import_source source = {.bytes = bytes, .size = size};
  *out = NULL;
  if (import_accepts(NULL, bytes, size))
    return status_while(load_imported(&source, NULL, out), "%s", name);
  return clave_program_load_clv(bytes, size, name, out);
}

bool clave_import_op_at(uint32_t index, clave_import_op *out) {
  import_op op;
  if (!import_op_at(index, &op)) return false;
  const clave_import_op own = {sizeof own, op.format, op.domain, op.name, op.since};
  clave_status st = sized_write(&own, out, SIZED(clave_import_op, since));
  status_free(st);
  return !st;
}
