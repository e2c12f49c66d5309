/* Faults in the calls that use a program: open a device, load, run twice, save, reset, destroy.
 *
 *   run_faults alloc|calls PROGRAM DATA DEVICE SCRATCH_FILE [FIRST STEP] */
#include <stdlib.h>
#include <unistd.h>

#include "clave_files.h"
#include "test/fault/net.h"

typedef struct scenario {
  const char *program_path, *data_path, *device_name, *scratch;
  clave_device *device;
  clave_program *program;
  clave_tensors *data;
  clave_session *session;
} scenario;

static clave_status run_net(scenario *scenario) {
  TRY(clave_session_reset(scenario->session));
  TRY(set_inputs(scenario->session, scenario->data));
  return clave_session_run(scenario->session, "forward");
}

static clave_status run_scenario(void *ctx) {
  scenario *scenario = ctx;
  clave_session_options options = {
      .size = sizeof options, .profile = true, .allow_custom_kernels = true};
  clave_device_options device_options = {.size = sizeof device_options, .n_threads = 2};
  clave_tensor out;
  unlink(scenario->scratch);
  TRY(clave_tensors_load(scenario->data_path, &scenario->data));
  TRY(clave_program_load(scenario->program_path, NULL, &scenario->program));
  TRY(clave_device_open(scenario->device_name, &device_options, &scenario->device));
  TRY(clave_session_create(scenario->program, scenario->device, &options, &scenario->session));
  TRY(set_inputs(scenario->session, scenario->data));
  TRY(clave_session_run(scenario->session, "forward"));
  TRY(run_net(scenario));
  TRY(clave_session_output(scenario->session, "forward", 0, &out));
  const char *name = "out";
  return clave_tensors_save(scenario->scratch, &name, &out, 1, NULL, 0);
}

static const char *wrong_output(void *ctx) {
  const scenario *scenario = ctx;
  return right_output(scenario->session, scenario->data) ? NULL
                                                         : "no error, yet the output is wrong";
}

/* Runs the session as if there had been no failure. */
static clave_status resume(void *ctx) {
  scenario *scenario = ctx;
  if (!access(scenario->scratch, F_OK)) abort(); /* the run failed, but the output file exists */
  if (!scenario->session) return NULL;
  TRY(run_net(scenario));
  if (!right_output(scenario->session, scenario->data)) abort();
  return NULL;
}

static void end_scenario(void *ctx) {
  scenario *alive = ctx;
  clave_session_destroy(alive->session);
  clave_tensors_destroy(alive->data);
  clave_program_destroy(alive->program);
  clave_device_destroy(alive->device);
  *alive = (scenario){.program_path = alive->program_path,
                      .data_path = alive->data_path,
                      .device_name = alive->device_name,
                      .scratch = alive->scratch};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: run_faults alloc|calls PROGRAM DATA DEVICE SCRATCH [FIRST STEP]\n");
    return 2;
  }
  scenario scenario = {
      .program_path = argv[2], .data_path = argv[3], .device_name = argv[4], .scratch = argv[5]};
  const fault_test test = {&scenario, run_scenario, wrong_output, resume, end_scenario};
  int bad = fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
  unlink(scenario.scratch);
  return bad;
}
