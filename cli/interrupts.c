/* Ctrl-C, and waiting for input. */
#include "cli/interrupts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal_number) { interrupted = signal_number; }

static void catch (int signal_number) {
  struct sigaction action = {.sa_handler = note_interrupt}; /* reads are interrupted, too */
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(signal_number, &action, NULL);
}

void catch_interrupts(void) { catch (SIGINT); }

void catch_endings(void) {
  catch (SIGINT);
  catch (SIGTERM);
  catch (SIGHUP);
}

int interrupted_exit(void) { return 128 + (int)interrupted; }

bool is_interrupted(void *ctx) {
  (void)ctx;
  return interrupted;
}

void forget_interrupt(void) { interrupted = 0; }

/* An interrupt that comes between a look at it and the wait ends the wait, too: it is let through
 * only there. */
bool wait_for_input(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  sigset_t interrupts, before;
  int ready = 0;
  (void)sigemptyset(&interrupts);
  (void)sigaddset(&interrupts, SIGINT);
  (void)sigprocmask(SIG_BLOCK, &interrupts, &before);
  while (ready <= 0 && !is_interrupted(NULL)) {
    ready = ppoll(&input, 1, NULL, &before);
    if (ready < 0 && errno != EINTR) break;
  }
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  return ready > 0;
}
