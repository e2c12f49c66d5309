#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H
/* This process (its environment and number), child processes, and sockets to them. Only this file
 * spawns processes and uses sockets. */
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Sets a variable, or removes it if value is NULL. No other thread may read the environment
 * meanwhile. When memory is out, the variable is unchanged. */
void environment_set(const char *name, const char *value);
/* True if a folder of PATH has the program. If only the system's own folders have it, adds these
 * folders to PATH. As for environment_set, no other thread may read the environment meanwhile. */
bool environment_provide(const char *program);
long process_number(void);
unsigned long user_number(void);
/* Returns the number of forks between this process and the ancestor that called this function
 * first. Threads and the resources of drivers exist only in the generation that created them. */
unsigned process_generation(void);

/* Returns the path of the command line tool that belongs to this library; owned by the caller, NULL
 * if there is no such tool. CLAVE_HELPER names it, or disables it by "off". Otherwise it is `clave`
 * beside the library or the program that contains the library, or in a bin folder beside that
 * folder or its parent. PATH is not searched. */
char *find_helper(void);
/* Returns the path of the first of n names ("/libclave.a") that is a file in the folder of this
 * library, or of the program that contains it. runs: the file must be executable. Owned by the
 * caller; NULL if no name is such a file. */
char *find_own(const char *const *names, size_t n, bool runs);

/* Makes a path absolute without resolving links; owned by the caller. */
clave_status path_absolute(const char *path, char **out) STATUS_CHECK;

/* A child process. Its standard input is a socket to this process, its standard output and error
 * are discarded. It inherits no other descriptor, and has default signal actions. */
typedef struct child child;
/* arguments: argv, from the program's name on. settings: NAME=value pairs that override its
 * environment. Both end with NULL. */
clave_status child_start(const char *path, const char *const *arguments,
                         const char *const *settings, child **out) STATUS_CHECK;
/* Shuts the socket down in both directions, so that a child that reads from it exits. */
void child_hang_up(const child *child);
/* Closes the socket, waits up to timeout_ms for the child to exit, then kills it. Accepts NULL. */
void child_end(child *child, int timeout_ms);
int child_socket(const child *child);

/* A log of the output of tools. It is in memory, so that a full disk does not lose it, or else in a
 * file of that name in the folder, which closing removes. */
typedef struct tool_log {
  char *path; /* owned: opens the log in this process and in tools until it is closed */
  int memory; /* its descriptor; negative if it is a file */
} tool_log;
clave_status tool_log_open(const char *folder, const char *name, tool_log *out) STATUS_CHECK;
void tool_log_close(tool_log *log); /* accepts a zeroed log */

/* A running tool: a program found by PATH, in a given folder, with our environment and empty input.
 * Its output is appended to a file. */
typedef struct tool tool;
/* arguments: argv, ends with NULL; argv[0] names the program. Fails with IO if there is no such
 * program. */
clave_status tool_start(const char *const *arguments, const char *folder, const char *log,
                        tool **out) STATUS_CHECK;
/* Waits for the tool to exit and frees it. Returns its exit status, 128 plus the signal that ended
 * it, or 0 if the host has already reaped it. cancel may be NULL; it is called at first and
 * whenever a signal interrupts the wait, and ends the tool by returning true. */
int tool_end(tool *tool, bool (*cancel)(void *ctx), void *ctx);

/* Works like tool_end without `cancel`, but kills the tool after timeout_ms. */
int tool_end_within(tool *tool, int timeout_ms);

/* Transfer all bytes over a socket to a child or to the parent. Return false if that takes longer
 * than timeout_ms or the socket is closed, which raises no signal. */
bool socket_send(int socket, const void *bytes, size_t n, int timeout_ms);
bool socket_receive(int socket, void *bytes, size_t n, int timeout_ms);
/* Returns the index of the first of n sockets that has bytes to read or is closed; -1 on timeout.
 * Entries of -1 are skipped. */
int socket_wait(const int *sockets, int n, int timeout_ms);

#endif
