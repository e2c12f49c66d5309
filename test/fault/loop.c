#include "test/fault/loop.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "test/fault/alloc.h"

enum { OUT_OF_RESOURCES = -5 };

static void (*stub_arm)(long n, int error);
static int (*stub_disarm)(void);
static long (*stub_live)(void);

static bool find_stub(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
  void *from[3] = {NULL, NULL, NULL};
  const char *names[] = {"stub_arm", "stub_disarm", "stub_live"};
  for (int i = 0; library && i < 3; i++) from[i] = dlsym(library, names[i]);
  memcpy(&stub_arm, &from[0], sizeof stub_arm);
  memcpy(&stub_disarm, &from[1], sizeof stub_disarm);
  memcpy(&stub_live, &from[2], sizeof stub_live);
  return from[0] && from[1] && from[2];
}

static clave_status run_armed(const fault_test *test, bool calls, long n, bool *fired) {
  if (calls) {
    stub_arm(n, OUT_OF_RESOURCES);
  } else {
    alloc_arm(n);
  }
  clave_status status = test->run(test->scenario);
  *fired = calls ? stub_disarm() : alloc_disarm();
  return status;
}

/* True if the device was lost. It is not called any more, not even to release its objects. */
static bool tells_loss(const char *message) { return strstr(message, " was lost") != NULL; }

static bool is_noted; /* a note of this run told a loss */

void fault_note(const char *line) { is_noted |= tells_loss(line); }

/* True if a kernel was refused. It stays refused, and with a strict self-check its op cannot
 * move. */
static bool tells_refusal(const char *message) {
  return strstr(message, "clCreateProgramWithSource") || strstr(message, "clBuildProgram") ||
         strstr(message, "clCreateKernel") || strstr(message, "clGetKernelWorkGroupInfo") ||
         strstr(message, "clEnqueueNDRangeKernel");
}

/* Returns the problem of a scenario that ended with this status, or NULL. */
static const char *check(const fault_test *test, clave_status status, bool fired, bool *lost) {
  static char text[800];
  const char *message = clave_status_message(status), *wrong = NULL;
  if (!status) return test->wrong(test->scenario);
  snprintf(text, sizeof text, "%s", message);
  if (!fired) return text;
  if (!*message || strchr(message, '\n')) return "the message is not one line";
  clave_status later = test->resume(test->scenario);
  *lost = tells_loss(message) || tells_loss(clave_status_message(later));
  const bool is_same = strcmp(message, clave_status_message(later)) == 0;
  if (later && !*lost && !(is_same && tells_refusal(message))) {
    snprintf(text, sizeof text, "after \"%.300s\": %.300s", message, clave_status_message(later));
    wrong = text;
  }
  clave_status_free(later);
  return wrong;
}

/* Runs a scenario with failure n. Returns a description of the problem, or NULL. *fired: set if the
 * failure occurred. */
static const char *fault(const fault_test *test, bool calls, long n, bool *fired) {
  static long leaked; /* objects of lost devices */
  bool lost = is_noted = false;
  clave_status status = run_armed(test, calls, n, fired);
  const char *wrong = check(test, status, *fired, &lost);
  clave_status_free(status);
  test->end(test->scenario);
  if (lost || is_noted) leaked = stub_live();
  if (!wrong && stub_live && stub_live() > leaked) wrong = "OpenCL objects are still alive";
  return wrong;
}

int fault_loop(const fault_test *test, const char *kind, long first, long step) {
  bool calls = !strcmp(kind, "calls");
  int passed = 0, failed = 0, n_devices;
  if (!find_stub() && calls) {
    fprintf(stderr, "the libOpenCL.so.1 that is found is not the stub\n");
    return 2;
  }
  /* The device list is made once per process, so failures in it are left to test_faults.py. */
  if (calls) clave_status_free(clave_devices_count(&n_devices));
  for (bool fired = true; fired; first += step) {
    const char *wrong = fault(test, calls, first, &fired);
    if (wrong) printf("FAIL %s %ld: %s\n", kind, first, wrong);
    *(wrong ? &failed : &passed) += 1;
    fflush(stdout);
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
