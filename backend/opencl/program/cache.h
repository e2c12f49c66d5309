#ifndef BACKEND_OPENCL_PROGRAM_CACHE_H
#define BACKEND_OPENCL_PROGRAM_CACHE_H
/* Kernel binaries on disk: one file per program, named by its key, in a folder that only this user
 * can write. These functions need no device. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

/* The folder is kept below this size by removing the least recently used binaries. */
#define CACHE_LIMIT_BYTES ((uint64_t)512 << 20)

/* Makes the folder if absent. Fails if it cannot be made, or if other users may write to it. */
clave_status cache_open(const char *folder) STATUS_CHECK;

/* Everything that a binary depends on, as hashes. A program's key is the hash of its origin. */
typedef struct cache_origin {
  uint64_t source[2], options[2];
  uint64_t platform[2]; /* cl_device.platform_key */
  uint64_t variant[4];  /* launch_variant */
  uint64_t more[2];     /* options of build_options */
} cache_origin;
void cache_key(const cache_origin *origin, uint64_t key[2]);

/* The lines of an entry's description. */
enum { ABOUT_PLATFORM, ABOUT_DEVICE, ABOUT_DRIVER, ABOUT_KERNEL, ABOUT_OPTIONS, ABOUT_LINES };

/* A binary as stored in a file, with its proven launch classes. Its size is 0 if the driver returns
 * no binary, or refuses the program. */
typedef struct cache_entry {
  file_map map; /* close with file_map_close; empty for entries to save */
  cache_origin origin;
  const char *about; /* (n_about) ABOUT_LINES lines for messages, each with its line end */
  size_t n_about;
  const uint8_t *data;
  size_t size;
  const uint64_t *proven; /* (n_proven) */
  uint32_t n_proven;
  uint64_t driver; /* cl_device.driver_stamp when the driver last accepted it */
} cache_entry;
/* Returns false if there is no entry, or if it was damaged and has been removed (*damaged). */
bool cache_load(const char *folder, const uint64_t key[2], cache_entry *out, bool *damaged);
/* True if there is a file of this key, valid or not. */
bool cache_has(const char *folder, const uint64_t key[2]);
/* True if there is a file of this key that was written with this driver stamp. */
bool cache_is_current(const char *folder, const uint64_t key[2], uint64_t driver);
void cache_remove(const char *folder, const uint64_t key[2]);
/* True if an entry in the file format has this key. It may be damaged. */
bool cache_entry_has_key(const uint8_t *data, size_t size, const uint64_t key[2]);
/* Reads an entry in the file format; `data` must be aligned to 8 bytes. Returns false if it is
 * damaged. */
bool cache_entry_read(const uint8_t *data, size_t size, cache_entry *out);
/* Copies a line of the description, truncated to `size`. */
void cache_entry_line(const cache_entry *entry, int line, char *out, size_t size);
void cache_entry_append(text *to, const cache_entry *entry);
clave_status cache_save(const char *folder, const cache_entry *entry) STATUS_CHECK;
/* Calls `visit` for each undamaged entry with a binary, ordered by name, until it fails. */
typedef clave_status (*cache_visit)(void *ctx, const cache_entry *entry);
clave_status cache_each(const char *folder, cache_visit visit, void *ctx) STATUS_CHECK;

#endif
