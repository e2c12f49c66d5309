/* The program object: creation of an empty one, and destruction. */
#include "serialize/program.h"

#include <stdlib.h>
#include <string.h>

#include "serialize/safetensors.h"

clave_status program_new(program **out) {
  program *program = calloc(1, sizeof *program);
  *out = program;
  if (!program) return status_no_memory();
  clave_status st = mem_pool_create(&program->pool);
  if (st) {
    program_destroy(program);
    *out = NULL;
  }
  return st;
}

clave_status program_add_file(program *program, program_file file) {
  if (array_reserve(&program->files, &program->cap_files, program->n_files + 1,
                    sizeof *program->files)) {
    program->files[program->n_files++] = file;
    return NULL;
  }
  file_map_close(&file.map);
  free(file.path);
  return status_no_memory();
}

clave_status program_open_file(program *program, const char *path) {
  program_file file = {.path = strdup(path)};
  if (!file.path) return status_no_memory();
  clave_status st = file_map_open(path, &file.map);
  if (!st) return program_add_file(program, file);
  free(file.path);
  return st;
}

void program_close_file(program *program) {
  program_file *file = &program->files[--program->n_files];
  file_map_close(&file->map);
  free(file->path);
}

void program_destroy(program *program) {
  if (!program) return;
  tensor_file_destroy(program->tensors);
  program_drop_packed_weights(program);
  free(program->packed_weights);
  mem_pool_destroy(program->pool);
  mem_pool_destroy(program->data);
  memory_free(program->copied);
  while (program->n_files) program_close_file(program);
  free(program->files);
  free(program);
}
