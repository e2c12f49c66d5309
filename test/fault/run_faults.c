/* Faults in a whole life of a program: open a device, load, run twice, save, reset, destroy.
 *
 *   run_faults alloc|calls PROGRAM DATA DEVICE SCRATCH_FILE [FIRST STEP] */
#include <stdlib.h>
#include <unistd.h>

#include "clave_files.h"
#include "test/fault/net.h"

typedef struct life {
  const char *program_path, *data_path, *device_name, *scratch;
  clave_device *device;
  clave_program *program;
  clave_tensors *data;
  clave_session *session;
} life;

static clave_status run_net(life *l) {
  TRY(clave_session_reset(l->session));
  TRY(set_inputs(l->session, l->data));
  return clave_session_run(l->session, "forward");
}

static clave_status run_life(void *ctx) {
  life *l = ctx;
  clave_session_options options = {
      .size = sizeof options, .profile = true, .allow_custom_kernels = true};
  clave_device_options device_options = {.size = sizeof device_options, .n_threads = 2};
  clave_tensor out;
  unlink(l->scratch);
  TRY(clave_tensors_load(l->data_path, &l->data));
  TRY(clave_program_load(l->program_path, NULL, &l->program));
  TRY(clave_device_open(l->device_name, &device_options, &l->device));
  TRY(clave_session_create(l->program, l->device, &options, &l->session));
  TRY(set_inputs(l->session, l->data));
  TRY(clave_session_run(l->session, "forward"));
  TRY(run_net(l));
  TRY(clave_session_output(l->session, "forward", 0, &out));
  const char *name = "out";
  return clave_tensors_save(l->scratch, &name, &out, 1, NULL, 0);
}

static const char *wrong_output(void *ctx) {
  const life *l = ctx;
  return right_output(l->session, l->data) ? NULL : "no error, yet the output is wrong";
}

/* The session runs as if nothing had been. */
static clave_status resume(void *ctx) {
  life *l = ctx;
  if (!access(l->scratch, F_OK)) abort(); /* an error, yet the output file is there */
  if (!l->session) return NULL;
  TRY(run_net(l));
  if (!right_output(l->session, l->data)) abort();
  return NULL;
}

static void end_life(void *ctx) {
  life *l = ctx;
  clave_session_destroy(l->session);
  clave_tensors_destroy(l->data);
  clave_program_destroy(l->program);
  clave_device_destroy(l->device);
  *l = (life){.program_path = l->program_path,
              .data_path = l->data_path,
              .device_name = l->device_name,
              .scratch = l->scratch};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: run_faults alloc|calls PROGRAM DATA DEVICE SCRATCH [FIRST STEP]\n");
    return 2;
  }
  life l = {
      .program_path = argv[2], .data_path = argv[3], .device_name = argv[4], .scratch = argv[5]};
  const fault_test test = {&l, run_life, wrong_output, resume, end_life};
  int bad = fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
  unlink(l.scratch);
  return bad;
}
