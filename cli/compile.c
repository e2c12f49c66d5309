/* clave compile: a program as an executable of its own, or as its sources. */
#include "clave_compile.h"

#include <stdlib.h>
#include <string.h>

#include "cli/inputs.h"
#include "cli/progress.h"
#include "cli/tune.h"

typedef struct compile_arguments {
  model_arguments model;
  const char *to, *sources, *target, *march;
  text_list dims;
  bool shared, debug, keep_build, tune;
  double budget;
} compile_arguments;

static const flag compile_flags[] = {
    PROGRAM_FLAGS(compile_arguments),
    {"-o", FLAG_PATH, offsetof(compile_arguments, to), "BIN", "the executable to write", 0, 0},
    {"--emit-c", FLAG_PATH, offsetof(compile_arguments, sources), "DIR",
     "writes its sources and a Makefile there instead", 0, 0},
    {"--target", FLAG_TEXT, offsetof(compile_arguments, target), "T",
     "c: needs libc, libm and threads alone (the default)", 0, 0},
    METHOD_FLAG(compile_arguments),
    {"--dim", FLAG_LIST, offsetof(compile_arguments, dims), "NAME=N",
     "fixes an open size of the inputs; repeatable", 0, 0},
    {"--march", FLAG_TEXT, offsetof(compile_arguments, march), "M",
     "the compiler's -march: for processors of that kind alone", 0, 0},
    {"--shared", FLAG_SWITCH, offsetof(compile_arguments, shared), NULL,
     "a library instead of an executable, with a header beside it", 0, 0},
    {"--debug", FLAG_SWITCH, offsetof(compile_arguments, debug), NULL,
     "with debugging information, little optimised", 0, 0},
    {"--tune", FLAG_SWITCH, offsetof(compile_arguments, tune), NULL,
     "measures the CPU backend's kernels on this machine first, and builds in what is fastest", 0,
     0},
    {"--budget", FLAG_NUMBER, offsetof(compile_arguments, budget), "SECONDS",
     "with --tune: measures for so long at most", 0, 1000000},
    {"--keep-build", FLAG_SWITCH, offsetof(compile_arguments, keep_build), NULL,
     "leaves sources and objects in BIN.build", 0, 0},
};

/* The name is copied into `names`. */
static int take_dim(const char *given, text *names, clave_compile_dim *out) {
  size_t length;
  TRY_EXIT(read_dim(given, &length, &out->size));
  text_append(names, given, length);
  if (names->failed) return fail_memory();
  out->name = names->data;
  return EXIT_GOOD;
}

/* "some/libmnist.so" is mnist's. */
static void name_library(const char *path, text *to) {
  const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
  if (strncmp(stem, "lib", 3) == 0) stem += 3;
  text_append(to, stem, strcspn(stem, "."));
}

static int compile_to(const compile_arguments *a, model *m, const clave_compile_options *o) {
  if (a->sources) {
    TRY_STATUS(clave_compile_sources(m->program, a->sources, o));
  } else {
    TRY_STATUS(clave_compile(m->program, a->to, o));
  }
  clear_progress();
  return EXIT_GOOD;
}

static int compile_with(const compile_arguments *a, model *m, const clave_compile_dim *dims,
                        const char *library) {
  const char *slash = strrchr(a->model.program, '/');
  const clave_compile_options o = {.size = sizeof o,
                                   .method = m->method.name,
                                   .name = slash ? slash + 1 : a->model.program,
                                   .dims = dims,
                                   .n_dims = a->dims.count,
                                   .march = a->march,
                                   .library = library,
                                   .debug = a->debug,
                                   .keep_build = a->keep_build,
                                   .message = print_note,
                                   .progress = show_steps,
                                   .tuned = m->device};
  return compile_to(a, m, &o);
}

/* For this executable alone where there is no cache folder to keep winners in. */
static int tune_first(const compile_arguments *a, model *m) {
  const tune_request r = {.dims = &a->dims, .budget = a->budget, .unkept = !has_cache()};
  model_arguments cpu = a->model;
  cpu.device = "cpu";
  TRY_EXIT(open_device(&cpu, m));
  return tune_quietly(m, &r);
}

static int compile_model(const compile_arguments *a, model *m) {
  const uint32_t n = a->dims.count;
  clave_compile_dim *dims = calloc((size_t)n + 1, sizeof *dims);
  text *names = calloc((size_t)n + 1, sizeof *names);
  text library = {0};
  int result = dims && names ? EXIT_GOOD : fail_memory();
  for (uint32_t i = 0; i < n && result == EXIT_GOOD; i++)
    result = take_dim(a->dims.items[i], &names[i], &dims[i]);
  if (result == EXIT_GOOD) result = open_program(&a->model, m);
  if (result == EXIT_GOOD && a->tune) result = tune_first(a, m);
  if (a->shared) name_library(a->sources ? a->sources : a->to, &library);
  if (result == EXIT_GOOD && library.failed) result = fail_memory();
  if (result == EXIT_GOOD) result = compile_with(a, m, dims, library.data);
  text_free(&library);
  for (uint32_t i = 0; names && i < n; i++) text_free(&names[i]);
  free(names);
  free(dims);
  return result;
}

static int compile_program(const void *arguments, page *out) {
  const compile_arguments *a = arguments;
  model m = {0};
  (void)out;
  if (!a->to == !a->sources) return fail_usage("which of -o BIN and --emit-c DIR?");
  if (a->target && strcmp(a->target, "c") != 0)
    return fail("--target %s is not in this version (%s); c is", a->target, clave_version());
  int result = compile_model(a, &m);
  close_model(&m);
  return result;
}

const command compile_command = {
    .name = "compile",
    .usage = "compile PROG (-o BIN or --emit-c DIR) [--dim NAME=N]... [--march M]",
    .summary = "Makes a program an executable that needs nothing beside it.",
    .more =
        "It runs as `BIN INPUT... OUTPUT...`, each a file of raw little-endian elements; its "
        "--help\nlists them. CC names the C compiler (default: cc).\n",
    .flags = compile_flags,
    .n_flags = LENGTH(compile_flags),
    .arguments_size = sizeof(compile_arguments),
    .run = compile_program,
};
