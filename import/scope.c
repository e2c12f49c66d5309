/* Begins imports and bodies, and ends bodies: what was computed in a body is not visible after it.
 */
#include <stdlib.h>

#include "import/number.h"

clave_status importer_create(importer **out) {
  *out = NULL;
  importer *im = calloc(1, sizeof *im);
  if (!im) return status_no_memory();
  clave_status st = mem_pool_create(&im->pool);
  if (!st) st = clave_builder_create(&im->builder);
  if (!st) st = numbers_create(im);
  if (st) {
    importer_destroy(im);
    return st;
  }
  im->node = "";
  *out = im;
  return NULL;
}

clave_id import_begin_body(importer *im, const char *name, const clave_id *args, uint32_t n) {
  if (im->depth + 1 == MAX_BODY_DEPTH) {
    import_invalid(im, "bodies are nested deeper than %d", MAX_BODY_DEPTH - 1);
    return 0;
  }
  im->scopes[++im->depth] = ++im->n_scopes;
  return clave_builder_body(im->builder, name, args, n);
}

void import_end_body(importer *im, const clave_id *results, uint32_t n) {
  clave_builder_end_body(im->builder, results, n);
  im->depth--;
  numbers_leave(im);
}
