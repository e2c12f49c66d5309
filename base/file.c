/* Folders, paths and locks. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

/* ---------------------------------------------------------------- folders */

enum { MAX_DEPTH = 16, MIN_FREE_BYTES = 64 << 20 };

static clave_status file_make_folder(const char *path, unsigned mode) {
  if (mkdir(path, (mode_t)mode) == 0 || errno == EEXIST) return NULL;
  return file_error(path, errno);
}

clave_status make_folders(const char *path, unsigned mode) {
  char *copy = strdup(path);
  if (!copy) return status_no_memory();
  clave_status st = NULL;
  for (char *p = copy + 1; copy[0] && *p && !st; p++) {
    if (*p != '/') continue;
    *p = '\0';
    st = file_make_folder(copy, mode);
    *p = '/';
  }
  if (!st) st = file_make_folder(copy, mode);
  free(copy);
  if (!st && !folder_exists(path)) st = status_new(STATUS_IO, "%s: expected a folder", path);
  return st;
}

char *path_folder(const char *path) {
  const size_t name = path_last(path);
  return name ? strndup(path, name) : strdup(".");
}

char *path_join(const char *folder, const char *name) {
  size_t a = strlen(folder), b = strlen(name);
  bool slash = a > 0 && folder[a - 1] != '/';
  char *path = malloc(a + slash + b + 1);
  if (!path) return NULL;
  memcpy(path, folder, a);
  if (slash) path[a] = '/';
  memcpy(path + a + slash, name, b + 1);
  return path;
}

typedef struct listing {
  folder_entry *items; /* owned, with the names in it */
  size_t count, capacity;
} listing;

/* Adds `name` if it has that type (S_IFREG, S_IFDIR). Skips a file that has vanished. */
static clave_status file_add_entry(const char *folder, const char *name, mode_t type,
                                   listing *listing) {
  char *path = path_join(folder, name);
  if (!path) return status_no_memory();
  struct stat s;
  bool wanted = lstat(path, &s) == 0 && (s.st_mode & S_IFMT) == type;
  free(path);
  if (!wanted) return NULL;
  bool reserved = array_reserve(&listing->items, &listing->capacity, listing->count + 1,
                                sizeof *listing->items);
  char *copy = reserved ? strdup(name) : NULL;
  if (!copy) return status_no_memory();
  listing->items[listing->count++] = (folder_entry){
      copy, (uint64_t)s.st_size, (int64_t)s.st_mtim.tv_sec, (int64_t)s.st_atim.tv_sec};
  return NULL;
}

static int by_entry_name(const void *left, const void *right) {
  return strcmp(((const folder_entry *)left)->name, ((const folder_entry *)right)->name);
}

static clave_status list_type(const char *path, mode_t type, folder_entry **out, size_t *count) {
  *out = NULL;
  *count = 0;
  DIR *folder = opendir(path);
  if (!folder) return errno == ENOENT ? NULL : file_error(path, errno);
  clave_status st = NULL;
  listing listing = {0};
  for (struct dirent *e; !st && (e = readdir(folder));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      st = file_add_entry(path, e->d_name, type, &listing);
  (void)closedir(folder);
  if (listing.count) qsort(listing.items, listing.count, sizeof *listing.items, by_entry_name);
  if (st) {
    folder_list_free(listing.items, listing.count);
    return st;
  }
  *out = listing.items;
  *count = listing.count;
  return NULL;
}

clave_status folder_list(const char *path, folder_entry **out, size_t *count) {
  return list_type(path, S_IFREG, out, count);
}

clave_status folder_list_folders(const char *path, folder_entry **out, size_t *count) {
  return list_type(path, S_IFDIR, out, count);
}

void folder_list_free(folder_entry *entries, size_t count) {
  for (size_t i = 0; i < count; i++) free(entries[i].name);
  free(entries);
}

bool file_remove(const char *path) { return unlink(path) == 0; }

void file_touch(const char *path) { (void)utimensat(AT_FDCWD, path, NULL, 0); }

clave_status file_move(const char *from, const char *to) {
  return rename(from, to) == 0 ? NULL : file_error(to, errno);
}

bool file_exists(const char *path) {
  struct stat s;
  return lstat(path, &s) == 0;
}

bool file_is_special(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

bool folder_exists(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Adds up a tree's files. If `removes`, also removes files and subfolders. False if some remain. */
static bool visit_tree(const char *path, int depth, bool removes, uint64_t *bytes,
                       uint64_t *files) {
  folder_entry *entries;
  size_t n;
  clave_status st =
      depth < MAX_DEPTH ? folder_list_folders(path, &entries, &n) : status_no_memory();
  bool good = !st;
  for (size_t i = 0; !st && i < n; i++) {
    char *inner = path_join(path, entries[i].name);
    good = inner && visit_tree(inner, depth + 1, removes, bytes, files) && good;
    free(inner);
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
  st = folder_list(path, &entries, &n);
  for (size_t i = 0; !st && i < n; i++) {
    char *file = removes ? path_join(path, entries[i].name) : NULL;
    bool counts = !removes || (file && file_remove(file));
    free(file);
    if (!counts) continue;
    *bytes += entries[i].size;
    ++*files;
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
  return removes && depth > 0 ? rmdir(path) == 0 && good : good;
}

void folder_measure(const char *path, uint64_t *bytes, uint64_t *files) {
  *bytes = *files = 0;
  (void)visit_tree(path, 0, false, bytes, files);
}

bool folder_empty(const char *path, uint64_t *bytes) {
  uint64_t files = 0;
  *bytes = 0;
  return visit_tree(path, 0, true, bytes, &files);
}

bool folder_remove(const char *path, uint64_t *bytes) {
  const bool is_empty = folder_empty(path, bytes);
  return rmdir(path) == 0 && is_empty;
}

char *folder_create_unique(const char *parent, const char *stem) {
  text name = {0};
  text_printf(&name, "%s/%sXXXXXX", parent, stem);
  if (name.failed || !mkdtemp(name.data)) text_free(&name);
  return name.data;
}

bool folder_accepts_code(const char *path) {
  struct statvfs s;
  if (statvfs(path, &s) != 0 || (s.f_flag & (ST_NOEXEC | ST_RDONLY))) return false;
  return (uint64_t)s.f_bavail * s.f_frsize >= MIN_FREE_BYTES;
}

bool folder_is_private(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
         (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* ---------------------------------------------------------------- locks */

struct file_lock {
  int fd;
};

static bool wait_for_lock(int fd, int timeout_ms) {
  const struct timespec pause = {0, 2 * 1000 * 1000};
  for (int waited_ms = 0;; waited_ms += 2) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= timeout_ms) return false;
    (void)nanosleep(&pause, NULL);
  }
}

bool file_lock_take(const char *path, int timeout_ms, file_lock **out) {
  *out = NULL;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  file_lock *lock = wait_for_lock(fd, timeout_ms) ? malloc(sizeof *lock) : NULL;
  if (!lock) {
    (void)close(fd);
    return false;
  }
  lock->fd = fd;
  *out = lock;
  return true;
}

bool file_lock_is_held(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  (void)close(fd);
  return is_held;
}

void file_lock_release(file_lock *lock) {
  if (!lock) return;
  (void)close(lock->fd); /* closing the descriptor releases the lock */
  free(lock);
}
