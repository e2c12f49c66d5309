/* This process: its environment, its id, and the files beside its library. */
#include "base/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/threads.h"

void environment_set(const char *name, const char *value) {
  (void)(value ? setenv(name, value, 1) : unsetenv(name));
}

/* True if one of the folders, separated by colons, has the program. */
static bool path_has(const char *folders, const char *program) {
  for (const char *at = folders;; at++) {
    const size_t n = strcspn(at, ":");
    text path = {0};
    text_append(&path, n ? at : ".", n ? n : 1); /* an empty entry is the working directory */
    text_printf(&path, "/%s", program);
    const bool found = !path.failed && access(path.data, X_OK) == 0;
    text_free(&path);
    if (found) return true;
    at += n;
    if (!*at) return false;
  }
}

const char *environment_trusted(const char *name) {
  return getauxval(AT_SECURE) ? NULL : getenv(name); /* Bionic has no secure_getenv */
}

bool environment_provide(const char *program) {
  static const char folders[] = "/usr/local/bin:/usr/bin:/bin";
  const char *given = getenv("PATH");
  if (given && *given && path_has(given, program)) return true;
  if (!path_has(folders, program)) return false;
  text path = {0};
  if (given && *given) text_printf(&path, "%s:", given);
  text_puts(&path, folders);
  if (!path.failed) environment_set("PATH", path.data);
  const bool is_set = !path.failed;
  text_free(&path);
  return is_set;
}

long process_id(void) { return (long)getpid(); }
unsigned long user_id(void) { return (unsigned long)geteuid(); }

static unsigned generation;

static void count_generation(void) { generation++; } /* in the child, which has one thread */
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, count_generation); }

unsigned process_generation(void) {
  static once watched;
  once_run(&watched, watch_forks);
  return generation;
}

/* ---------------------------------------------------------------- the helper */

/* The file of this library, or of the program into which it is linked, with links resolved. Empty
 * if unknown. */
static char own_file[PATH_MAX];

/* Runs when the library is loaded. The loader keeps the path with which the library was opened,
 * which becomes wrong if it is relative and the process changes its working folder. For a program
 * the loader knows only argv[0]. */
__attribute__((constructor)) static void find_own_file(void) {
  Dl_info own, program;
  void *here, *headers = (void *)(uintptr_t)getauxval(AT_PHDR);
  void (*function)(void) = find_own_file;
  memcpy(&here, &function, sizeof here);
  if (!dladdr(here, &own) || !own.dli_fname) return;
  bool is_program = dladdr(headers, &program) && program.dli_fbase == own.dli_fbase;
  if (!realpath(is_program ? "/proc/self/exe" : own.dli_fname, own_file)) *own_file = 0;
}

static bool is_file(const char *path, bool runs) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, runs ? X_OK : R_OK) == 0;
}

/* Returns the path of `name` in the folder given by the first n characters of `folder`, if such a
 * file exists; else NULL. runs: the file must be executable. */
static char *file_in(const char *folder, size_t n, const char *name, bool runs) {
  text path = {0};
  text_append(&path, folder, n);
  text_printf(&path, "%s", name);
  if (path.failed || !is_file(path.data, runs)) text_free(&path);
  return path.data;
}

char *find_own(const char *const *names, size_t n, bool runs) {
  const char *slash = strrchr(own_file, '/');
  char *found = NULL;
  for (size_t i = 0; slash && !found && i < n; i++)
    found = file_in(own_file, (size_t)(slash - own_file), names[i], runs);
  return found;
}

clave_status cache_home(char **out) {
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const bool has_xdg = xdg && *xdg == '/', has_home = home && *home == '/';
  *out = has_xdg ? path_join(xdg, "clave") : has_home ? path_join(home, ".cache/clave") : NULL;
  return *out || !(has_xdg || has_home) ? NULL : status_no_memory();
}

const char *temporary_folder(void) {
  const char *given = getenv("TMPDIR");
  return given && *given == '/' ? given : "/tmp";
}

const char *memory_folder(void) { return "/dev/shm"; }

clave_status path_absolute(const char *path, char **out) {
  text text = {0};
  char *here = NULL;
  if (*path != '/') {
    here = getcwd(NULL, 0);
    if (!here && errno == ENOMEM) return status_no_memory();
    if (!here) return status_new(STATUS_IO, "%s: the working folder no longer exists", path);
    text_printf(&text, "%s/", here);
    free(here);
  }
  text_puts(&text, path);
  *out = text.data;
  return text_status(&text);
}
