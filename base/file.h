#ifndef BASE_FILE_H
#define BASE_FILE_H
/* Files: mapped for reading, written whole or not at all. The only user of mmap and rename. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* "PATH: no such file or directory", of an errno. */
clave_status file_error(const char *path, int error) STATUS_CHECK;

struct file_guard;
struct mapped_file;
typedef struct file_map {
  const uint8_t *data; /* page-aligned; NULL for an empty file */
  size_t size;
  struct file_guard *guard;  /* borrowed; NULL: the bytes are a copy */
  struct mapped_file *state; /* owned: the file as it was when it was opened; NULL likewise */
} file_map;

/* Maps a regular file read-only (private), or copies it if it is small. Errors name the path and
 * the reason. */
clave_status file_map_open(const char *path, file_map *out) STATUS_CHECK;
void file_map_close(file_map *map); /* takes a zeroed map */
/* Fails with IO if the file was cut short or could not be read since it was opened: zeros have
 * replaced the missing bytes and may have been read. Sets *changed (optional) if the file was
 * written to and may hold other bytes. Call it before and after the bytes are used. */
clave_status file_map_check(const file_map *map, const char *path, bool *changed) STATUS_CHECK;
void file_map_settle(const file_map *map); /* accepts the change that file_map_check reported */
void file_map_release(const file_map *map, size_t offset,
                      size_t size); /* the pages will not be needed soon */

/* Writes to a temporary file beside `path`; commit renames it into place (fsync not implied),
 * destroy without commit removes it. A path that is a character device or a pipe (/dev/stdout) is
 * written directly. */
typedef struct file_writer file_writer;
clave_status file_writer_create(const char *path, file_writer **out) STATUS_CHECK;
/* If the bytes are in a file_map whose file was cut short, a later commit fails. */
clave_status file_writer_append(file_writer *writer, const void *bytes, size_t n) STATUS_CHECK;
clave_status file_writer_pad(file_writer *writer,
                             size_t alignment) STATUS_CHECK; /* zero bytes up to a multiple */
size_t file_writer_size(const file_writer *writer);
/* What was appended is in the file: commit cannot fail for want of room. */
clave_status file_writer_flush(file_writer *writer) STATUS_CHECK;
bool file_writer_replaces(const file_writer *writer); /* false: it is written directly */
clave_status file_writer_commit(file_writer *writer) STATUS_CHECK;
void file_writer_destroy(file_writer *writer); /* takes NULL */

/* Like mkdir -p; the mode of new ones: the user's alone, or what the umask leaves of all. */
enum { FOLDERS_PRIVATE = 0700, FOLDERS_SHARED = 0777 };
clave_status make_folders(const char *path, unsigned mode) STATUS_CHECK;
/* Joins folder and name; a static-size result is not assumed. Caller frees; NULL when memory is
 * out. */
char *path_join(const char *folder, const char *name);
/* TMPDIR where that is an absolute path, else /tmp. */
const char *temporary_folder(void);

/* Exclusive lock of a file (created if absent), advisory, released by file_unlock. Returns false at
 * once if it cannot be had (unwritable folder), after waiting at most timeout_ms. */
typedef struct file_lock file_lock;
bool file_lock_take(const char *path, int timeout_ms, file_lock **out);
void file_lock_release(file_lock *lock); /* takes NULL */

/* One entry of a folder listing. */
typedef struct folder_entry {
  char *name; /* owned */
  uint64_t size;
  int64_t modified_s, accessed_s; /* seconds since the epoch */
} folder_entry;
/* Regular files of a folder, in no order; a missing folder is empty. Free with folder_list_free. */
clave_status folder_list(const char *path, folder_entry **out, size_t *count) STATUS_CHECK;
/* Folders of a folder, likewise. */
clave_status folder_list_folders(const char *path, folder_entry **out, size_t *count) STATUS_CHECK;
void folder_list_free(folder_entry *entries, size_t count);
/* Sizes of all files below a folder. */
void folder_measure(const char *path, uint64_t *bytes, uint64_t *files);
/* With all files and folders in it; links are not followed. False: something is left. bytes: of
 * what was removed. */
bool folder_remove(const char *path, uint64_t *bytes);
bool folder_empty(const char *path, uint64_t *bytes); /* likewise, all but itself */
/* A new folder in `parent`, mode 0700, its name beginning with `stem`. Its path, owned by the
 * caller; NULL: it could not be made. */
char *folder_create_unique(const char *parent, const char *stem);
/* Whether libraries can be written there and loaded: not mounted noexec or read-only, 64 MB free.
 */
bool folder_takes_code(const char *path);
bool file_remove(const char *path);
/* Within a file system; what is at `to` is replaced. */
clave_status file_move(const char *from, const char *to) STATUS_CHECK;
bool file_exists(const char *path); /* of any kind, a dangling link too */
bool folder_exists(const char *path);
bool file_is_special(const char *path); /* a device, a pipe, a socket */
/* Whether both lead to one regular file, which is there. */
bool file_is_same(const char *left, const char *right);
/* "m.clv" ends with ".clv", which itself does not. */
bool path_has_ending(const char *path, const char *ending);
/* True if the folder belongs to this user and nobody else may write into it. */
bool folder_is_private(const char *path);

/* A shared library opened at run time. */
typedef struct library library;
clave_status library_open(const char *name, library **out) STATUS_CHECK;
bool library_is_loaded(const char *name);                 /* by whoever */
void library_close(library *library);                     /* takes NULL */
void *library_symbol(library *library, const char *name); /* NULL if absent */

#endif
