/* The program object: an empty one to be filled, and its end. */
#include "serialize/program.h"

#include <stdlib.h>

#include "serialize/safetensors.h"

clave_status program_new(program **out) {
  program *p = calloc(1, sizeof *p);
  *out = p;
  if (!p) return status_no_memory();
  clave_status st = mem_pool_create(&p->pool);
  if (st) {
    program_destroy(p);
    *out = NULL;
  }
  return st;
}

void program_destroy(program *p) {
  if (!p) return;
  tensor_file_destroy(p->tensors);
  program_drop_forms(p);
  free(p->forms);
  mem_pool_destroy(p->pool);
  mem_pool_destroy(p->data);
  free(p->copied);
  for (size_t i = 0; i < sizeof p->maps / sizeof *p->maps; i++) file_map_close(&p->maps[i]);
  free(p);
}
