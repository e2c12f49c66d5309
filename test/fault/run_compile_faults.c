/* Fails the Nth allocation while a program is compiled, to sources and to an executable, for N = 0,
 * 1, 2 ... until nothing is left to fail. Each run ends with an error and no files, or with
 * complete output.
 *
 *   run_compile_faults PROGRAM SIZE FOLDER COMPILER STEP MODEL LIBRARY
 *   run_compile_faults PROGRAM SIZE FOLDER COMPILER STEP KERNELS
 *
 * SIZE: the name of an open size, which becomes 1. FOLDER: for what is written. COMPILER: a command
 * that makes its output as quickly as it can. MODEL: a language model, which is carried,
 * as PROGRAM is for OpenCL. LIBRARY: libclave.a. KERNELS: a folder of some that PROGRAM uses: it
 * becomes a library, an object for firmware, and an executable of that folder's kernels with
 * results that are kept and the list of what went in. */
#include <stdio.h>
#include <stdlib.h>

#include "clave_compile.h"
#include "test/fault/loop.h"

enum { PATH_SIZE = 512 };

typedef struct scenario {
  const char *program, *size, *compiler, *llm, *library, *kernels;
  char executable[PATH_SIZE], sbom[PATH_SIZE], sources[PATH_SIZE], model[PATH_SIZE + 16],
      carried[PATH_SIZE], story[PATH_SIZE], shared[PATH_SIZE], shared_header[PATH_SIZE],
      bare[PATH_SIZE], bare_header[PATH_SIZE];
  int n_half; /* number of scenarios that left incomplete output */
} scenario;

static clave_status compile(const scenario *scenario) {
  const clave_compile_dim dim = {scenario->size, 1};
  const clave_compile_options options = {.size = sizeof options,
                                         .dims = &dim,
                                         .n_dims = 1,
                                         .compiler = scenario->compiler,
                                         .march = "native"};
  clave_compile_options alone = options;
  alone.static_memory = true;
  alone.sbom = scenario->sbom;
  clave_program *program;
  TRY(clave_program_load(scenario->program, NULL, &program));
  clave_status st = clave_compile_sources(program, scenario->sources, &alone);
  if (!st) st = clave_compile(program, scenario->executable, &options);
  clave_program_destroy(program);
  return st;
}

static clave_status carry(const scenario *scenario, const char *path, const char *target,
                          const char *to) {
  const clave_compile_options options = {.size = sizeof options,
                                         .compiler = scenario->compiler,
                                         .target = target,
                                         .static_library = scenario->library};
  clave_program *program;
  TRY(clave_program_load(path, NULL, &program));
  clave_status st = clave_compile(program, to, &options);
  clave_program_destroy(program);
  return st;
}

/* Compiles with the options that other scenarios do not use. */
static clave_status compile_options_of(const scenario *scenario) {
  const clave_compile_dim dim = {scenario->size, 1};
  const clave_compile_options options = {
      .size = sizeof options, .dims = &dim, .n_dims = 1, .compiler = scenario->compiler};
  clave_compile_options shared = options, bare = options, own = options;
  shared.library = "shared";
  shared.sbom = scenario->sbom;
  bare.library = "bare";
  bare.bare = true;
  own.kernel_folder = scenario->kernels;
  own.verify = true;
  own.sbom = scenario->sbom;
  clave_program *program;
  TRY(clave_program_load(scenario->program, NULL, &program));
  clave_status st = clave_compile(program, scenario->shared, &shared);
  if (!st) st = clave_compile(program, scenario->bare, &bare);
  if (!st) st = clave_compile(program, scenario->executable, &own);
  clave_program_destroy(program);
  return st;
}

static bool exists(const char *path) {
  FILE *file = fopen(path, "r");
  if (file) (void)fclose(file);
  return file;
}

static clave_status run_scenario(void *ctx) {
  const scenario *scenario = ctx;
  if (scenario->kernels) return compile_options_of(scenario);
  TRY(compile(scenario));
  TRY(carry(scenario, scenario->program, "opencl", scenario->carried));
  return carry(scenario, scenario->llm, "c", scenario->story);
}

static const char *find_wrong(void *ctx) {
  const scenario *scenario = ctx;
  if (scenario->kernels)
    return exists(scenario->shared) && exists(scenario->bare) && exists(scenario->executable) &&
                   exists(scenario->sbom)
               ? NULL
               : "something is not there";
  if (!exists(scenario->carried) || !exists(scenario->story))
    return "no executable that carries its program";
  return !exists(scenario->executable) ? "no executable"
         : !exists(scenario->model)    ? "no sources"
                                       : NULL;
}

static clave_status resume(void *ctx) {
  (void)ctx;
  return NULL;
}

/* True if a library or its header, or the list of inputs or the library, exists without the
 * other. */
static bool is_half_made(const scenario *scenario) {
  return exists(scenario->shared) != exists(scenario->shared_header) ||
         exists(scenario->bare) != exists(scenario->bare_header) ||
         (scenario->kernels && exists(scenario->sbom) != exists(scenario->shared));
}

/* Removes nothing: the test looks for files that remain in the runner's folder. */
static void end_scenario(void *ctx) {
  scenario *scenario = ctx;
  if (is_half_made(scenario)) scenario->n_half++;
  char command[9 * PATH_SIZE + 64];
  (void)snprintf(command, sizeof command, "rm -rf '%s' '%s' '%s' '%s' '%s' '%s' '%s' '%s' '%s'",
                 scenario->sources, scenario->executable, scenario->carried, scenario->story,
                 scenario->sbom, scenario->shared, scenario->bare, scenario->shared_header,
                 scenario->bare_header);
  if (system(command) != 0) printf("FAIL %s\n", command);
}

int main(int argc, char **argv) {
  if (argc != 8 && argc != 7) return 2;
  scenario scenario = {.program = argv[1], .size = argv[2], .compiler = argv[4]};
  if (argc == 7) scenario.kernels = argv[6];
  if (argc == 8) scenario.llm = argv[6], scenario.library = argv[7];
  (void)snprintf(scenario.executable, sizeof scenario.executable, "%s/made", argv[3]);
  (void)snprintf(scenario.sbom, sizeof scenario.sbom, "%s/sbom", argv[3]);
  (void)snprintf(scenario.sources, sizeof scenario.sources, "%s/sources", argv[3]);
  (void)snprintf(scenario.carried, sizeof scenario.carried, "%s/carried", argv[3]);
  (void)snprintf(scenario.story, sizeof scenario.story, "%s/story", argv[3]);
  (void)snprintf(scenario.shared, sizeof scenario.shared, "%s/shared.so", argv[3]);
  (void)snprintf(scenario.shared_header, sizeof scenario.shared_header, "%s/shared.h", argv[3]);
  (void)snprintf(scenario.bare, sizeof scenario.bare, "%s/bare.o", argv[3]);
  (void)snprintf(scenario.bare_header, sizeof scenario.bare_header, "%s/bare.h", argv[3]);
  (void)snprintf(scenario.model, sizeof scenario.model, "%s/model.c", scenario.sources);
  const fault_test test = {&scenario, run_scenario, find_wrong, resume, end_scenario};
  const int code = fault_loop(&test, "alloc", 0, strtol(argv[5], NULL, 10));
  if (scenario.n_half) printf("FAIL %d lives left something half made\n", scenario.n_half);
  return scenario.n_half ? 1 : code;
}
