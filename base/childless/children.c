/* Child processes, for builds that start no other programs. */
#include <time.h>

#include "base/process.h"

static clave_status no_children(const char *program) {
  return UNSUPPORTED("%s: this build of clave starts no other programs", program);
}

bool starts_programs(void) { return false; }

char *find_helper(void) { return NULL; }

clave_status child_start(const char *path, const char *const *arguments,
                         const char *const *settings, child **out) {
  (void)arguments;
  (void)settings;
  *out = NULL;
  return no_children(path);
}

void child_hang_up(const child *child) { (void)child; }
int child_end(child *child, int timeout_ms) {
  (void)child;
  (void)timeout_ms;
  return 0;
}
int child_socket(const child *child) {
  (void)child;
  return -1;
}

clave_status tool_log_open(const char *folder, const char *name, tool_log *out) {
  (void)folder;
  *out = (tool_log){0};
  return no_children(name);
}
void tool_log_close(tool_log *log) { (void)log; }

clave_status tool_start(const char *const *arguments, const char *folder, const char *log,
                        tool **out) {
  (void)folder;
  (void)log;
  *out = NULL;
  return no_children(arguments[0]);
}
int tool_end(tool *tool, bool (*cancel)(void *ctx), void *ctx) {
  (void)tool;
  (void)cancel;
  (void)ctx;
  return 0;
}
int tool_end_within(tool *tool, int timeout_ms) { return tool_end(tool, NULL, &timeout_ms); }

bool socket_send(int socket, const void *bytes, size_t n, int timeout_ms) {
  (void)socket;
  (void)bytes;
  (void)n;
  (void)timeout_ms;
  return false;
}
bool socket_receive(int socket, void *bytes, size_t n, int timeout_ms) {
  return socket_send(socket, bytes, n, timeout_ms);
}
int socket_wait(const int *sockets, int n, int timeout_ms) {
  const struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  (void)sockets;
  (void)n;
  (void)nanosleep(&pause, NULL); /* callers without sockets wait, too */
  return -1;
}
