#ifndef TEST_FAULT_LOOP_H
#define TEST_FAULT_LOOP_H
/* Lives with one failure each: the Nth allocation, or the Nth OpenCL call, N = 0, 1, 2 ... until
 * there is none left to fail. Each time there is an error of one line, or all is right; what is
 * there still works when nothing fails any more; and no OpenCL object stays alive. Leaks of memory
 * are for the sanitizer. */
#include <stdbool.h>

#include "clave.h"

typedef struct fault_test {
  void *life;                         /* empty, and so again after `end` */
  clave_status (*run)(void *life);    /* all of it; stops at the first error */
  const char *(*wrong)(void *life);   /* after a good run: what is not right; NULL: nothing */
  clave_status (*resume)(void *life); /* after an error: with what is there, may do nothing */
  void (*end)(void *life);            /* takes a life that stopped anywhere */
} fault_test;

/* kind: "alloc" or "calls", the latter with the stub OpenCL. Prints what failed and the counts;
 * the exit status. */
int fault_loop(const fault_test *test, const char *kind, long first, long step);

/* Leaves a function at the first error. */
#define TRY(call)              \
  do {                         \
    clave_status st_ = (call); \
    if (st_) return st_;       \
  } while (0)

#endif
