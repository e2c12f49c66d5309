/* Converts between UTF-8 and UTF-16, and from Windows' error codes to errno. */
#include "base/windows/wide.h"

#include <windows.h>

wchar_t *wide_of(const char *utf8) {
  const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, NULL, 0);
  wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
  if (!wide) {
    errno = n > 0 ? ENOMEM : EILSEQ;
    return NULL;
  }
  (void)MultiByteToWideChar(CP_UTF8, 0, utf8, -1, wide, n);
  return wide;
}

char *utf8_of(const wchar_t *wide) {
  const int n = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
  char *utf8 = n > 0 ? malloc((size_t)n) : NULL;
  if (!utf8) {
    errno = n > 0 ? ENOMEM : EILSEQ;
    return NULL;
  }
  (void)WideCharToMultiByte(CP_UTF8, 0, wide, -1, utf8, n, NULL, NULL);
  return utf8;
}

int errno_of(unsigned long code) {
  static const struct {
    unsigned long code;
    int error;
  } rows[] = {{ERROR_FILE_NOT_FOUND, ENOENT},
              {ERROR_PATH_NOT_FOUND, ENOENT},
              {ERROR_INVALID_NAME, ENOENT},
              {ERROR_BAD_NETPATH, ENOENT},
              {ERROR_ACCESS_DENIED, EACCES},
              {ERROR_SHARING_VIOLATION, EACCES},
              {ERROR_LOCK_VIOLATION, EAGAIN},
              {ERROR_FILE_EXISTS, EEXIST},
              {ERROR_ALREADY_EXISTS, EEXIST},
              {ERROR_DIRECTORY, ENOTDIR},
              {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
              {ERROR_DISK_FULL, ENOSPC},
              {ERROR_HANDLE_DISK_FULL, ENOSPC},
              {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
              {ERROR_OUTOFMEMORY, ENOMEM},
              {ERROR_COMMITMENT_LIMIT, ENOMEM},
              {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
              {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
              {ERROR_INVALID_HANDLE, EBADF}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].code == code) return rows[i].error;
  return EIO;
}
