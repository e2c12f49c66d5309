/* Starts child processes, such as the helper that builds kernels, and tools. Sends and receives
 * bytes on the sockets of children. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/process.h"

extern char **environ;

char *find_helper(void) {
  static const char *const names[] = {"/clave", "/../bin/clave", "/../../bin/clave"};
  const char *given = environment_trusted("CLAVE_HELPER");
  if (given && strcmp(given, "off") == 0) return NULL;
  if (!given || !*given) return find_own(names, sizeof names / sizeof *names, true);
  struct stat s;
  return stat(given, &s) == 0 && S_ISREG(s.st_mode) && access(given, X_OK) == 0 ? strdup(given)
                                                                                : NULL;
}

struct child {
  pid_t pid;
  int socket;
};

static bool is_one_of(const char *variable, const char *const *settings) {
  for (; *settings; settings++)
    if (strncmp(variable, *settings, strcspn(*settings, "=") + 1) == 0) return true;
  return false;
}

/* Returns our environment, changed by the settings. The caller owns the array, not its strings. */
static const char **child_environment(const char *const *settings) {
  char **ours = environ; /* a host's thread may change it: read once, up to its end */
  size_t n = 0, kept = 0, more = 0;
  while (ours && ours[n]) n++;
  while (settings[more]) more++;
  const char **all = calloc(n + more + 1, sizeof *all);
  for (size_t i = 0; all && i < n && ours[i]; i++)
    if (!is_one_of(ours[i], settings)) all[kept++] = ours[i];
  for (size_t i = 0; all && i < more; i++) all[kept++] = settings[i];
  return all;
}

/* A program to start, and its standard streams. */
typedef struct spawning {
  const char *path;
  const char *const *arguments, *const *environment;
  int socket;               /* children only */
  const char *folder, *log; /* tools only; else NULL */
} spawning;

static int prepare_files(posix_spawn_file_actions_t *files, const spawning *spawning) {
  const char *input = "/dev/null", *log = spawning->log ? spawning->log : "/dev/null";
  const int mode = O_WRONLY | O_CREAT | O_APPEND;
  int error = spawning->log ? 0 : posix_spawn_file_actions_adddup2(files, spawning->socket, 0);
  if (!error) error = posix_spawn_file_actions_addopen(files, 1, log, mode, 0600);
  if (!error) error = posix_spawn_file_actions_adddup2(files, 1, 2);
  /* Descriptor 0 is replaced last, because the log in memory may itself be descriptor 0. */
  if (!error && spawning->log)
    error = posix_spawn_file_actions_addopen(files, 0, input, O_RDONLY, 0);
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 34)
  if (!error) error = posix_spawn_file_actions_addclosefrom_np(files, 3);
#endif
#endif
  if (!error && spawning->folder)
    error = posix_spawn_file_actions_addchdir_np(files, spawning->folder);
  return error;
}

static int prepare_signals(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  (void)sigemptyset(&none);
  (void)sigfillset(&all);
  int error = posix_spawnattr_setsigmask(attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
  if (!error)
    error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  return error;
}

static int spawn(const spawning *spawning, pid_t *pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  char *const *arguments = (char *const *)(uintptr_t)spawning->arguments;
  char *const *environment = (char *const *)(uintptr_t)spawning->environment;
  int error = posix_spawn_file_actions_init(&files);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = prepare_files(&files, spawning);
    if (!error) error = prepare_signals(&attributes);
    if (!error)
      error = (spawning->log ? posix_spawnp : posix_spawn)(pid, spawning->path, &files, &attributes,
                                                           arguments, environment);
    (void)posix_spawnattr_destroy(&attributes);
  }
  (void)posix_spawn_file_actions_destroy(&files);
  return error;
}

static clave_status process_start(const char *path, const char *const *arguments,
                                  const char *const *settings, child *child) {
  int pair[2];
  const char **environment = child_environment(settings);
  int error = environment ? 0 : ENOMEM;
  if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) error = errno;
  if (!error) {
    error = spawn(
        &(spawning){
            .path = path, .arguments = arguments, .environment = environment, .socket = pair[1]},
        &child->pid);
    (void)close(pair[1]);
    if (error) (void)close(pair[0]);
    child->socket = pair[0];
  }
  free(environment);
  if (error == ENOMEM) return status_no_memory();
  return error ? status_new(STATUS_IO, "%s: error %d of the system", path, error) : NULL;
}

clave_status child_start(const char *path, const char *const *arguments,
                         const char *const *settings, child **out) {
  *out = NULL;
  child *child = calloc(1, sizeof *child);
  if (!child) return status_no_memory();
  clave_status st = process_start(path, arguments, settings, child);
  if (st) {
    free(child);
    return st;
  }
  *out = child;
  return NULL;
}

/* True if the child has ended. If the host has already reaped it, *status is unchanged. */
static bool has_ended(pid_t pid, int flags, int *status) {
  pid_t got;
  do {
    got = waitpid(pid, status, flags);
  } while (got < 0 && errno == EINTR);
  return got != 0;
}

