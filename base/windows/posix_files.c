/* POSIX functions for files on Windows. */
#include <stdarg.h>
#include <stdbool.h>
#include <windows.h>

#include "base/windows/wide.h"

#undef open
#undef fopen
#undef read
#undef write
#undef fstat
#undef stat

/* A function on a path in UTF-16, called by with_path. Returns -1 on failure. */
typedef int (*path_function)(const wchar_t *path, int extra);
static int with_path(const char *path, path_function function, int extra) {
  wchar_t *wide = wide_of(path);
  if (!wide) return -1;
  const int result = function(wide, extra);
  free(wide);
  return result;
}

/* Sets errno from the last error of Windows and returns -1, or returns 0 if good. */
static int result_of(bool good) {
  if (good) return 0;
  errno = errno_of(GetLastError());
  return -1;
}

/* ---------------------------------------------------------------- open, read, write */

/* Opens the file. As on other systems, others may rename or remove it while it is open. */
static int open_wide(const wchar_t *path, int flags) {
  const int how = flags & (O_RDONLY | O_WRONLY | O_RDWR);
  const DWORD access = how == O_RDONLY   ? GENERIC_READ
                       : how == O_WRONLY ? GENERIC_WRITE
                                         : GENERIC_READ | GENERIC_WRITE;
  const DWORD creation = !(flags & O_CREAT) ? (flags & O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING)
                         : flags & O_EXCL   ? CREATE_NEW
                         : flags & O_TRUNC  ? CREATE_ALWAYS
                                            : OPEN_ALWAYS;
  HANDLE file = CreateFileW(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                            NULL, creation, FILE_ATTRIBUTE_NORMAL, NULL);
  if (file == INVALID_HANDLE_VALUE) {
    /* Windows refuses to open a folder; reading one fails with this error on other systems. */
    const DWORD attributes = GetFileAttributesW(path);
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY)) {
      errno = EISDIR;
      return -1;
    }
    return result_of(false);
  }
  const int fd = _open_osfhandle((intptr_t)file, _O_BINARY | _O_NOINHERIT | how);
  if (fd < 0) (void)CloseHandle(file);
  return fd;
}

int posix_open(const char *path, int flags, ...) {
  return with_path(strcmp(path, "/dev/null") == 0 ? "NUL" : path, open_wide, flags);
}

FILE *posix_fopen(const char *path, const char *mode) {
  const bool writes = *mode != 'r';
  const int flags = writes ? O_WRONLY | O_CREAT | (*mode == 'w' ? O_TRUNC : 0) : O_RDONLY;
  const int fd = posix_open(path, flags, 0666);
  FILE *file = fd < 0 ? NULL : _fdopen(fd, writes ? "wb" : "rb");
  if (fd >= 0 && !file) (void)_close(fd);
  return file;
}

enum { MAX_AT_ONCE = 1 << 30 };

ssize_t posix_read(int fd, void *bytes, size_t n) {
  return _read(fd, bytes, (unsigned)(n < MAX_AT_ONCE ? n : MAX_AT_ONCE));
}

ssize_t posix_write(int fd, const void *bytes, size_t n) {
  return _write(fd, bytes, (unsigned)(n < MAX_AT_ONCE ? n : MAX_AT_ONCE));
}

ssize_t pread(int fd, void *bytes, size_t n, off_t offset) {
  DWORD got = 0;
  OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
  const DWORD size = (DWORD)(n < MAX_AT_ONCE ? n : MAX_AT_ONCE);
  const bool good = ReadFile((HANDLE)_get_osfhandle(fd), bytes, size, &got, &at);
  if (!good && GetLastError() == ERROR_HANDLE_EOF) return 0;
  return result_of(good) ? -1 : (ssize_t)got;
}

int fcntl(int fd, int what, ...) {
  if (what == F_DUPFD_CLOEXEC) return _dup(fd);
  if (_get_osfhandle(fd) >= 0) return 0;
  errno = EBADF;
  return -1;
}

/* ---------------------------------------------------------------- names */

