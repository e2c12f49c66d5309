/* Fails the Nth allocation while a program is tuned, and its table kept, read, listed and cleared,
 * for N = 0, 1, 2 ... Each time there is an error, or all is right; what is kept is whole, and
 * sessions give right results.
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
  float want[CLASSES]; /* of the first life, in which nothing was tuned yet */
  bool has_want;
  int measured;
} life;

static bool stop_early(void *ctx, const clave_tune_event *e) {
  life *l = ctx;
  l->measured += e->how == CLAVE_TUNE_MEASURED;
  return l->measured < 2;
}

static clave_status set_image(life *l) {
  const int64_t dims[4] = {1, 1, 28, 28};
  const clave_tensor image = clave_tensor_make(CLAVE_F32, 4, dims, l->image);
  return clave_session_set_input(l->session, "forward", 0, &image);
}

static clave_status open_session(life *l) {
  const clave_device_options o = {.size = sizeof o, .cache_dir = l->folder};
  TRY(clave_device_open(l->device_name, &o, &l->device));
  TRY(clave_program_load(l->program_path, NULL, &l->program));
  TRY(clave_session_create(l->program, l->device, NULL, &l->session));
  return set_image(l);
}

static clave_status check_output(life *l) {
  clave_tensor out;
  TRY(set_image(l));
  TRY(clave_session_run(l->session, "forward"));
  TRY(clave_session_output(l->session, "forward", 0, &out));
  if (!l->has_want) memcpy(l->want, out.data, sizeof l->want);
  l->has_want = true;
  if (memcmp(l->want, out.data, sizeof l->want) != 0) abort();
  return NULL;
}

static clave_status run_life(void *ctx) {
  life *l = ctx;
  clave_tune_options o = {.size = sizeof o, .again = true, .report = stop_early, .ctx = l};
  clave_tune_result result = {.size = sizeof result};
  clave_tuning_row row = {.size = sizeof row};
  l->measured = 0;
  TRY(open_session(l));
  TRY(clave_session_tune(l->session, "forward", &o, &result));
  TRY(clave_tuning_put(l->device, "gemm cut", "*", "columns 128"));
  TRY(clave_tuning_save(l->device));
  TRY(clave_tuning_get(l->device, 0, &row));
  clave_session_destroy(l->session);
  clave_device_destroy(l->device);
  l->session = NULL;
  l->device = NULL;
  clave_program_destroy(l->program);
  l->program = NULL;
  TRY(open_session(l)); /* with the table */
  TRY(check_output(l));
  return clave_tuning_clear(l->device);
}

static const char *find_wrong(void *ctx) {
  life *l = ctx;
  clave_device_info info = {.size = sizeof info};
  if (clave_device_get_info(l->device, &info)) return "no info";
  return l->measured < 2 ? "nothing was measured" : info.n_tuned ? "the table is not empty" : NULL;
}

static clave_status resume(void *ctx) {
  life *l = ctx;
  return l->session ? check_output(l) : NULL;
}

static void end_life(void *ctx) {
  life *l = ctx;
  clave_session_destroy(l->session);
  clave_program_destroy(l->program);
  clave_device_destroy(l->device);
  l->session = NULL;
  l->program = NULL;
  l->device = NULL;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  life l = {.program_path = argv[1], .device_name = argv[2], .folder = argv[3]};
  for (int i = 0; i < PIXELS; i++) l.image[i] = (float)(i % 17) / 17;
  const fault_test test = {&l, run_life, find_wrong, resume, end_life};
  return fault_loop(&test, "alloc", 0, strtol(argv[4], NULL, 10));
}
