#ifndef BACKEND_OPENCL_PROGRAM_CACHE_H
#define BACKEND_OPENCL_PROGRAM_CACHE_H
/* Kernel binaries on disk: one file per program, named by its key, in a folder that only this user
 * can write. Knows no device: listing and trimming work without one. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

/* The folder is kept below this by removing the least recently used. */
#define CACHE_LIMIT_BYTES ((uint64_t)512 << 20)

/* Makes the folder if missing; error if it cannot be made, or others may write into it. */
clave_status cache_open(const char *folder) STATUS_CHECK;

/* A binary as it lies in a file, with a list of numbers of the caller's. */
typedef struct cache_entry {
  file_map map; /* close with file_map_close; of entries to save, nothing */
  const uint8_t *data;
  size_t size;
  const uint64_t *proven; /* (n_proven) */
  uint32_t n_proven;
} cache_entry;
/* False: there is none, or (*damaged) it was broken and is removed. */
bool cache_load(const char *folder, const uint64_t key[2], cache_entry *out, bool *damaged);
/* Whether there is an entry, good or not. */
bool cache_has(const char *folder, const uint64_t key[2]);
/* As it lies in a file, of which `data` is a multiple of 8 bytes from where memory begins. False:
 * it is of another key, or damaged. */
bool cache_entry_read(const uint8_t *data, size_t size, const uint64_t key[2], cache_entry *out);
void cache_entry_append(text *to, const uint64_t key[2], const cache_entry *entry);
clave_status cache_save(const char *folder, const uint64_t key[2],
                        const cache_entry *entry) STATUS_CHECK;

#endif