int posix_access(const char *path, int mode) {
  return with_path(path, _waccess, mode & ~X_OK); /* Windows has no such permission */
}

static int unlink_wide(const wchar_t *path, int extra) {
  (void)extra;
  return result_of(DeleteFileW(path));
}
int posix_unlink(const char *path) { return with_path(path, unlink_wide, 0); }

static int rmdir_wide(const wchar_t *path, int extra) {
  (void)extra;
  return result_of(RemoveDirectoryW(path));
}
int posix_rmdir(const char *path) { return with_path(path, rmdir_wide, 0); }

static int mkdir_wide(const wchar_t *path, int extra) {
  (void)extra;
  const bool good = CreateDirectoryW(path, NULL);
  const DWORD attributes = GetFileAttributesW(path); /* mkdir of a drive is denied */
  if (!good && attributes != INVALID_FILE_ATTRIBUTES) SetLastError(ERROR_ALREADY_EXISTS);
  return result_of(good);
}
int posix_mkdir(const char *path, mode_t mode) { return with_path(path, mkdir_wide, (int)mode); }

int posix_rename(const char *from, const char *to) {
  wchar_t *wide_from = wide_of(from), *wide_to = wide_of(to);
  const bool is_wide = wide_from && wide_to;
  const int result =
      is_wide ? result_of(MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING)) : -1;
  free(wide_from);
  free(wide_to);
  return result;
}

char *mkdtemp(char *template) {
  char *ending = template + strlen(template) - 6;
  for (int i = 0; i < 1000; i++) {
    LARGE_INTEGER ticks;
    (void)QueryPerformanceCounter(&ticks);
    uint64_t seed =
        (uint64_t)ticks.QuadPart * 0x9E3779B97F4A7C15u + GetCurrentProcessId() + (unsigned)i;
    for (int k = 0; k < 6; k++, seed /= 26) ending[k] = (char)('a' + (seed >> 8) % 26);
    if (posix_mkdir(template, 0700) == 0) return template;
    if (errno != EEXIST) return NULL;
  }
  return NULL;
}

char *realpath(const char *path, char *out) {
  wchar_t *wide = wide_of(path), *whole = NULL;
  struct posix_stat info;
  if (wide && posix_stat(path, &info) == 0) whole = _wfullpath(NULL, wide, 0);
  char *text = whole ? utf8_of(whole) : NULL;
  free(wide);
  free(whole);
  for (char *at = text; at && *at; at++)
    if (*at == '\\') *at = '/';
  if (!text || !out) return text;
  const bool fits = strlen(text) < PATH_MAX_UTF8;
  if (fits) strcpy(out, text);
  free(text);
  if (!fits) errno = ENAMETOOLONG;
  return fits ? out : NULL;
}

/* ---------------------------------------------------------------- properties */

static struct timespec time_of(uint64_t ticks) { /* ticks: units of 100 ns since 1601 */
  const int64_t since_1970 = (int64_t)ticks - 116444736000000000;
  return (struct timespec){.tv_sec = (time_t)(since_1970 / 10000000),
                           .tv_nsec = (long)(since_1970 % 10000000 * 100)};
}

