#ifndef BASE_FILE_H
#define BASE_FILE_H
/* Files: mapped for reading, written completely or not at all. Only base/ uses mmap and rename. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Returns an error such as "PATH: no such file or directory" for an errno value. */
clave_status file_error(const char *path, int error) STATUS_CHECK;

struct file_guard;
struct mapped_file;
typedef struct file_map {
  const uint8_t *data; /* page-aligned; NULL for an empty file */
  size_t size;
  struct file_guard *guard;  /* borrowed; NULL for a copy */
  struct mapped_file *state; /* owned: the file when it was opened; NULL for a copy */
} file_map;

/* Maps a regular file read-only (private), or copies it if it is small. Errors name the path and
 * the reason. */
clave_status file_map_open(const char *path, file_map *out) STATUS_CHECK;
void file_map_close(file_map *map); /* accepts a zeroed map */
/* Fails with IO if the file was truncated or could not be read since it was opened: zeros have
 * replaced the missing bytes, and the caller may have read them. Sets *changed (optional) if the
 * file was written to and may hold other bytes. Call it before and after using the bytes. */
clave_status file_map_check(const file_map *map, const char *path, bool *changed) STATUS_CHECK;
/* True if the file has another size or time of writing than when it was opened. A writer that sets
 * the time back is not noticed. */
bool file_map_is_written(const file_map *map);
void file_map_settle(const file_map *map); /* accepts the change that file_map_check reported */
/* Tells the system that the whole pages within this range will not be needed soon. */
void file_map_release(const file_map *map, size_t offset, size_t size);

/* Writes to a temporary file beside `path`. Commit renames it into place (fsync not implied);
 * destroy without commit removes it. A path that is a character device or a pipe (/dev/stdout) is
 * written directly. */
typedef struct file_writer file_writer;
clave_status file_writer_create(const char *path, file_writer **out) STATUS_CHECK;
/* If the bytes are in a file_map whose file was truncated, a later commit fails. */
clave_status file_writer_append(file_writer *writer, const void *bytes, size_t n) STATUS_CHECK;
/* Appends zero bytes up to a multiple of `alignment`. */
clave_status file_writer_pad(file_writer *writer, size_t alignment) STATUS_CHECK;
size_t file_writer_size(const file_writer *writer);
/* Writes all appended bytes to the file, so that commit cannot fail for lack of space. */
clave_status file_writer_flush(file_writer *writer) STATUS_CHECK;
bool file_writer_replaces(const file_writer *writer); /* false if the path is written directly */
clave_status file_writer_commit(file_writer *writer) STATUS_CHECK;
void file_writer_destroy(file_writer *writer); /* accepts NULL */
/* Creates or replaces the file with these n bytes, all or none. */
clave_status file_write(const char *path, const void *bytes, size_t n) STATUS_CHECK;

/* Modes for make_folders, which works like mkdir -p: private to the user, or whatever the umask
 * permits. */
enum { FOLDERS_PRIVATE = 0700, FOLDERS_SHARED = 0777 };
clave_status make_folders(const char *path, unsigned mode) STATUS_CHECK;
/* Joins folder and name. The caller frees the result; NULL when memory is out. */
char *path_join(const char *folder, const char *name);

/* Locks a file exclusively (an advisory lock) and creates it if absent. Returns false if the lock
 * is still held elsewhere after timeout_ms, or at once if the file cannot be opened. */
typedef struct file_lock file_lock;
bool file_lock_take(const char *path, int timeout_ms, file_lock **out);
void file_lock_release(file_lock *lock);  /* accepts NULL */
bool file_lock_is_held(const char *path); /* by any process; false if the file cannot be read */

/* One entry of a folder listing. */
typedef struct folder_entry {
  char *name; /* owned */
  uint64_t size;
  int64_t modified_s, accessed_s; /* seconds since the epoch */
} folder_entry;
/* Lists the regular files of a folder, by name. A missing folder is empty. */
clave_status folder_list(const char *path, folder_entry **out, size_t *count) STATUS_CHECK;
/* Lists the subfolders of a folder in the same way. */
clave_status folder_list_folders(const char *path, folder_entry **out, size_t *count) STATUS_CHECK;
void folder_list_free(folder_entry *entries, size_t count);
/* Returns the number and total size of all files below a folder. */
void folder_measure(const char *path, uint64_t *bytes, uint64_t *files);
/* Removes a folder with everything in it; links are not followed. Returns false if something is
 * left. bytes: size of the removed files. */
bool folder_remove(const char *path, uint64_t *bytes);
bool folder_empty(const char *path, uint64_t *bytes); /* removes the contents but not the folder */
/* Creates a folder in `parent` with mode 0700 and a name that begins with `stem`. Returns its path,
 * owned by the caller, or NULL on failure. */
char *folder_create_unique(const char *parent, const char *stem);
/* True if libraries can be stored there and loaded: no noexec or read-only mount, 64 MB free. */
bool folder_accepts_code(const char *path);
bool file_remove(const char *path); /* returns false on failure */
void file_touch(const char *path);  /* sets the time of its last use to now; may fail */
/* Moves a file within a file system, replacing what is at `to`. */
clave_status file_move(const char *from, const char *to) STATUS_CHECK;
bool file_exists(const char *path); /* true for any kind of file, also a dangling link */
bool folder_exists(const char *path);
bool file_is_special(const char *path); /* true for a device, a pipe or a socket */
/* True if both paths lead to the same existing regular file. */
bool file_is_same(const char *left, const char *right);
/* True if the file is in the folder or below it, also after following links; true if it does not
 * exist. */
bool file_is_below(const char *path, const char *folder);
/* Returns the offset of the path's last component: 0 if the path has only one. */
size_t path_last(const char *path);
char *path_folder(const char *path); /* "." if the path has one component; the caller frees it */
/* True if path is longer than the ending and ends with it, as "m.clv" does with ".clv". */
bool path_has_ending(const char *path, const char *ending);
/* True if the folder belongs to this user and nobody else may write into it. */
bool folder_is_private(const char *path);

/* A shared library opened at run time. */
typedef struct library library;
/* Loads a library by its name or path. Fails with UNSUPPORTED and the loader's reason. */
clave_status library_open(const char *name, library **out) STATUS_CHECK;
bool library_is_loaded(const char *name); /* true if any code in the process loaded it */
void library_close(library *library);     /* accepts NULL */
void *library_symbol(library *library, const char *name); /* NULL if absent */
/* Returns a hash of the size and modification time of the file that contains the code at this
 * address, so an update of the file changes the hash; 0 if no file contains it. */
uint64_t library_stamp(const void *address);

#endif
