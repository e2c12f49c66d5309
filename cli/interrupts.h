#ifndef CLI_INTERRUPTS_H
#define CLI_INTERRUPTS_H
/* Ctrl-C where it ends an answer instead of the program, and waiting that it ends, too. */
#include <stdbool.h>

void catch_interrupts(void);
/* Also what else asks a program to end (SIGTERM, SIGHUP), for commands that must clean up. */
void catch_endings(void);
int interrupted_exit(void);     /* as shells have it: 128 and the signal's number */
bool is_interrupted(void *ctx); /* since it was last forgotten; ctx is ignored */
void forget_interrupt(void);
/* Waits until standard input has something; false: Ctrl-C was typed, or it cannot be read. */
bool wait_for_input(void);

#endif
