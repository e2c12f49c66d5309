/* The program object: creation of an empty one, and destruction. */
#include "serialize/program.h"

#include <stdlib.h>

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

void program_destroy(program *program) {
  if (!program) return;
  tensor_file_destroy(program->tensors);
  program_drop_packed_weights(program);
  free(program->packed_weights);
  mem_pool_destroy(program->pool);
  mem_pool_destroy(program->data);
  memory_free(program->copied);
  for (size_t i = 0; i < sizeof program->maps / sizeof *program->maps; i++)
    file_map_close(&program->maps[i]);
  free(program);
}
