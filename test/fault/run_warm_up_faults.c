/* Faults while the CPU backend answers for a device: in the thread that makes the device ready, in
 * the runs beside it, and in the move. A run is an error or right; what goes wrong in the thread
 * alone is a note.
 *
 *   run_warm_up_faults alloc|calls PROGRAM DATA DEVICE [FIRST STEP] */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "test/fault/net.h"

enum { MAX_SECONDS = 60, RUNS_AFTER = 2 };

typedef struct life {
  const char *program_path, *data_path, *device_name;
  clave_device *device;
  clave_program *program;
  clave_tensors *data;
  clave_session *session;
  bool is_given_up, is_wrong, is_late;
} life;

static void take_note(void *ctx, const char *line) {
  life *l = ctx;
  if (strstr(line, "cannot be made ready")) l->is_given_up = true;
}

static clave_status run_net(life *l) {
  TRY(clave_session_reset(l->session));
  TRY(set_inputs(l->session, l->data));
  TRY(clave_session_run(l->session, "forward"));
  l->is_wrong |= !right_output(l->session, l->data);
  return NULL;
}

static clave_status open_session(life *l) {
  clave_session_options options = {
      .size = sizeof options, .profile = true, .warm_up = CLAVE_WARM_UP_BACKGROUND};
  clave_device_options device = {
      .size = sizeof device, .n_threads = 2, .message = take_note, .message_ctx = l};
  TRY(clave_tensors_load(l->data_path, &l->data));
  TRY(clave_program_load(l->program_path, NULL, &l->program));
  TRY(clave_device_open(l->device_name, &device, &l->device));
  return clave_session_create(l->program, l->device, &options, &l->session);
}

/* Runs until the device has answered twice, or was given up: however busy the machine is, one of
 * them comes. */
static clave_status run_life(void *ctx) {
  const struct timespec moment = {.tv_nsec = 1000000};
  life *l = ctx;
  TRY(open_session(l));
  const int64_t end = clock_ns() + MAX_SECONDS * 1000000000LL;
  for (int by_device = 0; by_device < RUNS_AFTER && !l->is_given_up && !l->is_late;) {
    l->is_late = clock_ns() > end;
    TRY(run_net(l));
    by_device += strcmp(clave_session_answered_by(l->session), "cpu") != 0;
    (void)nanosleep(&moment, NULL);
  }
  return NULL;
}

static const char *wrong_life(void *ctx) {
  const life *l = ctx;
  if (l->is_late) return "the device neither answers nor was given up";
  return l->is_wrong ? "no error, yet the output is wrong" : NULL;
}

static clave_status resume(void *ctx) {
  life *l = ctx;
  if (!l->session) return NULL;
  TRY(run_net(l));
  if (l->is_wrong) abort();
  return NULL;
}

static void end_life(void *ctx) {
  life *l = ctx;
  clave_session_destroy(l->session);
  clave_tensors_destroy(l->data);
  clave_program_destroy(l->program);
  clave_device_destroy(l->device);
  *l = (life){
      .program_path = l->program_path, .data_path = l->data_path, .device_name = l->device_name};
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: run_warm_up_faults alloc|calls PROGRAM DATA DEVICE [FIRST STEP]\n");
    return 2;
  }
  life l = {.program_path = argv[2], .data_path = argv[3], .device_name = argv[4]};
  const fault_test test = {&l, run_life, wrong_life, resume, end_life};
  return fault_loop(&test, argv[1], argc > 5 ? atol(argv[5]) : 0, argc > 6 ? atol(argv[6]) : 1);
}
