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

static clave_status run_net(life *life) {
  TRY(clave_session_reset(life->session));
  TRY(set_inputs(life->session, life->data));
  return clave_session_run(life->session, "forward");
}

static clave_status run_life(void *ctx) {
  life *life = ctx;
  clave_session_options options = {
      .size = sizeof options, .profile = true, .allow_custom_kernels = true};
  clave_device_options device_options = {.size = sizeof device_options, .n_threads = 2};
  clave_tensor out;
  unlink(life->scratch);
  TRY(clave_tensors_load(life->data_path, &life->data));
  TRY(clave_program_load(life->program_path, NULL, &life->program));
  TRY(clave_device_open(life->device_name, &device_options, &life->device));
  TRY(clave_session_create(life->program, life->device, &options, &life->session));
  TRY(set_inputs(life->session, life->data));
  TRY(clave_session_run(life->session, "forward"));
  TRY(run_net(life));
  TRY(clave_session_output(life->session, "forward", 0, &out));
  const char *name = "out";
  return clave_tensors_save(life->scratch, &name, &out, 1, NULL, 0);
}

static const char *wrong_output(void *ctx) {
  const life *life = ctx;
  return right_output(life->session, life->data) ? NULL : "no error, yet the output is wrong";
}

/* Runs the session as if there had been no failure. */
static clave_status resume(void *ctx) {
  life *life = ctx;
  if (!access(life->scratch, F_OK)) abort(); /* an error, yet the output file is there */
  if (!life->session) return NULL;
  TRY(run_net(life));
  if (!right_output(life->session, life->data)) abort();
  return NULL;
}

static void end_life(void *ctx) {
  life *alive = ctx;
  clave_session_destroy(alive->session);
  clave_tensors_destroy(alive->data);
  clave_program_destroy(alive->program);
  clave_device_destroy(alive->device);
  *alive = (life){.program_path = alive->program_path,
                  .data_path = alive->data_path,
                  .device_name = alive->device_name,
                  .scratch = alive->scratch};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: run_faults alloc|calls PROGRAM DATA DEVICE SCRATCH [FIRST STEP]\n");
    return 2;
  }
  life life = {
      .program_path = argv[2], .data_path = argv[3], .device_name = argv[4], .scratch = argv[5]};
  const fault_test test = {&life, run_life, wrong_output, resume, end_life};
  int bad = fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
  unlink(life.scratch);
  return bad;
}
