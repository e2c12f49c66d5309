/* Fails the Nth allocation while a program is tuned, and its table kept, read, listed and cleared,
 * for N = 0, 1, 2 ... Each run ends with an error or is right; the stored table is complete, and
 * sessions compute right results.
 *
 *   run_tune_faults PROGRAM DEVICE FOLDER STEP */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_tune.h"
#include "test/fault/loop.h"

enum { CLASSES = 10, PIXELS = 28 * 28 };

typedef struct scenario {
  const char *program_path, *device_name, *folder;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  float image[PIXELS];
  float want[CLASSES]; /* results of the first scenario, before any tuning */
  bool has_want;
  int measured;
} scenario;

static bool stop_early(void *ctx, const clave_tune_event *event) {
  scenario *scenario = ctx;
  scenario->measured += event->how == CLAVE_TUNE_MEASURED;
  return scenario->measured < 2;
}

static clave_status set_image(scenario *scenario) {
  const int64_t dims[4] = {1, 1, 28, 28};
  const clave_tensor image = clave_tensor_make(CLAVE_F32, 4, dims, scenario->image);
  return clave_session_set_input(scenario->session, "forward", 0, &image);
}

static clave_status open_session(scenario *scenario) {
  const clave_device_options options = {.size = sizeof options, .cache_dir = scenario->folder};
  TRY(clave_device_open(scenario->device_name, &options, &scenario->device));
  TRY(clave_program_load(scenario->program_path, NULL, &scenario->program));
  TRY(clave_session_create(scenario->program, scenario->device, NULL, &scenario->session));
  return set_image(scenario);
}

static clave_status check_output(scenario *scenario) {
  clave_tensor out;
  TRY(set_image(scenario));
  TRY(clave_session_run(scenario->session, "forward"));
  TRY(clave_session_output(scenario->session, "forward", 0, &out));
  if (!scenario->has_want) memcpy(scenario->want, out.data, sizeof scenario->want);
  scenario->has_want = true;
  if (memcmp(scenario->want, out.data, sizeof scenario->want) != 0) abort();
  return NULL;
}

static clave_status run_scenario(void *ctx) {
  scenario *scenario = ctx;
  clave_tune_options options = {
      .size = sizeof options, .again = true, .report = stop_early, .ctx = scenario};
  clave_tune_result result = {.size = sizeof result};
  clave_tuning_row row = {.size = sizeof row};
  scenario->measured = 0;
  TRY(open_session(scenario));
  TRY(clave_session_tune(scenario->session, "forward", &options, &result));
  TRY(clave_tuning_put(scenario->device, "gemm cut", "*", "columns 128"));
  TRY(clave_tuning_save(scenario->device));
  TRY(clave_tuning_get(scenario->device, 0, &row));
  clave_session_destroy(scenario->session);
  clave_device_destroy(scenario->device);
  scenario->session = NULL;
  scenario->device = NULL;
  clave_program_destroy(scenario->program);
  scenario->program = NULL;
  TRY(open_session(scenario)); /* with the table */
  TRY(check_output(scenario));
  return clave_tuning_clear(scenario->device);
}

static const char *find_wrong(void *ctx) {
  scenario *scenario = ctx;
  clave_device_info info = {.size = sizeof info};
  if (clave_device_get_info(scenario->device, &info)) return "no info";
  return scenario->measured < 2 ? "nothing was measured"
         : info.n_tuned         ? "the table is not empty"
                                : NULL;
}

static clave_status resume(void *ctx) {
  scenario *scenario = ctx;
  return scenario->session ? check_output(scenario) : NULL;
}

static void end_scenario(void *ctx) {
  scenario *scenario = ctx;
  clave_session_destroy(scenario->session);
  clave_program_destroy(scenario->program);
  clave_device_destroy(scenario->device);
  scenario->session = NULL;
  scenario->program = NULL;
  scenario->device = NULL;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  scenario scenario = {.program_path = argv[1], .device_name = argv[2], .folder = argv[3]};
  for (int i = 0; i < PIXELS; i++) scenario.image[i] = (float)(i % 17) / 17;
  const fault_test test = {&scenario, run_scenario, find_wrong, resume, end_scenario};
  return fault_loop(&test, "alloc", 0, strtol(argv[4], NULL, 10));
}
