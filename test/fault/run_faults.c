/* Fails the Nth allocation, or the Nth OpenCL call, of a whole life of a program (open a device,
 * load, run twice, save, reset, destroy), for N = 0, 1, 2 ... until nothing is left to fail. Each
 * time there is an error, or the outputs are right; nothing stays alive. Leaks of memory are for
 * the sanitizer that this is built with.
 *
 *   run_faults alloc|calls PROGRAM DATA DEVICE SCRATCH_FILE [FIRST STEP]
 *
 * DATA holds "in.A.0", ... and "out.0.0", ... as test/replay.c reads them. `calls` needs the stub
 * OpenCL. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clave.h"
#include "test/fault/alloc.h"

typedef struct life {
  const char *program_path, *data_path, *device_name, *scratch;
  clave_device *device;
  clave_program *program;
  clave_tensors *data;
  clave_session *session;
} life;

static void (*stub_arm)(long n, int error);
static int (*stub_disarm)(void);
static long (*stub_live)(void);

static void arm_call(long n) { stub_arm(n, -5); }
static bool disarm_call(void) { return stub_disarm(); }

#define TRY(call)              \
  do {                         \
    clave_status st_ = (call); \
    if (st_) return st_;       \
  } while (0)

static clave_status set_inputs(life *l) {
  clave_tensor t;
  char name[32];
  for (uint32_t i = 0;
       snprintf(name, sizeof name, "in.A.%u", i), clave_tensors_find(l->data, name, &t); i++)
    TRY(clave_session_set_input(l->session, "forward", i, &t));
  return NULL;
}

static clave_status run_life(life *l, clave_tensor *out) {
  clave_session_options options = {.size = sizeof options, .profile = true};
  clave_device_options device_options = {.size = sizeof device_options, .n_threads = 2};
  TRY(clave_tensors_load(l->data_path, &l->data));
  TRY(clave_program_load(l->program_path, NULL, &l->program));
  TRY(clave_device_open(l->device_name, &device_options, &l->device));
  TRY(clave_session_create(l->program, l->device, &options, &l->session));
  TRY(set_inputs(l));
  TRY(clave_session_run(l->session, "forward"));
  TRY(clave_session_reset(l->session));
  TRY(set_inputs(l));
  TRY(clave_session_run(l->session, "forward"));
  TRY(clave_session_output(l->session, "forward", 0, out));
  const char *name = "out";
  return clave_tensors_save(l->scratch, &name, out, 1, NULL, 0);
}

static void end_life(life *l) {
  clave_session_destroy(l->session);
  clave_tensors_destroy(l->data);
  clave_program_destroy(l->program);
  clave_device_destroy(l->device);
}

/* After a success the output must be what torch gives (f32, absolutely and relatively within 1e-3).
 */
static bool right_output(const life *l, const clave_tensor *got) {
  clave_tensor want;
  if (!clave_tensors_find(l->data, "out.0.0", &want) || want.dtype != CLAVE_F32 ||
      got->rank != want.rank)
    return false;
  size_t n = 1;
  for (int i = 0; i < want.rank; i++) n *= (size_t)want.dims[i];
  for (size_t i = 0; i < n; i++) {
    float g = ((float *)got->data)[i], w = ((float *)want.data)[i];
    if (!(fabsf(g - w) <= 1e-3f + 1e-3f * fabsf(w))) return false;
  }
  return true;
}

/* One life with failure n. Returns what was wrong, NULL if nothing; *fired: the failure came. */
static const char *fault(life l, long n, void (*arm)(long), bool (*disarm)(void), bool *fired) {
  static char text[400];
  clave_tensor out;
  unlink(l.scratch);
  arm(n);
  clave_status status = run_life(&l, &out);
  *fired = disarm();
  const char *wrong = NULL;
  if (status) {
    snprintf(text, sizeof text, "%s", clave_status_message(status));
    if (!*fired)
      wrong = text;
    else if (!*text || strchr(text, '\n'))
      wrong = "the message is not one line";
    else if (!access(l.scratch, F_OK))
      wrong = "an error, yet the output file is there";
  } else if (!right_output(&l, &out)) {
    wrong = "no error, yet the output is wrong";
  }
  clave_status_free(status);
  end_life(&l);
  if (!wrong && stub_live && stub_live() > 0) wrong = "OpenCL objects are still alive";
  return wrong;
}

static bool find_stub(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
  void *f[3] = {NULL, NULL, NULL};
  const char *names[] = {"stub_arm", "stub_disarm", "stub_live"};
  for (int i = 0; library && i < 3; i++) f[i] = dlsym(library, names[i]);
  memcpy(&stub_arm, &f[0], sizeof stub_arm);
  memcpy(&stub_disarm, &f[1], sizeof stub_disarm);
  memcpy(&stub_live, &f[2], sizeof stub_live);
  return f[0] && f[1] && f[2];
}

int main(int argc, char **argv) {
  bool calls = argc > 1 && !strcmp(argv[1], "calls");
  if (argc < 6 || (!calls && strcmp(argv[1], "alloc"))) {
    fprintf(stderr,
            "usage: run_faults alloc|calls PROGRAM DATA DEVICE SCRATCH_FILE [FIRST STEP]\n");
    return 2;
  }
  if (!find_stub() && calls) {
    fprintf(stderr, "run_faults: the libOpenCL.so.1 that is found is not the stub\n");
    return 2;
  }
  life l = {
      .program_path = argv[2], .data_path = argv[3], .device_name = argv[4], .scratch = argv[5]};
  long n = argc > 6 ? atol(argv[6]) : 0, step = argc > 7 ? atol(argv[7]) : 1;
  int passed = 0, failed = 0, n_devices;
  const clave_device_info *list;
  /* The device list is made once a process: a call that fails there is test_faults.py's matter. */
  if (calls) clave_status_free(clave_devices(&list, &n_devices));
  for (bool fired = true; fired; n += step) {
    const char *wrong =
        fault(l, n, calls ? arm_call : alloc_arm, calls ? disarm_call : alloc_disarm, &fired);
    if (wrong) printf("FAIL %s %ld: %s\n", argv[1], n, wrong);
    *(wrong ? &failed : &passed) += 1;
    fflush(stdout);
  }
  unlink(l.scratch);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
