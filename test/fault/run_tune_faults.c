/* Fails the Nth allocation while a program is tuned, and its table kept, read, listed and cleared,
 * for N = 0, 1, 2 ... Each time there is an error, or all is right; what is kept is whole, and
 * sessions compute right results.
 *
 *   run_tune_faults PROGRAM DEVICE FOLDER STEP */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_tune.h"
#include "test/fault/loop.h"

enum { CLASSES = 10, PIXELS = 28 * 28 };

typedef struct life {
  const char *program_path, *device_name, *folder;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  float image[PIXELS];
  float want[CLASSES]; /* results of the first life, before any tuning */
  bool has_want;
  int measured;
} life;

static bool stop_early(void *ctx, const clave_tune_event *event) {
  life *life = ctx;
  life->measured += event->how == CLAVE_TUNE_MEASURED;
  return life->measured < 2;
}

static clave_status set_image(life *life) {
  const int64_t dims[4] = {1, 1, 28, 28};
  const clave_tensor image = clave_tensor_make(CLAVE_F32, 4, dims, life->image);
  return clave_session_set_input(life->session, "forward", 0, &image);
}

static clave_status open_session(life *life) {
  const clave_device_options options = {.size = sizeof options, .cache_dir = life->folder};
  TRY(clave_device_open(life->device_name, &options, &life->device));
  TRY(clave_program_load(life->program_path, NULL, &life->program));
  TRY(clave_session_create(life->program, life->device, NULL, &life->session));
  return set_image(life);
}

static clave_status check_output(life *life) {
  clave_tensor out;
  TRY(set_image(life));
  TRY(clave_session_run(life->session, "forward"));
  TRY(clave_session_output(life->session, "forward", 0, &out));
  if (!life->has_want) memcpy(life->want, out.data, sizeof life->want);
  life->has_want = true;
  if (memcmp(life->want, out.data, sizeof life->want) != 0) abort();
  return NULL;
}

static clave_status run_life(void *ctx) {
  life *life = ctx;
  clave_tune_options options = {
      .size = sizeof options, .again = true, .report = stop_early, .ctx = life};
  clave_tune_result result = {.size = sizeof result};
  clave_tuning_row row = {.size = sizeof row};
  life->measured = 0;
  TRY(open_session(life));
  TRY(clave_session_tune(life->session, "forward", &options, &result));
  TRY(clave_tuning_put(life->device, "gemm cut", "*", "columns 128"));
  TRY(clave_tuning_save(life->device));
  TRY(clave_tuning_get(life->device, 0, &row));
  clave_session_destroy(life->session);
  clave_device_destroy(life->device);
  life->session = NULL;
  life->device = NULL;
  clave_program_destroy(life->program);
  life->program = NULL;
  TRY(open_session(life)); /* with the table */
  TRY(check_output(life));
  return clave_tuning_clear(life->device);
}

static const char *find_wrong(void *ctx) {
  life *life = ctx;
  clave_device_info info = {.size = sizeof info};
  if (clave_device_get_info(life->device, &info)) return "no info";
  return life->measured < 2 ? "nothing was measured"
         : info.n_tuned     ? "the table is not empty"
                            : NULL;
}

static clave_status resume(void *ctx) {
  life *life = ctx;
  return life->session ? check_output(life) : NULL;
}

static void end_life(void *ctx) {
  life *life = ctx;
  clave_session_destroy(life->session);
  clave_program_destroy(life->program);
  clave_device_destroy(life->device);
  life->session = NULL;
  life->program = NULL;
  life->device = NULL;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  life life = {.program_path = argv[1], .device_name = argv[2], .folder = argv[3]};
  for (int i = 0; i < PIXELS; i++) life.image[i] = (float)(i % 17) / 17;
  const fault_test test = {&life, run_life, find_wrong, resume, end_life};
  return fault_loop(&test, "alloc", 0, strtol(argv[4], NULL, 10));
}
