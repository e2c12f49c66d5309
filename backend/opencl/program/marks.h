#ifndef BACKEND_OPENCL_PROGRAM_MARKS_H
#define BACKEND_OPENCL_PROGRAM_MARKS_H
/* Marks on disk, beside the kernel binaries: small text files, named by key, of programs that a
 * process passes to the driver for the first time, and of programs that crashed the driver. These
 * functions need no device. The lines of a mark are its state, the program and the reason. */
#include <stdbool.h>
#include <stdint.h>

/* NONE: the program has no mark. LIVE: a running process is trying it. DEAD: the process that tried
 * it has ended, probably in the driver. REFUSED: it must not be tried. ACCEPTED: it was tried. */
typedef enum mark_state { MARK_NONE, MARK_LIVE, MARK_DEAD, MARK_REFUSED, MARK_ACCEPTED } mark_state;
typedef struct found_mark {
  mark_state state;
  bool is_load;     /* the driver got a binary, not a source */
  int tries;        /* if DEAD: number of processes that ended */
  bool is_expired;  /* the last began 1, 2, 4, ... days ago: retry, as the user may have ended it */
  char reason[256]; /* why the program is refused */
} found_mark;
found_mark mark_find(const char *folder, const uint64_t key[2]);

/* A locked file that shows other processes that this process is alive. */
typedef struct life_sign life_sign;
life_sign *life_sign_create(const char *folder); /* NULL if the folder cannot be written */
void life_sign_destroy(life_sign *sign);         /* accepts NULL */

/* Marks the program as being tried. Returns false if the mark cannot be written. */
bool mark_try(const char *folder, const uint64_t key[2], const life_sign *sign,
              const found_mark *before, bool is_load, const char *program);
void mark_refuse(const char *folder, const uint64_t key[2], const char *program,
                 const char *reason);
/* Other programs that were tried have no mark. */
void mark_accept(const char *folder, const uint64_t key[2], const char *program);
void mark_remove(const char *folder, const uint64_t key[2]);

/* Removes all marks. Returns the number of bytes removed. */
uint64_t marks_clear(const char *folder);

#endif
