/* Buffers of the CPU backend: memory of the host. */
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct cpu_buffer {
  buffer base;
  void *data;
  bool owned;
} cpu_buffer;

static clave_status create_buffer(void *data, size_t bytes, bool owned, buffer **out) {
  *out = NULL;
  cpu_buffer *b = data ? calloc(1, sizeof *b) : NULL;
  if (!b) {
    if (owned) free(data);
    return status_no_memory();
  }
  b->base.bytes = bytes;
  b->data = data;
  b->owned = owned;
  *out = &b->base;
  return NULL;
}

clave_status cpu_buffer_create(backend *b, size_t bytes, buffer **out) {
  (void)b;
  return create_buffer(memory_alloc(bytes), bytes, true, out);
}

clave_status cpu_buffer_wrap(backend *b, const void *host, size_t bytes, bool writable,
                             buffer **out) {
  (void)writable;
  if (bytes == 0) return cpu_buffer_create(b, 0, out);
  return create_buffer((void *)(uintptr_t)host, bytes, false, out);
}

void cpu_buffer_destroy(backend *b, buffer *buf) {
  (void)b;
  if (!buf) return;
  cpu_buffer *c = (cpu_buffer *)buf;
  if (c->owned) free(c->data);
  free(c);
}

char *cpu_buffer_data(const buffer *b) { return ((const cpu_buffer *)b)->data; }
