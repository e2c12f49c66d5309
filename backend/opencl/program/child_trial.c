/* Tasks other than programs that a child process does first, because a driver may not survive them:
 * the list of devices, and the first products of CLBlast. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/build_messages.h"
#include "base/clock.h"
#include "base/process.h"

enum { CRASH_MS = 2000, READY_MS = 10000 };

bool is_crash(int ended) {
  static const int kills[] = {SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGPIPE, SIGTERM};
  for (size_t i = 0; i < sizeof kills / sizeof *kills; i++)
    if (ended == 128 + kills[i]) return false;
  return true;
}

void describe_trial_end(int late_s, int ended, char *out, size_t size) {
  if (late_s)
    (void)snprintf(out, size, "the driver did not return within %d s", late_s);
  else if (ended > 128)
    (void)snprintf(out, size, "%s (signal %d)",
                   is_crash(ended) ? "the driver crashed" : "the process that tried it was ended",
                   ended - 128);
  else
    (void)snprintf(out, size, "the driver ended the process (exit status %d)", ended);
}

/* Receives a message of this kind and number without a payload to keep. */
static bool receive_expected(int socket, int64_t end, uint32_t kind, uint32_t number) {
  message message;
  char *payload;
  const int64_t left_ms = (end - clock_ns()) / 1000000;
  if (!message_receive(socket, left_ms > 0 ? (int)left_ms : 0, &message, &payload)) return false;
  free(payload);
  return message.kind == kind && message.number == number;
}

/* Starts a child, without marks and children of its own, and waits for its answer. The driver is
 * not to blame for a child that is never ready or does not know the task. */
static child_outcome query_child(const char *helper, const greeting *task, int seconds,
                                 char *reason, size_t size) {
  static const char *const arguments[] = {"clave", "build-kernels", NULL}, *const settings[] = {
                                                                               "CLAVE_HELPER=off",
                                                                               NULL};
  child *child;
  clave_status st = child_start(helper, arguments, settings, &child);
  status_free(st);
  if (st) return CHILD_UNTRIED;
  const int socket = child_socket(child);
  const bool is_ready =
      message_send(socket, MESSAGE_GREETING, 0, task, sizeof *task, "", 0) &&
      receive_expected(socket, clock_ns() + (int64_t)READY_MS * 1000000, MESSAGE_READY, task->task);
  const int64_t end = clock_ns() + (int64_t)seconds * 1000000000;
  const bool good = is_ready && receive_expected(socket, end, MESSAGE_BUILT, task->task);
  const bool is_late = is_ready && clock_ns() >= end;
  const int ended = child_end(child, good || is_late || !is_ready ? 0 : CRASH_MS);
  if (good) return CHILD_GOOD;
  if (!is_ready) return CHILD_UNTRIED;
  /* A child that reports an error exits with status 1. */
  if (!is_late && (ended <= 1 || !is_crash(ended))) return CHILD_UNTRIED;
  describe_trial_end(is_late ? seconds : 0, ended, reason, size);
  return CHILD_HARMED;
}

child_outcome child_try(const greeting *task, int seconds, char *reason, size_t size) {
  char *helper = find_helper();
  const child_outcome outcome =
      helper ? query_child(helper, task, seconds, reason, size) : CHILD_UNTRIED;
  free(helper);
  return outcome;
}
