/* The CPU backend's buffers, which are host memory. */
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct cpu_buffer {
  buffer base;
  void *data;
  bool owned;
} cpu_buffer;

static clave_status make_cpu_buffer(void *data, size_t bytes, bool owned, buffer **out) {
  *out = NULL;
  cpu_buffer *memory = data ? calloc(1, sizeof *memory) : NULL;
  if (!memory) {
    if (owned) memory_free(data);
    return status_no_memory();
  }
  memory->base.bytes = bytes;
  memory->data = data;
  memory->owned = owned;
  *out = &memory->base;
  return NULL;
}

clave_status cpu_buffer_create(backend *backend, size_t bytes, buffer **out) {
  (void)backend;
  return make_cpu_buffer(memory_alloc(bytes), bytes, true, out);
}

clave_status cpu_buffer_wrap(backend *backend, const void *host, size_t bytes, bool writable,
                             buffer **out) {
  (void)writable;
  if (bytes == 0) return cpu_buffer_create(backend, 0, out);
  return make_cpu_buffer((void *)(uintptr_t)host, bytes, false, out);
}

void cpu_buffer_destroy(backend *backend, buffer *buf) {
  (void)backend;
  if (!buf) return;
  cpu_buffer *memory = (cpu_buffer *)buf;
  if (memory->owned) memory_free(memory->data);
  free(memory);
}

char *cpu_buffer_data(const buffer *buffer) { return ((const cpu_buffer *)buffer)->data; }
