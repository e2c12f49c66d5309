/* Signals and timers for Windows, which sends only SIGINT, SIGTERM and SIGABRT. */
#include <stdbool.h>
#include <windows.h>

#undef signal

static signal_handler at_alarm = SIG_DFL;
static HANDLE timer;

signal_handler posix_signal(int number, signal_handler handler) {
  if (number == SIGALRM) at_alarm = handler;
  return number == SIGINT || number == SIGTERM || number == SIGABRT ? signal(number, handler)
                                                                    : SIG_DFL;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  (void)before;
  return posix_signal(number, action->sa_handler) == SIG_ERR ? -1 : 0;
}

static VOID CALLBACK fire(PVOID ctx, BOOLEAN fired) {
  (void)ctx;
  (void)fired;
  if (at_alarm == SIG_DFL) ExitProcess(128 + SIGALRM); /* as a shell reports it */
  if (at_alarm != SIG_IGN) at_alarm(SIGALRM);
}

int setitimer(int which, const struct itimerval *value, struct itimerval *before) {
  const DWORD first = (DWORD)value->it_value.tv_sec * 1000,
              period = (DWORD)value->it_interval.tv_sec * 1000;
  (void)which;
  (void)before;
  if (timer) (void)DeleteTimerQueueTimer(NULL, timer, INVALID_HANDLE_VALUE);
  timer = NULL;
  return !first || CreateTimerQueueTimer(&timer, NULL, fire, NULL, first, period, 0) ? 0 : -1;
}

unsigned alarm(unsigned seconds) {
  const struct itimerval once = {.it_value.tv_sec = (time_t)seconds};
  return setitimer(ITIMER_REAL, &once, NULL) == 0 ? 0 : seconds;
}
