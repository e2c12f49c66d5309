/* Handles Ctrl-C on Windows. */
#include "cli/interrupts.h"

#include <signal.h>

static volatile sig_atomic_t interrupted;

/* Runs in a thread that Windows makes. Windows forgets the handler before it calls it. */
static void note_interrupt(int signal_number) {
  interrupted = signal_number;
  (void)signal(signal_number, note_interrupt);
}

void catch_interrupts(void) { (void)signal(SIGINT, note_interrupt); }

void catch_endings(void) {
  catch_interrupts();
  (void)signal(SIGTERM, note_interrupt);
}

int interrupted_exit(void) { return 128 + (int)interrupted; }

bool is_interrupted(void *ctx) {
  (void)ctx;
  return interrupted;
}

void forget_interrupt(void) { interrupted = 0; }

/* The read itself waits, and Ctrl-C ends it. */
bool wait_for_input(void) { return !interrupted; }
