#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H
/* This process: its environment and number; child processes, and the sockets to them. The only user
 * of spawning and sockets. */
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* NULL removes the variable. Other threads must not read the environment meanwhile: for the first
 * contact with a library only. Without memory the variable stays as it was. */
void environment_set(const char *name, const char *value);
/* True if a folder of PATH has the program. If only the system's own folders have it, adds them to
 * PATH; other threads must not read the environment meanwhile, as for environment_set. */
bool environment_provide(const char *program);
long process_number(void);
unsigned long user_number(void);
/* How often this process was forked off since its program was started, as far as this was asked
 * before: threads, and what drivers hold, are not there any more in another generation than they
 * were made in. */
unsigned process_generation(void);

/* The command line tool that belongs to this library: CLAVE_HELPER ("off": none), else `clave`
 * beside the library or the program that holds it, else in bin beside its folder; never by PATH.
 * Owned by the caller; NULL: there is none. */
char *find_helper(void);
/* The first of the names ("/libclave.a", n) that is a file, each behind the folder that this
 * library, or the program that holds it, lies in. Owned by the caller; NULL: there is none. */
char *find_own(const char *const *names, size_t n, bool runs);

/* From the root on, links as they are; owned by the caller. */
clave_status path_absolute(const char *path, char **out) STATUS_CHECK;

/* A child process; its standard input is a socket to us, its standard output and error lead
 * nowhere. It gets no other descriptor, and the signals' default actions. */
typedef struct child child;
/* arguments: from argv[0]. settings: NAME=value, of its environment, in the place of ours. Both end
 * in NULL. */
clave_status child_start(const char *path, const char *const *arguments,
                         const char *const *settings, child **out) STATUS_CHECK;
/* Ends what is said on the socket, both ways: a child that listens there leaves. */
void child_hang_up(const child *child);
/* Closes the socket, waits at most so long for the child's end, then kills it. Takes NULL. */
void child_end(child *child, int timeout_ms);
int child_socket(const child *child);

/* What tools say: in memory, so that a full disk does not lose it, else in a file of that name in
 * the folder, which is removed at the end. */
typedef struct tool_log {
  char *path; /* owned: leads to it in this process and in tools, to the end of the log */
  int memory; /* its descriptor; negative: it is a file */
} tool_log;
clave_status tool_log_open(const char *folder, const char *name, tool_log *out) STATUS_CHECK;
void tool_log_close(tool_log *log); /* takes a zeroed log */

/* A tool at work: a program found by PATH, in a folder, with our environment and nothing to read;
 * what it says is appended to a file. */
typedef struct tool tool;
/* arguments: from argv[0], which names the program; NULL ends. Where there is none: IO, which says
 * so. */
clave_status tool_start(const char *const *arguments, const char *folder, const char *log,
                        tool **out) STATUS_CHECK;
/* Waits for its end and frees it; its exit status, 128 and the signal that ended it, or, where a
 * host has taken its end, 0. cancel: asked at first, and where a signal comes while we wait;
 * true ends the tool; may be NULL. */
int tool_end(tool *tool, bool (*cancel)(void *ctx), void *ctx);

/* The same, at most so long: then it is killed. */
int tool_end_within(tool *tool, int timeout_ms);

/* Over a socket of a child or to a parent: all bytes within the time, or false. A closed end is no
 * signal. */
bool socket_send(int socket, const void *bytes, size_t n, int timeout_ms);
bool socket_receive(int socket, void *bytes, size_t n, int timeout_ms);
/* The first of the sockets (n; -1: none there) that has bytes or is closed; -1 if none has in time.
 */
int socket_wait(const int *sockets, int n, int timeout_ms);

#endif
