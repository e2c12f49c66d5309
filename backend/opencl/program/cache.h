#ifndef BACKEND_OPENCL_PROGRAM_CACHE_H
#define BACKEND_OPENCL_PROGRAM_CACHE_H
/* Kernel binaries on disk: one file per program, named by its key, in a folder that only this user
 * can write. Needs no device: listing and trimming work without one. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

/* The folder is kept below this size by removing the least recently used binaries. */
#define CACHE_LIMIT_BYTES ((uint64_t)512 << 20)

/* Makes the folder if it is missing. Fails if it cannot be made, or if others may write into it. */
clave_status cache_open(const char *folder) STATUS_CHECK;

/* A binary as stored in a file, with the hashes of its proven classes. */
typedef struct cache_entry {
  file_map map; /* close with file_map_close; empty for entries to save */
  const uint8_t *data;
  size_t size;
  const uint64_t *proven; /* (n_proven) */
  uint32_t n_proven;
} cache_entry;
/* Returns false if there is no entry, or if it was broken and has been removed (*damaged). */
bool cache_load(const char *folder, const uint64_t key[2], cache_entry *out, bool *damaged);
/* True if there is a file of this key, valid or not. */
bool cache_has(const char *folder, const uint64_t key[2]);
/* Reads an entry in the file format; `data` must be aligned to 8 bytes. Returns false if it has
 * another key or is damaged. */
bool cache_entry_read(const uint8_t *data, size_t size, const uint64_t key[2], cache_entry *out);
void cache_entry_append(text *to, const uint64_t key[2], const cache_entry *entry);
clave_status cache_save(const char *folder, const uint64_t key[2],
                        const cache_entry *entry) STATUS_CHECK;

#endif
