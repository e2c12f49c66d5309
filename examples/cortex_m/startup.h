#ifndef STARTUP_H
#define STARTUP_H
/* Declarations shared by the start-up code and the main program. */
#include <stdint.h>

enum { STACK_PAINT = 0x5AFE5AFE };
extern uint32_t stack_begin[], stack_end[]; /* firmware.ld */

/* Writes the text over semihosting and ends the program; code 0 means success. */
__attribute__((noreturn)) void end(const char *text, int code);

#endif
