/* Messages between a process and its kernel builders. */
#include "backend/opencl/program/build_messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/process.h"

enum { TRANSFER_MS = 5000 };

/* Hashes everything that must be equal on both ends. */
static void library_version(uint64_t out[2]) {
  static const char version[] = CLAVE_VERSION;
  uint64_t all[6] = {sizeof(order), sizeof(greeting)};
  hash_bytes_128(version, sizeof version, all + 2);
  for (int i = 0; i < n_kernel_files; i++) {
    uint64_t file = hash_bytes(kernel_files[i].bytes, kernel_files[i].size);
    all[4] = hash_bytes((uint64_t[]){all[4], file}, 2 * sizeof file);
  }
  hash_bytes_128(all, sizeof all, out);
}

void build_greeting(const cl_device *opened, int device, greeting *out) {
  *out = (greeting){.device = device};
  library_version(out->version);
  memcpy(out->platform, opened->platform_key, sizeof out->platform);
}

bool message_send(int socket, message_kind kind, uint32_t number, const void *first,
                  size_t first_size, const void *second, size_t second_size) {
  message message = {.kind = kind, .number = number, .size = (uint32_t)(first_size + second_size)};
  return first_size + second_size <= MAX_ORDER_BYTES &&
         socket_send(socket, &message, sizeof message, TRANSFER_MS) &&
         socket_send(socket, first, first_size, TRANSFER_MS) &&
         socket_send(socket, second, second_size, TRANSFER_MS);
}

bool message_receive(int socket, int timeout_ms, message *note, char **payload) {
  *payload = NULL;
  *note = (message){0};
  if (socket_wait(&socket, 1, timeout_ms) < 0) return false;
  if (!socket_receive(socket, note, sizeof *note, TRANSFER_MS)) return false;
  if (note->kind < MESSAGE_GREETING || note->kind > MESSAGE_TRIAL || note->size > MAX_ORDER_BYTES)
    return false;
  *payload = malloc((size_t)note->size + 1);
  if (*payload && socket_receive(socket, *payload, note->size, TRANSFER_MS)) {
    (*payload)[note->size] = 0;
    return true;
  }
  free(*payload);
  *payload = NULL;
  return false;
}
