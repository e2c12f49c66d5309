/* Faults while the CPU backend runs a session for a device: in the thread that prepares the device,
 * in concurrent runs, and in the move. A run is right or an error; a fault in the thread only is a
 * note.
 *
 *   run_warm_up_faults alloc|calls PROGRAM DATA DEVICE [FIRST STEP] */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "test/fault/net.h"

enum { MAX_SECONDS = 60, RUNS_AFTER = 2 };

typedef struct scenario {
  const char *program_path, *data_path, *device_name;
  clave_device *device;
  clave_program *program;
  clave_tensors *data;
  clave_session *session;
  bool is_given_up, is_wrong, is_late;
} scenario;

static void take_note(void *ctx, const char *line) {
  scenario *scenario = ctx;
  fault_note(line);
  if (strstr(line, "preparing")) scenario->is_given_up = true;
}

static clave_status run_net(scenario *scenario) {
  TRY(clave_session_reset(scenario->session));
  TRY(set_inputs(scenario->session, scenario->data));
  TRY(clave_session_run(scenario->session, "forward"));
  scenario->is_wrong |= !right_output(scenario->session, scenario->data);
  return NULL;
}

static clave_status open_session(scenario *scenario) {
  clave_session_options options = {
      .size = sizeof options, .profile = true, .warm_up = CLAVE_WARM_UP_BACKGROUND};
  clave_device_options device = {
      .size = sizeof device, .n_threads = 2, .message = take_note, .message_ctx = scenario};
  TRY(clave_tensors_load(scenario->data_path, &scenario->data));
  TRY(clave_program_load(scenario->program_path, NULL, &scenario->program));
  TRY(clave_device_open(scenario->device_name, &device, &scenario->device));
  return clave_session_create(scenario->program, scenario->device, &options, &scenario->session);
}

/* Runs until the device has run the session twice, or cannot be used. */
static clave_status run_scenario(void *ctx) {
  const struct timespec moment = {.tv_nsec = 1000000};
  scenario *scenario = ctx;
  TRY(open_session(scenario));
  const int64_t end = clock_ns() + MAX_SECONDS * 1000000000LL;
  for (int by_device = 0; by_device < RUNS_AFTER && !scenario->is_given_up && !scenario->is_late;) {
    scenario->is_late = clock_ns() > end;
    TRY(run_net(scenario));
    by_device += strcmp(clave_session_answered_by(scenario->session), "cpu") != 0;
    (void)nanosleep(&moment, NULL);
  }
  return NULL;
}

static const char *check_scenario(void *ctx) {
  const scenario *scenario = ctx;
  if (scenario->is_late) return "the device neither answers nor was given up";
  return scenario->is_wrong ? "no error, yet the output is wrong" : NULL;
}

static clave_status resume(void *ctx) {
  scenario *scenario = ctx;
  if (!scenario->session) return NULL;
  TRY(run_net(scenario));
  if (scenario->is_wrong) abort();
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
                      .device_name = alive->device_name};
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: run_warm_up_faults alloc|calls PROGRAM DATA DEVICE [FIRST STEP]\n");
    return 2;
  }
  scenario scenario = {.program_path = argv[2], .data_path = argv[3], .device_name = argv[4]};
  const fault_test test = {&scenario, run_scenario, check_scenario, resume, end_scenario};
  return fault_loop(&test, argv[1], argc > 5 ? atol(argv[5]) : 0, argc > 6 ? atol(argv[6]) : 1);
}
