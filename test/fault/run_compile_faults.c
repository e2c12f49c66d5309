/* Fails the Nth allocation while a program is compiled, to sources and to an executable, for N = 0,
 * 1, 2 ... until nothing is left to fail. Each time there is an error and no file remains, or all
 * is written.
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

typedef struct life {
  const char *program, *size, *compiler, *llm, *library, *kernels;
  char executable[PATH_SIZE], sbom[PATH_SIZE], sources[PATH_SIZE], model[PATH_SIZE + 16],
      carried[PATH_SIZE], story[PATH_SIZE], shared[PATH_SIZE], shared_header[PATH_SIZE],
      bare[PATH_SIZE], bare_header[PATH_SIZE];
  int n_half; /* number of lives that left incomplete output */
} life;

static clave_status compile(const life *life) {
  const clave_compile_dim dim = {life->size, 1};
  const clave_compile_options options = {.size = sizeof options,
                                         .dims = &dim,
                                         .n_dims = 1,
                                         .compiler = life->compiler,
                                         .march = "native"};
  clave_compile_options alone = options;
  alone.static_memory = true;
  alone.sbom = life->sbom;
  clave_program *program;
  TRY(clave_program_load(life->program, NULL, &program));
  clave_status st = clave_compile_sources(program, life->sources, &alone);
  if (!st) st = clave_compile(program, life->executable, &options);
  clave_program_destroy(program);
  return st;
}

static clave_status carry(const life *life, const char *path, const char *target, const char *to) {
  const clave_compile_options options = {.size = sizeof options,
                                         .compiler = life->compiler,
                                         .target = target,
                                         .static_library = life->library};
  clave_program *program;
  TRY(clave_program_load(path, NULL, &program));
  clave_status st = clave_compile(program, to, &options);
  clave_program_destroy(program);
  return st;
}

/* The options that the other lives do not use. */
static clave_status compile_options_of(const life *life) {
  const clave_compile_dim dim = {life->size, 1};
  const clave_compile_options options = {
      .size = sizeof options, .dims = &dim, .n_dims = 1, .compiler = life->compiler};
  clave_compile_options shared = options, bare = options, own = options;
  shared.library = "shared";
  shared.sbom = life->sbom;
  bare.library = "bare";
  bare.bare = true;
  own.kernel_folder = life->kernels;
  own.verify = true;
  own.sbom = life->sbom;
  clave_program *program;
  TRY(clave_program_load(life->program, NULL, &program));
  clave_status st = clave_compile(program, life->shared, &shared);
  if (!st) st = clave_compile(program, life->bare, &bare);
  if (!st) st = clave_compile(program, life->executable, &own);
  clave_program_destroy(program);
  return st;
}

static bool exists(const char *path) {
  FILE *file = fopen(path, "r");
  if (file) (void)fclose(file);
  return file;
}

static clave_status run_life(void *ctx) {
  const life *life = ctx;
  if (life->kernels) return compile_options_of(life);
  TRY(compile(life));
  TRY(carry(life, life->program, "opencl", life->carried));
  return carry(life, life->llm, "c", life->story);
}

static const char *find_wrong(void *ctx) {
  const life *life = ctx;
  if (life->kernels)
    return exists(life->shared) && exists(life->bare) && exists(life->executable) &&
                   exists(life->sbom)
               ? NULL
               : "something is not there";
  if (!exists(life->carried) || !exists(life->story))
    return "no executable that carries its program";
  return !exists(life->executable) ? "no executable" : !exists(life->model) ? "no sources" : NULL;
}

static clave_status resume(void *ctx) {
  (void)ctx;
  return NULL;
}

/* True if a library or its header, or the list of inputs or the library, exists without the
 * other. */
static bool is_half_made(const life *life) {
  return exists(life->shared) != exists(life->shared_header) ||
         exists(life->bare) != exists(life->bare_header) ||
         (life->kernels && exists(life->sbom) != exists(life->shared));
}

/* The runner's own folder: what it leaves is for the test to find. */
static void end_life(void *ctx) {
  life *life = ctx;
  if (is_half_made(life)) life->n_half++;
  char command[9 * PATH_SIZE + 64];
  (void)snprintf(command, sizeof command, "rm -rf '%s' '%s' '%s' '%s' '%s' '%s' '%s' '%s' '%s'",
                 life->sources, life->executable, life->carried, life->story, life->sbom,
                 life->shared, life->bare, life->shared_header, life->bare_header);
  if (system(command) != 0) printf("FAIL %s\n", command);
}

int main(int argc, char **argv) {
  if (argc != 8 && argc != 7) return 2;
  life life = {.program = argv[1], .size = argv[2], .compiler = argv[4]};
  if (argc == 7) life.kernels = argv[6];
  if (argc == 8) life.llm = argv[6], life.library = argv[7];
  (void)snprintf(life.executable, sizeof life.executable, "%s/made", argv[3]);
  (void)snprintf(life.sbom, sizeof life.sbom, "%s/sbom", argv[3]);
  (void)snprintf(life.sources, sizeof life.sources, "%s/sources", argv[3]);
  (void)snprintf(life.carried, sizeof life.carried, "%s/carried", argv[3]);
  (void)snprintf(life.story, sizeof life.story, "%s/story", argv[3]);
  (void)snprintf(life.shared, sizeof life.shared, "%s/shared.so", argv[3]);
  (void)snprintf(life.shared_header, sizeof life.shared_header, "%s/shared.h", argv[3]);
  (void)snprintf(life.bare, sizeof life.bare, "%s/bare.o", argv[3]);
  (void)snprintf(life.bare_header, sizeof life.bare_header, "%s/bare.h", argv[3]);
  (void)snprintf(life.model, sizeof life.model, "%s/model.c", life.sources);
  const fault_test test = {&life, run_life, find_wrong, resume, end_life};
  const int code = fault_loop(&test, "alloc", 0, strtol(argv[5], NULL, 10));
  if (life.n_half) printf("FAIL %d lives left something half made\n", life.n_half);
  return life.n_half ? 1 : code;
}
