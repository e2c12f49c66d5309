#ifndef CLI_INTERRUPTS_H
#define CLI_INTERRUPTS_H
/* Makes Ctrl-C end an answer instead of the program, and interrupt a wait for input. */
#include <stdbool.h>

void catch_interrupts(void);
/* Also catches SIGTERM and SIGHUP, for commands that must clean up. */
void catch_endings(void);
int interrupted_exit(void);     /* 128 plus the signal's number, as in shells */
bool is_interrupted(void *ctx); /* interrupted since the last clear; ignores ctx */
void forget_interrupt(void);
/* Waits until standard input is readable. Returns false if Ctrl-C was typed or it cannot be read.
 */
bool wait_for_input(void);

#endif