/* Waits up to timeout_ms for the process to exit. */
static bool ends_within(pid_t pid, int timeout_ms, int *status) {
  const struct timespec pause = {0, 2 * 1000 * 1000};
  int64_t end = clock_ns() + (int64_t)timeout_ms * 1000000;
  bool ended = has_ended(pid, WNOHANG, status);
  while (!ended && clock_ns() < end) {
    (void)nanosleep(&pause, NULL);
    ended = has_ended(pid, WNOHANG, status);
  }
  return ended;
}

/* Waits up to timeout_ms for the process to exit, then kills it. A process that is blocked in a
 * device's kernel driver does not die; it is left running. */
static void end_within(pid_t pid, int timeout_ms, int *status) {
  enum { KILL_MS = 5000 };
  if (ends_within(pid, timeout_ms, status)) return;
  (void)kill(pid, SIGKILL);
  (void)ends_within(pid, KILL_MS, status);
}

void child_hang_up(const child *child) { (void)shutdown(child->socket, SHUT_RDWR); }

static int exit_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_end(child *child, int timeout_ms) {
  int status = 0;
  if (!child) return 0;
  (void)close(child->socket);
  end_within(child->pid, timeout_ms, &status);
  free(child);
  return exit_of(status);
}

int child_socket(const child *child) { return child->socket; }

/* ---------------------------------------------------------------- tools */

/* Opens a log in memory. Returns false if the descriptor has no path, as without /proc. */
static bool open_memory(int *memory, text *path) {
  *memory = memfd_create("clave tool log", MFD_CLOEXEC);
  if (*memory < 0) return false;
  text_printf(path, "/proc/self/fd/%d", *memory);
  if (path->failed || access(path->data, W_OK) == 0) return true;
  (void)close(*memory);
  *memory = -1;
  text_clear(path);
  return false;
}

clave_status tool_log_open(const char *folder, const char *name, tool_log *out) {
  text path = {0};
  *out = (tool_log){.memory = -1};
  if (!open_memory(&out->memory, &path)) text_printf(&path, "%s/%s", folder, name);
  clave_status st = text_status(&path);
  if (st && out->memory >= 0) (void)close(out->memory);
  if (st) *out = (tool_log){0};
  if (!st) out->path = path.data;
  return st;
}

void tool_log_close(tool_log *log) {
  if (log->path && log->memory < 0) (void)unlink(log->path);
  if (log->path && log->memory >= 0) (void)close(log->memory);
  free(log->path);
  *log = (tool_log){0};
}

bool starts_programs(void) { return true; }

struct tool {
  pid_t pid;
};

clave_status tool_start(const char *const *arguments, const char *folder, const char *log,
                        tool **out) {
  tool *tool = *out = malloc(sizeof *tool);
  if (!tool) return status_no_memory();
  const int error = spawn(&(spawning){.path = arguments[0],
                                      .arguments = arguments,
                                      .environment = (const char *const *)environ,
                                      .folder = folder,
                                      .log = log},
                          &tool->pid);
  if (!error) return NULL;
  free(tool);
  *out = NULL;
  if (error == ENOMEM) return status_no_memory();
  return status_new(STATUS_IO, "%s: %s", arguments[0], system_error_text(error));
}

int tool_end(tool *tool, bool (*cancel)(void *ctx), void *ctx) {
  int status = 0;
  pid_t got;
  do {
    if (cancel && cancel(ctx)) (void)kill(tool->pid, SIGTERM);
    got = waitpid(tool->pid, &status, 0);
  } while (got < 0 && errno == EINTR);
  free(tool);
  return got < 0 ? 0 : exit_of(status);
}

int tool_end_within(tool *tool, int timeout_ms) {
  int status = 0;
  end_within(tool->pid, timeout_ms, &status);
  free(tool);
  return exit_of(status);
}

/* ---------------------------------------------------------------- sockets */

static bool process_wait_for(int socket, short events, int64_t end) {
  struct pollfd p = {.fd = socket, .events = events};
  for (;;) {
    int64_t left_ms = (end - clock_ns()) / 1000000;
    int n = poll(&p, 1, left_ms > 0 ? (int)left_ms + 1 : 0);
    if (n > 0) return true;
    if (n == 0 && clock_ns() >= end) return false;
    if (n < 0 && errno != EINTR) return false;
  }
}

bool socket_send(int socket, const void *bytes, size_t n, int timeout_ms) {
  int64_t end = clock_ns() + (int64_t)timeout_ms * 1000000;
  const char *at = bytes;
  while (n > 0) {
    if (!process_wait_for(socket, POLLOUT, end)) return false;
    ssize_t sent = send(socket, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return false;
    at += sent;
    n -= (size_t)sent;
  }
  return true;
}

bool socket_receive(int socket, void *bytes, size_t n, int timeout_ms) {
  int64_t end = clock_ns() + (int64_t)timeout_ms * 1000000;
  char *at = bytes;
  while (n > 0) {
    if (!process_wait_for(socket, POLLIN, end)) return false;
    ssize_t got = recv(socket, at, n, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    at += got;
    n -= (size_t)got;
  }
  return true;
}

int socket_wait(const int *sockets, int n, int timeout_ms) {
  enum { MOST = 64 };
  struct pollfd all[MOST];
  if (n > MOST) n = MOST;
  for (int i = 0; i < n; i++) all[i] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
  if (poll(all, (nfds_t)n, timeout_ms) <= 0) return -1;
  for (int i = 0; i < n; i++)
    if (all[i].revents) return i;
  return -1;
}