static int stat_handle(HANDLE file, struct posix_stat *out) {
  BY_HANDLE_FILE_INFORMATION info;
  FILE_BASIC_INFO times;
  const DWORD type = GetFileType(file);
  *out = (struct posix_stat){.st_mode = type == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR};
  if (type != FILE_TYPE_DISK) return 0;
  if (!GetFileInformationByHandle(file, &info) ||
      !GetFileInformationByHandleEx(file, FileBasicInfo, &times, sizeof times))
    return result_of(false);
  const bool is_folder = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
  out->st_mode = (mode_t)(is_folder ? S_IFDIR : S_IFREG);
  out->st_dev = info.dwVolumeSerialNumber;
  out->st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
  out->st_size = (off_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
  out->st_mtim = time_of((uint64_t)times.LastWriteTime.QuadPart);
  out->st_atim = time_of((uint64_t)times.LastAccessTime.QuadPart);
  out->st_ctim = time_of((uint64_t)times.ChangeTime.QuadPart);
  return 0;
}

int posix_fstat(int fd, struct posix_stat *out) {
  const HANDLE file = (HANDLE)_get_osfhandle(fd);
  if (file != INVALID_HANDLE_VALUE) return stat_handle(file, out);
  errno = EBADF;
  return -1;
}

/* Opens a file or folder to read or set its properties. */
static HANDLE open_properties(const char *path, DWORD access) {
  wchar_t *wide = wide_of(path);
  HANDLE file = INVALID_HANDLE_VALUE;
  if (wide)
    file = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
  if (wide && file == INVALID_HANDLE_VALUE) (void)result_of(false);
  free(wide);
  return file;
}

int posix_stat(const char *path, struct posix_stat *out) {
  HANDLE file = open_properties(path, FILE_READ_ATTRIBUTES);
  if (file == INVALID_HANDLE_VALUE) return -1;
  const int result = stat_handle(file, out);
  (void)CloseHandle(file);
  return result;
}

int utimensat(int folder, const char *path, const struct timespec *times, int flags) {
  (void)folder;
  (void)times;
  (void)flags;
  HANDLE file = open_properties(path, FILE_WRITE_ATTRIBUTES);
  if (file == INVALID_HANDLE_VALUE) return -1;
  FILETIME now;
  GetSystemTimeAsFileTime(&now);
  const int result = result_of(SetFileTime(file, NULL, &now, &now));
  (void)CloseHandle(file);
  return result;
}

int posix_statvfs(const char *path, struct posix_statvfs *out) {
  wchar_t *wide = wide_of(path);
  ULARGE_INTEGER available = {0};
  const int result = wide ? result_of(GetDiskFreeSpaceExW(wide, &available, NULL, NULL)) : -1;
  free(wide);
  *out = (struct posix_statvfs){.f_bavail = available.QuadPart, .f_frsize = 1};
  return result;
}

int flock(int fd, int how) {
  OVERLAPPED at = {.OffsetHigh = 1}; /* beyond the contents: Windows locks bytes */
  const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (how & LOCK_SH ? 0 : LOCKFILE_EXCLUSIVE_LOCK);
  if (LockFileEx((HANDLE)_get_osfhandle(fd), flags, 0, 1, 0, &at)) return 0;
  errno = GetLastError() == ERROR_LOCK_VIOLATION || GetLastError() == ERROR_IO_PENDING ? EWOULDBLOCK
                                                                                       : EIO;
  return -1;
}

/* ---------------------------------------------------------------- folders */

struct posix_folder {
  HANDLE search;
  WIN32_FIND_DATAW found;
  bool is_read; /* `found` was returned */
  struct posix_dirent entry;
};

posix_folder *posix_opendir(const char *path) {
  char pattern[PATH_MAX_UTF8];
  const int n = snprintf(pattern, sizeof pattern, "%s/*", path);
  posix_folder *folder = calloc(1, sizeof *folder);
  wchar_t *wide = n > 0 && n < PATH_MAX_UTF8 ? wide_of(pattern) : NULL;
  if (folder && wide) folder->search = FindFirstFileW(wide, &folder->found);
  const bool good = folder && wide && folder->search != INVALID_HANDLE_VALUE;
  if (!good && wide) errno = folder ? errno_of(GetLastError()) : ENOMEM;
  free(wide);
  if (good) return folder;
  free(folder);
  return NULL;
}

struct posix_dirent *posix_readdir(posix_folder *folder) {
  if (folder->is_read && !FindNextFileW(folder->search, &folder->found)) return NULL;
  folder->is_read = true;
  char *name = utf8_of(folder->found.cFileName);
  if (!name) return NULL;
  (void)snprintf(folder->entry.d_name, sizeof folder->entry.d_name, "%s", name);
  free(name);
  return &folder->entry;
}

int posix_closedir(posix_folder *folder) {
  (void)FindClose(folder->search);
  free(folder);
  return 0;
}
