#ifndef BASE_WINDOWS_POSIX_H
#define BASE_WINDOWS_POSIX_H
/* The POSIX functions that this project calls and Windows lacks. The compiler includes this header
 * before each file. Names of files and variables are UTF-8, and files are binary. */
#define WIN32_NO_STATUS /* windows.h must not define names such as STATUS_NO_MEMORY */
#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------------- text, time, environment */

void *memmem(const void *bytes, size_t size, const void *part, size_t n);
char *strndup(const char *text, size_t n);
struct tm *posix_gmtime(const time_t *time, struct tm *out);
struct tm *posix_localtime(const time_t *time, struct tm *out);
#define gmtime_r posix_gmtime
#define localtime_r posix_localtime
char *posix_getenv(const char *name); /* borrowed, valid for as long as the process runs */
#define getenv posix_getenv
#define secure_getenv posix_getenv
int setenv(const char *name, const char *value, int replaces);
int unsetenv(const char *name);
static inline unsigned geteuid(void) { return 0; }

double lgamma_r(double x, int *sign);
float lgammaf_r(float x, int *sign);

/* ---------------------------------------------------------------- files */

#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0
#define O_NOFOLLOW 0
#define PATH_MAX_UTF8 4096
int posix_open(const char *path, int flags, ...);
FILE *posix_fopen(const char *path, const char *mode);
ssize_t posix_read(int fd, void *bytes, size_t n);
ssize_t posix_write(int fd, const void *bytes, size_t n);
ssize_t pread(int fd, void *bytes, size_t n, off_t offset);
int posix_access(const char *path, int mode);
int posix_unlink(const char *path);
int posix_rmdir(const char *path);
int posix_rename(const char *from, const char *to); /* replaces `to` */
int posix_mkdir(const char *path, mode_t mode);
char *mkdtemp(char *template);
char *realpath(const char *path, char *out); /* resolves no links; out: PATH_MAX_UTF8 or NULL */
#define open posix_open
#define fopen posix_fopen
#define read posix_read
#define write posix_write
#define access posix_access
#define unlink posix_unlink
#define rmdir posix_rmdir
#define rename posix_rename
#define mkdir posix_mkdir

struct posix_stat {
  uint64_t st_dev, st_ino;
  mode_t st_mode;
  unsigned st_uid;
  off_t st_size;
  struct timespec st_mtim, st_atim, st_ctim;
};
int posix_stat(const char *path, struct posix_stat *out);
int posix_fstat(int fd, struct posix_stat *out);
#undef stat
#undef fstat
#define stat posix_stat
#define lstat posix_stat
#define fstat posix_fstat
#undef S_ISLNK
#define S_ISLNK(mode) 0
#define S_ISSOCK(mode) 0
#undef S_IWGRP
#undef S_IWOTH
#define S_IWGRP 0
#define S_IWOTH 0

enum { AT_FDCWD = -100 };
int utimensat(int folder, const char *path, const struct timespec *times, int flags);

struct posix_dirent {
  char d_name[1024];
};
typedef struct posix_folder posix_folder;
posix_folder *posix_opendir(const char *path);
struct posix_dirent *posix_readdir(posix_folder *folder);
int posix_closedir(posix_folder *folder);
#define DIR posix_folder
#define dirent posix_dirent
#define opendir posix_opendir
#define readdir posix_readdir
#define closedir posix_closedir

enum { LOCK_EX = 1, LOCK_NB = 2, LOCK_SH = 4 };
int flock(int fd, int how);

enum { ST_RDONLY = 1, ST_NOEXEC = 2 };
struct posix_statvfs {
  unsigned long f_flag;
  uint64_t f_bavail, f_frsize;
};
int posix_statvfs(const char *path, struct posix_statvfs *out);
#define statvfs posix_statvfs

enum { F_GETFD = 1, F_DUPFD_CLOEXEC = 2 };
int fcntl(int fd, int what, ...); /* supports only these two commands */

struct utsname {
  const char *release, *machine;
};
static inline int uname(struct utsname *out) {
  *out = (struct utsname){"Windows", "x86_64"};
  return 0;
}
enum { PR_SET_PDEATHSIG = 1 };
static inline int prctl(int what, int number) { return what + number > 0 ? 0 : -1; }

/* ---------------------------------------------------------------- memory */

enum { PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 1, MAP_ANONYMOUS = 2, MADV_DONTNEED = 4 };
#define MAP_FAILED ((void *)-1)
/* Maps zeroed memory, or a whole file for reading. */
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
int munmap(void *at, size_t n);
static inline int madvise(void *at, size_t n, int advice) {
  (void)at;
  (void)n;
  return advice < 0;
}
enum { _SC_PAGESIZE = 1, _SC_PHYS_PAGES, _SC_NPROCESSORS_ONLN };
long sysconf(int name);

/* ---------------------------------------------------------------- signals and timers */

enum {
  SIGHUP = 1,
  SIGQUIT = 3,
  SIGTRAP = 5,
  SIGBUS = 7,
  SIGKILL = 9,
  SIGSYS = 12,
  SIGPIPE = 13,
  SIGALRM = 14,
  SIGXFSZ = 25,
  SIGPROF = 27
};
enum { SA_RESTART = 1, ITIMER_REAL = 0 };
typedef unsigned posix_sigset;
#define sigset_t posix_sigset
static inline int sigemptyset(posix_sigset *set) { return (int)(*set = 0); }
static inline int sigfillset(posix_sigset *set) { return (int)(*set = 0); }
static inline int sigdelset(posix_sigset *set, int number) { return (int)(*set = number < 0); }
#undef pthread_sigmask
#define pthread_sigmask(how, set, before) sigset_copy(set, before)
static inline int sigset_copy(const posix_sigset *set, posix_sigset *before) {
  if (before) *before = *set;
  return 0;
}
typedef void (*signal_handler)(int number);
struct sigaction {
  signal_handler sa_handler;
  posix_sigset sa_mask;
  int sa_flags;
};
/* Accepts any signal; of those that Windows does not send, only SIGALRM occurs (setitimer). */
int sigaction(int number, const struct sigaction *action, struct sigaction *before);
signal_handler posix_signal(int number, signal_handler handler);
#define signal posix_signal
struct posix_timeval {
  time_t tv_sec;
  long tv_usec;
};
struct itimerval {
  struct posix_timeval it_interval, it_value;
};
/* Calls the handler of SIGALRM in another thread; without a handler, the alarm ends the process. */
int setitimer(int which, const struct itimerval *value, struct itimerval *before);
unsigned alarm(unsigned seconds);

#endif
