/* Fails the Nth allocation while a program is compiled, to sources and to an executable, for N = 0,
 * 1, 2 ... until nothing is left to fail. Each time there is an error and nothing is left behind,
 * or all is there.
 *
 *   run_compile_faults PROGRAM SIZE FOLDER COMPILER STEP MODEL LIBRARY
 *
 * SIZE: the name of an open size, which becomes 1. FOLDER: for what is written. COMPILER: a command
 * that makes what it is asked for, as quickly as it can. MODEL: a language model, which is carried,
 * as PROGRAM is for OpenCL. LIBRARY: libclave.a. */
#include <stdio.h>
#include <stdlib.h>

#include "clave_compile.h"
#include "test/fault/loop.h"

enum { PATH_SIZE = 512 };

typedef struct life {
  const char *program, *size, *compiler, *llm, *library;
  char executable[PATH_SIZE], sbom[PATH_SIZE], sources[PATH_SIZE], model[PATH_SIZE + 16],
      carried[PATH_SIZE], story[PATH_SIZE];
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

static bool exists(const char *path) {
  FILE *f = fopen(path, "r");
  if (f) (void)fclose(f);
  return f;
}

static clave_status run_life(void *ctx) {
  const life *l = ctx;
  TRY(compile(l));
  TRY(carry(l, l->program, "opencl", l->carried));
  return carry(l, l->llm, "c", l->story);
}

static const char *find_wrong(void *ctx) {
  const life *l = ctx;
  if (!exists(l->carried) || !exists(l->story)) return "no executable that carries its program";
  return !exists(l->executable) ? "no executable" : !exists(l->model) ? "no sources" : NULL;
}

static clave_status resume(void *ctx) {
  (void)ctx;
  return NULL;
}

/* The runner's own folder: what it leaves is for the test to find. */
static void end_life(void *ctx) {
  const life *l = ctx;
  char command[5 * PATH_SIZE + 32];
  (void)snprintf(command, sizeof command, "rm -rf '%s' '%s' '%s' '%s' '%s'", l->sources,
                 l->executable, l->carried, l->story, l->sbom);
  if (system(command) != 0) printf("FAIL %s\n", command);
}

int main(int argc, char **argv) {
  if (argc != 8) return 2;
  life l = {
      .program = argv[1], .size = argv[2], .compiler = argv[4], .llm = argv[6], .library = argv[7]};
  (void)snprintf(l.executable, sizeof l.executable, "%s/made", argv[3]);
  (void)snprintf(l.sbom, sizeof l.sbom, "%s/sbom", argv[3]);
  (void)snprintf(l.sources, sizeof l.sources, "%s/sources", argv[3]);
  (void)snprintf(l.carried, sizeof l.carried, "%s/carried", argv[3]);
  (void)snprintf(l.story, sizeof l.story, "%s/story", argv[3]);
  (void)snprintf(l.model, sizeof l.model, "%s/model.c", l.sources);
  const fault_test test = {&l, run_life, find_wrong, resume, end_life};
  return fault_loop(&test, "alloc", 0, strtol(argv[5], NULL, 10));
}
