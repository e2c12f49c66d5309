/* Handles Ctrl-C, and waits for input. */
#include "cli/interrupts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
static int wake[2] = {-1, -1}; /* a pipe that becomes readable on an interrupt */

/* Signal handler. It may run in any thread, including a driver's; the pipe wakes the thread that
 * waits. */
static void note_interrupt(int signal_number) {
  int before = errno;
  interrupted = signal_number;
  if (write(wake[1], "", 1) < 0) errno = before; /* a full pipe is readable, too */
}

static void open_wake(void) {
  if (wake[0] >= 0 || pipe(wake) != 0)
    return; /* without a pipe, only interrupts of the waiting thread end the wait */
  for (int i = 0; i < 2; i++) {
    (void)fcntl(wake[i], F_SETFD, FD_CLOEXEC);
    (void)fcntl(wake[i], F_SETFL, O_NONBLOCK);
  }
}

static void catch (int signal_number) {
  struct sigaction action = {.sa_handler = note_interrupt}; /* no SA_RESTART */
  open_wake();
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

static void empty_wake(void) {
  char some[16];
  while (read(wake[0], some, sizeof some) > 0) continue;
}

void forget_interrupt(void) {
  interrupted = 0;
  empty_wake();
}

/* SIGINT is blocked except during ppoll, so that an interrupt between the check and the wait is not
 * missed. An interrupt handled by another thread is in the pipe. */
bool wait_for_input(void) {
  struct pollfd inputs[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = wake[0], .events = POLLIN}};
  sigset_t interrupts, before;
  int ready = 0;
  (void)sigemptyset(&interrupts);
  (void)sigaddset(&interrupts, SIGINT);
  (void)sigprocmask(SIG_BLOCK, &interrupts, &before);
  while (!inputs[0].revents && !is_interrupted(NULL)) {
    ready = ppoll(inputs, 2, NULL, &before);
    if (ready < 0 && errno != EINTR) break;
    if (inputs[1].revents && !is_interrupted(NULL)) empty_wake(); /* left by a cleared interrupt */
  }
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  return ready > 0 && inputs[0].revents;
}
