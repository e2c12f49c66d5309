/* Structs that begin with their size. */
#include "base/sized.h"

#include <string.h>

/* Sets *out to the number of bytes that both structs have. Fails with INVALID if the caller's is
 * too small. */
static clave_status common_size(const void *given, const sized_type *type, size_t *out) {
  size_t size;
  memcpy(&size, given, sizeof size);
  *out = size < type->size ? size : type->size;
  if (size >= type->first) return NULL;
  return INVALID("%s: size: expected sizeof(%s), %zu or more, got %zu", type->name, type->name,
                 type->first, size);
}

clave_status sized_read(const void *given, void *own, const sized_type *type) {
  size_t size = 0;
  memset(own, 0, type->size);
  if (given) {
    TRY(common_size(given, type, &size));
    memcpy(own, given, size);
  }
  memcpy(own, &type->size, sizeof type->size);
  return NULL;
}

clave_status sized_write(const void *own, void *given, const sized_type *type) {
  size_t size;
  TRY(common_size(given, type, &size));
  memcpy((char *)given + sizeof(size_t), (const char *)own + sizeof(size_t), size - sizeof(size_t));
  return NULL;
}
