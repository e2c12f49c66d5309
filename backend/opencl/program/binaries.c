/* Kernel binaries: of one program, and many packed in one block of memory. */
#include "backend/opencl/program/binaries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BINARY = 1 << 28 }; /* bytes; a larger binary is not kept */

/* ---------------------------------------------------------------- one program */

/* Sets *out to the index of the device's binary among those of a program. In a shared context, a
 * program from source has one per device; PoCL counts only devices that it was built for. */
static clave_status own_binary(const cl_device *device, cl_program handle, size_t count,
                               size_t *out) {
  cl_device_id ids[MAX_CONTEXT_DEVICES] = {NULL};
  *out = 0;
  if (count == 1) return NULL;
  CL_TRY(device->cl->clGetProgramInfo(handle, CL_PROGRAM_DEVICES, sizeof ids, ids, NULL),
         "clGetProgramInfo");
  while (*out + 1 < count && ids[*out] != device->entry->id) ++*out;
  return NULL;
}

clave_status binary_read(const cl_device *device, cl_program handle, unsigned char **data,
                         size_t *size) {
  size_t sizes[MAX_CONTEXT_DEVICES] = {0}, bytes = 0, own;
  unsigned char *all[MAX_CONTEXT_DEVICES] = {NULL};
  CL_TRY(device->cl->clGetProgramInfo(handle, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, &bytes),
         "clGetProgramInfo");
  const size_t count = bytes / sizeof sizes[0];
  if (!count || count > MAX_CONTEXT_DEVICES) return NULL;
  TRY(own_binary(device, handle, count, &own));
  *size = sizes[own] <= MAX_BINARY ? sizes[own] : 0;
  if (!*size) return NULL;
  *data = all[own] = malloc(*size);
  if (!*data) return status_no_memory();
  CL_TRY(
      device->cl->clGetProgramInfo(handle, CL_PROGRAM_BINARIES, count * sizeof all[0], all, NULL),
      "clGetProgramInfo");
  return NULL;
}

/* ---------------------------------------------------------------- packed */

/* Entries follow the header, each after its size and padded to a multiple of 8 bytes. */
typedef struct pack_header {
  char magic[8];
  uint64_t platform[2]; /* cl_device.platform_key */
  uint64_t size;        /* bytes after the header */
  char device[256];     /* name and driver, for messages */
} pack_header;
static const char magic[8] = "clvpack1";

static size_t padded(size_t n) { return (n + 7) / 8 * 8; }

bool binaries_next(const uint8_t *data, size_t size, size_t *at, const uint8_t **entry,
                   uint64_t *bytes) {
  if (size - *at < sizeof *bytes) return false;
  memcpy(bytes, data + *at, sizeof *bytes);
  const size_t left = size - *at - sizeof *bytes;
  if (*bytes > left || padded((size_t)*bytes) > left) return false;
  *entry = data + *at + sizeof *bytes;
  *at += sizeof *bytes + padded((size_t)*bytes);
  return true;
}

static clave_status check_pack(const uint8_t *data, size_t size) {
  pack_header header;
  const uint8_t *entry;
  uint64_t bytes;
  size_t at = sizeof header;
  if ((uintptr_t)data % 8) return INVALID("kernel binaries: expected data aligned to 8 bytes");
  if (size < sizeof header) return INVALID("kernel binaries: %zu bytes are too few", size);
  memcpy(&header, data, sizeof header);
  if (memcmp(header.magic, magic, sizeof magic) != 0)
    return INVALID("kernel binaries: the data are not kernel binaries of this version of clave");
  if (header.size != size - sizeof header || header.device[sizeof header.device - 1])
    return INVALID("kernel binaries: %zu bytes, but the header has another size", size);
  while (at < size)
    if (!binaries_next(data, size, &at, &entry, &bytes))
      return INVALID("kernel binaries: the entry at byte %zu exceeds the data", at);
  return NULL;
}

clave_status binaries_use(cl_device *device, const opencl_options *options) {
  if (!options->binaries) return NULL;
  TRY(check_pack(options->binaries, options->binaries_size));
  const pack_header *header = options->binaries;
  if (memcmp(header->platform, device->platform_key, sizeof header->platform) == 0) {
    device->binaries = options->binaries;
    device->binaries_size = options->binaries_size;
  } else {
    device_note(device,
                "the kernel binaries are for %s, not for this device, driver and processor, so "
                "kernels are built from their sources",
                header->device);
  }
  return NULL;
}

bool binaries_find(const cl_device *device, const uint64_t key[2], cache_entry *out) {
  const uint8_t *entry;
  uint64_t bytes;
  size_t at = sizeof(pack_header);
  while (device->binaries && at < device->binaries_size &&
         binaries_next(device->binaries, device->binaries_size, &at, &entry, &bytes))
    if (cache_entry_has_key(entry, (size_t)bytes, key) &&
        cache_entry_read(entry, (size_t)bytes, out))
      return true;
  return false;
}

void binaries_append(text *to, const cache_entry *entry) {
  static const char zeros[8];
  const size_t begin = to->size;
  uint64_t bytes = 0;
  text_append(to, (const char *)&bytes, sizeof bytes);
  cache_entry_append(to, entry);
  if (to->failed) return;
  bytes = to->size - begin - sizeof bytes;
  memcpy(to->data + begin, &bytes, sizeof bytes);
  text_append(to, zeros, padded((size_t)bytes) - (size_t)bytes);
}

clave_status binaries_write(const cl_device *device, const text *entries, file_writer *writer) {
  const backend_info *info = &device->base.info;
  pack_header header = {.size = entries->size};
  memcpy(header.magic, magic, sizeof magic);
  memcpy(header.platform, device->platform_key, sizeof header.platform);
  (void)snprintf(header.device, sizeof header.device, "%s, driver %s", info->name, info->driver);
  TRY(file_writer_append(writer, &header, sizeof header));
  if (entries->size) TRY(file_writer_append(writer, entries->data, entries->size));
  return file_writer_commit(writer);
}
