#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H
/* This process (its environment and id), child processes, and sockets to them. Only children.c
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
/* Returns the value of a variable that names a program or library to load, or NULL. The variable is
 * ignored in a process that has more rights than its user (setuid). */
const char *environment_trusted(const char *name);
long process_id(void);
unsigned long user_id(void);
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

/* Sets *out to the folder for this user's caches of clave, which may not exist yet; owned by the
 * caller. Sets it to NULL if the environment names no such folder. */
clave_status cache_home(char **out) STATUS_CHECK;

/* Returns TMPDIR if it is an absolute path, else /tmp; on Windows TEMP, else the working folder. */
const char *temporary_folder(void);
/* Returns the folder whose files are stored in memory; on Windows the temporary folder. */
const char *memory_folder(void);

/* Makes a path absolute without resolving links; owned by the caller. */
clave_status path_absolute(const char *path, char **out) STATUS_CHECK;

/* A child process. Its standard input is a socket to this process, its standard output and error
 * are discarded. It inherits no other descriptor, and has default signal actions. */
typedef struct child child;
/* arguments: argv, with the program's name first. settings: NAME=value strings that override
 * variables of the inherited environment. Both end with NULL. */
clave_status child_start(const char *path, const char *const *arguments,
                         const char *const *settings, child **out) STATUS_CHECK;
/* Shuts the socket down in both directions, so that a child that reads from it exits. */
void child_hang_up(const child *child);
/* Closes the socket, waits up to timeout_ms for the child to exit, then kills it. Accepts NULL.
 * Returns its exit status, 128 plus the signal that ended it, or 0 if the host has reaped it. */
int child_end(child *child, int timeout_ms);
int child_socket(const child *child);

/* A log of the output of tools. It is stored in memory where possible, so that a full disk cannot
 * truncate it. Otherwise it is a file, which tool_log_close removes. */
typedef struct tool_log {
  char *path; /* owned; this process and its tools can open it */
  int memory; /* descriptor of a log in memory; negative if the log is a file */
} tool_log;
clave_status tool_log_open(const char *folder, const char *name, tool_log *out) STATUS_CHECK;
void tool_log_close(tool_log *log); /* accepts a zeroed log */

/* False if this build starts no other programs. */
bool starts_programs(void);

/* A running tool: a program found by PATH that runs in a given folder, with this process's
 * environment and an empty standard input. Its output is appended to a file. */
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
