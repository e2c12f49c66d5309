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
  life *life = ctx;
  if (strstr(line, "preparing")) life->is_given_up = true;
}

static clave_status run_net(life *life) {
  TRY(clave_session_reset(life->session));
  TRY(set_inputs(life->session, life->data));
  TRY(clave_session_run(life->session, "forward"));
  life->is_wrong |= !right_output(life->session, life->data);
  return NULL;
}

static clave_status open_session(life *life) {
  clave_session_options options = {
      .size = sizeof options, .profile = true, .warm_up = CLAVE_WARM_UP_BACKGROUND};
  clave_device_options device = {
      .size = sizeof device, .n_threads = 2, .message = take_note, .message_ctx = life};
  TRY(clave_tensors_load(life->data_path, &life->data));
  TRY(clave_program_load(life->program_path, NULL, &life->program));
  TRY(clave_device_open(life->device_name, &device, &life->device));
  return clave_session_create(life->program, life->device, &options, &life->session);
}

/* Runs until the device has answered twice, or was given up: one of them happens on any machine. */
static clave_status run_life(void *ctx) {
  const struct timespec moment = {.tv_nsec = 1000000};
  life *life = ctx;
  TRY(open_session(life));
  const int64_t end = clock_ns() + MAX_SECONDS * 1000000000LL;
  for (int by_device = 0; by_device < RUNS_AFTER && !life->is_given_up && !life->is_late;) {
    life->is_late = clock_ns() > end;
    TRY(run_net(life));
    by_device += strcmp(clave_session_answered_by(life->session), "cpu") != 0;
    (void)nanosleep(&moment, NULL);
  }
  return NULL;
}

static const char *wrong_life(void *ctx) {
  const life *life = ctx;
  if (life->is_late) return "the device neither answers nor was given up";
  return life->is_wrong ? "no error, yet the output is wrong" : NULL;
}

static clave_status resume(void *ctx) {
  life *life = ctx;
  if (!life->session) return NULL;
  TRY(run_net(life));
  if (life->is_wrong) abort();
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
                  .device_name = alive->device_name};
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: run_warm_up_faults alloc|calls PROGRAM DATA DEVICE [FIRST STEP]\n");
    return 2;
  }
  life life = {.program_path = argv[2], .data_path = argv[3], .device_name = argv[4]};
  const fault_test test = {&life, run_life, wrong_life, resume, end_life};
  return fault_loop(&test, argv[1], argc > 5 ? atol(argv[5]) : 0, argc > 6 ? atol(argv[6]) : 1);
}
