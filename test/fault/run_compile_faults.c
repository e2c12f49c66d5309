/* Fails the Nth allocation while a program is compiled, to sources and to an executable, for N = 0,
 * 1, 2 ... until nothing is left to fail. Each time there is an error and nothing is left behind,
 * or all is there.
 *
 *   run_compile_faults PROGRAM SIZE FOLDER COMPILER STEP MODEL LIBRARY
 *   run_compile_faults PROGRAM SIZE FOLDER COMPILER STEP KERNELS
 *
 * SIZE: the name of an open size, which becomes 1. FOLDER: for what is written. COMPILER: a command
 * that makes what it is asked for, as quickly as it can. MODEL: a language model, which is carried,
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
  int n_half; /* lives that left something half made */
} life;

static clave_status compile(const life *l) {
  const clave_compile_dim dim = {l->size, 1};
  const clave_compile_options o = {
      .size = sizeof o, .dims = &dim, .n_dims = 1, .compiler = l->compiler, .march = "native"};
  clave_compile_options alone = o;
  alone.static_memory = true;
  alone.sbom = l->sbom;
  clave_program *p;
  TRY(clave_program_load(l->program, NULL, &p));
  clave_status st = clave_compile_sources(p, l->sources, &alone);
  if (!st) st = clave_compile(p, l->executable, &o);
  clave_program_destroy(p);
  return st;
}

static clave_status carry(const life *l, const char *program, const char *target, const char *to) {
  const clave_compile_options o = {
      .size = sizeof o, .compiler = l->compiler, .target = target, .static_library = l->library};
  clave_program *p;
  TRY(clave_program_load(program, NULL, &p));
  clave_status st = clave_compile(p, to, &o);
  clave_program_destroy(p);
  return st;
}

/* The options that the other lives have not. */
static clave_status compile_options_of(const life *l) {
  const clave_compile_dim dim = {l->size, 1};
  const clave_compile_options o = {
      .size = sizeof o, .dims = &dim, .n_dims = 1, .compiler = l->compiler};
  clave_compile_options shared = o, bare = o, own = o;
  shared.library = "shared";
  shared.sbom = l->sbom;
  bare.library = "bare";
  bare.bare = true;
  own.kernel_folder = l->kernels;
  own.verify = true;
  own.sbom = l->sbom;
  clave_program *p;
  TRY(clave_program_load(l->program, NULL, &p));
  clave_status st = clave_compile(p, l->shared, &shared);
  if (!st) st = clave_compile(p, l->bare, &bare);
  if (!st) st = clave_compile(p, l->executable, &own);
  clave_program_destroy(p);
  return st;
}

static bool exists(const char *path) {
  FILE *f = fopen(path, "r");
  if (f) (void)fclose(f);
  return f;
}

static clave_status run_life(void *ctx) {
  const life *l = ctx;
  if (l->kernels) return compile_options_of(l);
  TRY(compile(l));
  TRY(carry(l, l->program, "opencl", l->carried));
  return carry(l, l->llm, "c", l->story);
}

static const char *find_wrong(void *ctx) {
  const life *l = ctx;
  if (l->kernels)
    return exists(l->shared) && exists(l->bare) && exists(l->executable) && exists(l->sbom)
               ? NULL
               : "something is not there";
  if (!exists(l->carried) || !exists(l->story)) return "no executable that carries its program";
  return !exists(l->executable) ? "no executable" : !exists(l->model) ? "no sources" : NULL;
}

static clave_status resume(void *ctx) {
  (void)ctx;
  return NULL;
}

/* A library without its header, or a list of what went in without what was made. */
static bool is_half_made(const life *l) {
  return exists(l->shared) != exists(l->shared_header) ||
         exists(l->bare) != exists(l->bare_header) ||
         (l->kernels && exists(l->sbom) != exists(l->shared));
}

/* The runner's own folder: what it leaves is for the test to find. */
static void end_life(void *ctx) {
  life *l = ctx;
  if (is_half_made(l)) l->n_half++;
  char command[9 * PATH_SIZE + 64];
  (void)snprintf(command, sizeof command, "rm -rf '%s' '%s' '%s' '%s' '%s' '%s' '%s' '%s' '%s'",
                 l->sources, l->executable, l->carried, l->story, l->sbom, l->shared, l->bare,
                 l->shared_header, l->bare_header);
  if (system(command) != 0) printf("FAIL %s\n", command);
}

int main(int argc, char **argv) {
  if (argc != 8 && argc != 7) return 2;
  life l = {.program = argv[1], .size = argv[2], .compiler = argv[4]};
  if (argc == 7) l.kernels = argv[6];
  if (argc == 8) l.llm = argv[6], l.library = argv[7];
  (void)snprintf(l.executable, sizeof l.executable, "%s/made", argv[3]);
  (void)snprintf(l.sbom, sizeof l.sbom, "%s/sbom", argv[3]);
  (void)snprintf(l.sources, sizeof l.sources, "%s/sources", argv[3]);
  (void)snprintf(l.carried, sizeof l.carried, "%s/carried", argv[3]);
  (void)snprintf(l.story, sizeof l.story, "%s/story", argv[3]);
  (void)snprintf(l.shared, sizeof l.shared, "%s/shared.so", argv[3]);
  (void)snprintf(l.shared_header, sizeof l.shared_header, "%s/shared.h", argv[3]);
  (void)snprintf(l.bare, sizeof l.bare, "%s/bare.o", argv[3]);
  (void)snprintf(l.bare_header, sizeof l.bare_header, "%s/bare.h", argv[3]);
  (void)snprintf(l.model, sizeof l.model, "%s/model.c", l.sources);
  const fault_test test = {&l, run_life, find_wrong, resume, end_life};
  const int code = fault_loop(&test, "alloc", 0, strtol(argv[5], NULL, 10));
  if (l.n_half) printf("FAIL %d lives left something half made\n", l.n_half);
  return l.n_half ? 1 : code;
}
