/* Tests drivers that answer wrongly (test/stub_opencl/hostile.h). For each seed, a separate
 * process, since it lists devices once, loads and runs a program. It must end in time, with or
 * without a one-line error.
 *
 *   run_answers PROGRAM DATA FIRST LAST
 * Prints the number of processes that ran the program, that saw no device, and that ended with an
 * error. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/fault/net.h"

enum { SECONDS = 20 };
typedef enum outcome { RAN, NO_DEVICE, FAILED, WRONG } outcome;
static const char *const outcome_names[] = {"ran", "no device", "failed"};

static void (*stub_seed)(uint64_t seed);

static bool find_seed(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *from = NULL;
  if (library) from = dlsym(library, "stub_seed");
  memcpy(&stub_seed, &from, sizeof stub_seed);
  return from != NULL;
}

/* Reads the list's information on every device. */
static clave_status read_devices(int *n_opencl) {
  int n;
  *n_opencl = 0;
  TRY(clave_devices_count(&n));
  for (int i = 0; i < n; i++) {
    clave_device_info info = {.size = sizeof info};
    TRY(clave_devices_get(i, &info));
    if (strlen(info.name) && strcmp(info.kind, "opencl") == 0) ++*n_opencl;
  }
  return NULL;
}

static clave_status run_net(clave_program *program, const clave_tensors *data,
                            clave_device *device) {
  clave_session_options options = {.size = sizeof options, .profile = true};
  clave_session *session = NULL;
  clave_tensor out;
  clave_status st = clave_session_create(program, device, &options, &session);
  for (int i = 0; i < 2 && !st; i++) {
    st = set_inputs(session, data);
    if (!st) st = clave_session_run(session, "forward");
    if (!st) st = clave_session_output(session, "forward", 0, &out);
  }
  clave_session_destroy(session);
  return st;
}

static outcome run_scenario(clave_program *program, const clave_tensors *data) {
  clave_device_options options = {.size = sizeof options, .n_threads = 1};
  clave_device *device = NULL;
  int n_opencl = 0;
  clave_status st = read_devices(&n_opencl);
  if (!st && n_opencl) st = clave_device_open("opencl:0", &options, &device);
  if (device) st = run_net(program, data, device);
  clave_device_destroy(device);
  if (!st) return n_opencl ? RAN : NO_DEVICE;
  const char *message = clave_status_message(st);
  const bool is_line = *message && !strchr(message, '\n');
  if (!is_line) printf("not one line: '%s'\n", message);
  clave_status_free(st);
  return is_line ? FAILED : WRONG;
}

/* Runs a scenario in a child process. */
static outcome run_seed(uint64_t seed, clave_program *program, const clave_tensors *data) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(SECONDS);
    stub_seed(seed);
    exit((int)run_scenario(program, data));
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) abort();
  if (WIFEXITED(status) && WEXITSTATUS(status) < WRONG) return (outcome)WEXITSTATUS(status);
  printf("FAIL answers %llu: %s %d\n", (unsigned long long)seed,
         WIFSIGNALED(status) ? "signal" : "exit",
         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return WRONG;
}

int main(int argc, char **argv) {
  clave_program *program;
  clave_tensors *data;
  int counts[WRONG + 1] = {0};
  if (argc < 5 || !find_seed()) {
    fprintf(stderr, argc < 5 ? "usage: run_answers PROGRAM DATA FIRST LAST\n"
                             : "the libOpenCL.so.1 that is found is not the stub\n");
    return 2;
  }
  clave_status st = clave_program_load(argv[1], NULL, &program);
  if (!st) st = clave_tensors_load(argv[2], &data);
  if (st) {
    fprintf(stderr, "%s\n", clave_status_message(st));
    return 2;
  }
  for (long seed = atol(argv[3]); seed < atol(argv[4]); seed++)
    counts[run_seed((uint64_t)seed, program, data)]++;
  for (int i = 0; i < WRONG; i++) printf("%s %d\n", outcome_names[i], counts[i]);
  printf("%d passed, %d failed\n", counts[RAN] + counts[NO_DEVICE] + counts[FAILED], counts[WRONG]);
  clave_tensors_destroy(data);
  clave_program_destroy(program);
  return counts[WRONG] != 0;
}
