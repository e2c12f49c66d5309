#ifndef TEST_FAULT_LOOP_H
#define TEST_FAULT_LOOP_H
/* Runs whole lives with one failure each: the Nth allocation, or the Nth OpenCL call, N = 0, 1, 2
 * ... until none is left to fail. Each life ends with a one-line error, or everything is right; its
 * objects still work when nothing fails any more; and no OpenCL object stays alive. The sanitizer
 * finds leaks. */
#include <stdbool.h>

#include "clave.h"

typedef struct fault_test {
  void *life;                         /* empty, and so again after `end` */
  clave_status (*run)(void *life);    /* the whole life; stops at the first error */
  const char *(*wrong)(void *life);   /* after a good run: describes what is wrong, or NULL */
  clave_status (*resume)(void *life); /* after an error: uses what exists; may do nothing */
  void (*end)(void *life);            /* destroys the objects of a life that stopped anywhere */
} fault_test;

/* kind: "alloc" or "calls", the latter with the stub OpenCL. Prints the failures and the counts and
 * returns the exit status. */
int fault_loop(const fault_test *test, const char *kind, long first, long step);

/* Leaves a function at the first error. */
#define TRY(call)              \
  do {                         \
    clave_status st_ = (call); \
    if (st_) return st_;       \
  } while (0)

#endif
