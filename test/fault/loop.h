#ifndef TEST_FAULT_LOOP_H
#define TEST_FAULT_LOOP_H
/* Runs a scenario many times, with one failure each: the Nth allocation, or the Nth OpenCL call,
 * for N = 0, 1, 2 ... until no such call is left. Each run ends with a one-line error or with the
 * right results. Its objects still work after the failure, and no OpenCL object stays alive. The
 * sanitizer finds leaks. */
#include <stdbool.h>

#include "clave.h"

typedef struct fault_test {
  void *scenario;                         /* state of a scenario; empty at first and after `end` */
  clave_status (*run)(void *scenario);    /* runs the whole scenario; stops at the first error */
  const char *(*wrong)(void *scenario);   /* after a good run: describes what is wrong, or NULL */
  clave_status (*resume)(void *scenario); /* after an error: uses what exists; may do nothing */
  void (*end)(void *scenario); /* destroys the objects of a scenario that stopped anywhere */
} fault_test;

/* kind: "alloc" or "calls", the latter with the stub OpenCL. Prints the failures and the counts and
 * returns the exit status. */
int fault_loop(const fault_test *test, const char *kind, long first, long step);

/* Call it with each note of the library. If a note tells that a device was lost, its objects stay
 * alive. */
void fault_note(const char *line);

/* Leaves a function at the first error. */
#define TRY(call)              \
  do {                         \
    clave_status st_ = (call); \
    if (st_) return st_;       \
  } while (0)

#endif
