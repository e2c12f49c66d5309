/* clave compile: compiles a program to an executable, or writes its sources. */
#include "clave_compile.h"

#include <stdlib.h>
#include <string.h>

#include "cli/binaries.h"
#include "cli/inputs.h"
#include "cli/interrupts.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/tune.h"

typedef struct compile_arguments {
  model_arguments model;
  const char *to, *sources, *target, *march, *static_library, *arena, *kernel_dir, *sbom,
      *processor;
  text_list dims;
  int64_t threads; /* THREADS_OPEN: not given */
  bool shared, bare, verify, debug, keep_build, tune, binaries, pack, packed_only;
  double budget;
} compile_arguments;

enum { THREADS_OPEN = -1, MAX_THREADS = 1024 };

static const flag compile_flags[] = {
    PROGRAM_FLAGS(compile_arguments),
    LANGUAGE_MODEL_FLAG(compile_arguments),
    {"CONSTS", FLAG_OPTIONAL, offsetof(compile_arguments, model.consts), NULL, "same as --consts",
     0, 0},
    {"-o", FLAG_WRITTEN, offsetof(compile_arguments, to), "BIN", "the executable to write", 0, 0},
    {"--emit-c", FLAG_PATH, offsetof(compile_arguments, sources), "DIR",
     "writes sources and a Makefile to DIR instead of building", 0, 0},
    {"--target", FLAG_TEXT, offsetof(compile_arguments, target), "T",
     "c: runs on the CPU (default); opencl: runs on the OpenCL device that CLAVE_DEVICE selects", 0,
     0},
    {"--method", FLAG_TEXT, offsetof(compile_arguments, model.method), "M",
     "entry point (default: forward, else the first; for a language model: text generation); all: "
     "selected at run time",
     0, 0},
    {"--dim", FLAG_LIST, offsetof(compile_arguments, dims), "NAME=N",
     "fixes an open size of the inputs, or the value of an integer scalar input; repeatable", 0, 0},
    {"--march", FLAG_TEXT, offsetof(compile_arguments, march), "M",
     "passes -march=M to the compiler; BIN then runs only on such processors, and builds faster", 0,
     0},
    {"--processor", FLAG_TEXT, offsetof(compile_arguments, processor), "P",
     "portable: runs on every processor of the architecture, also with packed weights; BIN is "
     "smaller, and slower on processors with AVX2",
     0, 0},
    {"--shared", FLAG_SWITCH, offsetof(compile_arguments, shared), NULL,
     "writes a shared library and its header instead of an executable", 0, 0},
    {"--threads", FLAG_INT, offsetof(compile_arguments, threads), "N",
     "number of threads (default: set at run time); 0: only the calling thread, without any "
     "threading code",
     0, MAX_THREADS},
    {"--arena", FLAG_TEXT, offsetof(compile_arguments, arena), "WHERE",
     "static: all memory is one static buffer, whose size is printed; nothing is allocated", 0, 0},
    {"--bare", FLAG_SWITCH, offsetof(compile_arguments, bare), NULL,
     "for firmware: one function in an object file, without stdio, threads or allocation", 0, 0},
    {"--kernel-dir", FLAG_PATH, offsetof(compile_arguments, kernel_dir), "DIR",
     "a file X.c in DIR replaces backend/cpu/kernels/X.c of the sources", 0, 0},
    {"--verify", FLAG_SWITCH, offsetof(compile_arguments, verify), NULL,
     "adds BIN --verify, which checks the results on random inputs against those that clave "
     "computes now",
     0, 0},
    {"--sbom", FLAG_WRITTEN, offsetof(compile_arguments, sbom), "FILE",
     "writes a software bill of materials (CycloneDX)", 0, 0},
    {"--debug", FLAG_SWITCH, offsetof(compile_arguments, debug), NULL,
     "builds with debugging information and little optimisation", 0, 0},
    {"--allow-custom-kernels", FLAG_SWITCH, offsetof(compile_arguments, model.allow_custom_kernels),
     NULL, "allows kernels embedded in the program; they can do anything on the device", 0, 0},
    {"--static-library", FLAG_PATH, offsetof(compile_arguments, static_library), "A",
     "path of libclave.a (default: beside this tool or its library)", 0, 0},
    {"--tune", FLAG_SWITCH, offsetof(compile_arguments, tune), NULL,
     "first measures kernels on this machine's CPU or OpenCL device, and embeds the fastest "
     "choices",
     0, 0},
    {"--binaries", FLAG_SWITCH, offsetof(compile_arguments, binaries), NULL,
     "with --target opencl: first runs the program on this machine's OpenCL device, and embeds its "
     "kernel binaries",
     0, 0},
    {"--pack", FLAG_SWITCH, offsetof(compile_arguments, pack), NULL,
     "also embeds weights packed for this processor, or for this machine's OpenCL device", 0, 0},
    {"--packed-only", FLAG_SWITCH, offsetof(compile_arguments, packed_only), NULL,
     "embeds packed weights without their plain copies; BIN runs only on processors of this kind",
     0, 0},
    {"--budget", FLAG_NUMBER, offsetof(compile_arguments, budget), "SECONDS",
     "with --tune: time limit of the measurements", 0, 1000000},
    {"--keep-build", FLAG_SWITCH, offsetof(compile_arguments, keep_build), NULL,
     "keeps sources and object files in BIN.build", 0, 0},
};

/* Parses "NAME=N"; the name is copied to `names`. */
static int parse_dim(const char *given, text *names, clave_compile_dim *out) {
  size_t length;
  TRY_EXIT(read_dim(given, &length, &out->size));
  text_append(names, given, length);
  if (names->failed) return fail_memory();
  out->name = names->data;
  return EXIT_GOOD;
}

/* Derives the library's name from its path: "some/libmnist.so" is mnist. */
static void name_library(const char *path, text *to) {
  const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
  if (strncmp(stem, "lib", 3) == 0) stem += 3;
  text_append(to, stem, strcspn(stem, "."));
}

static int compile_to(const compile_arguments *arguments, model *model,
                      const clave_compile_options *options) {
  clave_status st = arguments->sources
                        ? clave_compile_sources(model->program, arguments->sources, options)
                        : clave_compile(model->program, arguments->to, options);
  if (st) {
    const int result = fail_status(st);
    return is_interrupted(NULL) ? interrupted_exit() : result;
  }
  clear_progress();
  return EXIT_GOOD;
}

static bool wants_all(const compile_arguments *arguments) {
  return arguments->model.method && strcmp(arguments->model.method, "all") == 0;
}

/* Returns NULL for a language model's text, or if all methods are compiled. */
static const char *method_of(const compile_arguments *arguments, const model *model) {
  size_t size;
  const bool has_text =
      clave_program_section(model->program, "TOKN", &size) && !arguments->dims.count;
  if (wants_all(arguments) || (!arguments->model.method && has_text && !arguments->bare))
    return NULL;
  return model->method.name;
}

static bool is_for_opencl(const compile_arguments *arguments) {
  return arguments->target && strcmp(arguments->target, "opencl") == 0;
}

/* Returns the reason why --tune is not supported here, or NULL if it is. Called before anything is
 * measured. */
static const char *why_untuned(const compile_arguments *arguments, const model *model) {
  return wants_all(arguments)          ? "--method all"
         : method_of(arguments, model) ? NULL
                                       : "the text generation of a language model";
}

static int compile_with(const compile_arguments *arguments, model *model,
                        const clave_compile_dim *dims, const char *library, page *out) {
  size_t memory_bytes = 0;
  const char *slash = strrchr(arguments->model.program, '/');
  const clave_compile_options options = {
      .size = sizeof options,
      .method = method_of(arguments, model),
      .name = slash ? slash + 1 : arguments->model.program,
      .dims = dims,
      .n_dims = arguments->dims.count,
      .march = arguments->march,
      .library = library,
      .debug = arguments->debug,
      .keep_build = arguments->keep_build,
      .message = print_note,
      .progress = show_steps,
      .target = arguments->target,
      .all_methods = wants_all(arguments),
      .allow_custom_kernels = arguments->model.allow_custom_kernels,
      .static_library = arguments->static_library,
      .n_threads = arguments->threads == THREADS_OPEN ? 0
                   : arguments->threads               ? (int)arguments->threads
                                                      : CLAVE_COMPILE_ALONE,
      .static_memory = arguments->arena != NULL,
      .memory_bytes = &memory_bytes,
      .bare = arguments->bare,
      .kernel_folder = arguments->kernel_dir,
      .sbom = arguments->sbom,
      .verify = arguments->verify,
      .packed_only = arguments->packed_only,
      .processor = arguments->processor,
      .cancel = is_interrupted,
      .tuned = arguments->tune ? model->device : NULL,
      .binaries = arguments->binaries ? model->device : NULL};
  TRY_EXIT(compile_to(arguments, model, &options));
  if (arguments->arena || arguments->bare)
    text_printf(out, "%zu bytes of static memory\n", memory_bytes);
  return EXIT_GOOD;
}

/* True if the executable uses the caller's thread only. */
static bool runs_alone(const compile_arguments *arguments) {
  return arguments->bare || arguments->arena || !arguments->threads;
}

/* Opens the kind of device that the executable will use: the CPU backend, or the OpenCL device that
 * CLAVE_DEVICE selects. */
static int open_target(const compile_arguments *arguments, model *model) {
  const char *named = getenv("CLAVE_DEVICE");
  model_arguments with = arguments->model;
  if (model->device) return EXIT_GOOD;
  with.device = !is_for_opencl(arguments) ? "cpu" : named && *named ? NULL : "opencl";
  with.threads = runs_alone(arguments)                ? 1
                 : arguments->threads == THREADS_OPEN ? 0
                                                      : arguments->threads;
  TRY_EXIT(open_device(&with, model));
  if (is_for_opencl(arguments) && strcmp(model->device_info.kind, "opencl") != 0)
    return fail("--target opencl needs an OpenCL device, and CLAVE_DEVICE selects \"%s\"", named);
  return EXIT_GOOD;
}

static int pack_first(const compile_arguments *arguments, model *model) {
  if (arguments->kernel_dir)
    return fail(
        "--pack cannot be combined with --kernel-dir, whose kernels may read another layout of "
        "packed weights");
  TRY_EXIT(open_target(arguments, model));
  return pack_program(model);
}

/* Tunes first. Without a cache folder the winners are used for this executable only. */
static int tune_first(const compile_arguments *arguments, model *model) {
  const char *why = why_untuned(arguments, model);
  if (why) return fail("--tune needs a single method, and cannot be combined with %s", why);
  const tune_request request = {
      .dims = &arguments->dims, .budget = arguments->budget, .unkept = !has_cache()};
  TRY_EXIT(open_target(arguments, model));
  return tune_quietly(model, &request);
}

static int run_first(const compile_arguments *arguments, model *model) {
  const char *chosen = method_of(arguments, model);
  const kernel_runs runs = {.program = arguments->model.program,
                            .dims = &arguments->dims,
                            .all = wants_all(arguments),
                            .text = !chosen && !wants_all(arguments)};
  TRY_EXIT(open_target(arguments, model));
  model->cancel = is_interrupted;
  const int result = run_kernels(model, &runs);
  return is_interrupted(NULL) ? interrupted_exit() : result;
}

static int compile_model(const compile_arguments *arguments, model *model, page *out) {
  const uint32_t n = arguments->dims.count;
  clave_compile_dim *dims = calloc((size_t)n + 1, sizeof *dims);
  text *names = calloc((size_t)n + 1, sizeof *names);
  text library = {0};
  int result = dims && names ? EXIT_GOOD : fail_memory();
  for (uint32_t i = 0; i < n && result == EXIT_GOOD; i++)
    result = parse_dim(arguments->dims.items[i], &names[i], &dims[i]);
  model_arguments program = arguments->model;
  if (wants_all(arguments)) program.method = NULL;
  if (result == EXIT_GOOD) result = open_program(&program, model);
  if (result == EXIT_GOOD && arguments->pack) result = pack_first(arguments, model);
  if (result == EXIT_GOOD && arguments->tune) result = tune_first(arguments, model);
  if (result == EXIT_GOOD && arguments->binaries) result = run_first(arguments, model);
  if (arguments->shared || arguments->bare)
    name_library(arguments->sources ? arguments->sources : arguments->to, &library);
  if (result == EXIT_GOOD && library.failed) result = fail_memory();
  if (result == EXIT_GOOD) result = compile_with(arguments, model, dims, library.data, out);
  text_free(&library);
  for (uint32_t i = 0; names && i < n; i++) text_free(&names[i]);
  free(names);
  free(dims);
  return result;
}

static int compile_program(const void *given, page *out) {
  const compile_arguments *arguments = given;
  model model = {0};
  if (!arguments->to == !arguments->sources)
    return fail_usage("compile needs either -o BIN or --emit-c DIR");
  if (arguments->target && strcmp(arguments->target, "c") != 0 &&
      strcmp(arguments->target, "opencl") != 0)
    return fail_usage("--target: expected c or opencl, got \"%s\"", arguments->target);
  if (arguments->arena && strcmp(arguments->arena, "static") != 0)
    return fail_usage("--arena: expected static, got \"%s\"", arguments->arena);
  if (arguments->shared && arguments->bare)
    return fail_usage("--shared and --bare exclude each other");
  if (arguments->binaries && !is_for_opencl(arguments))
    return fail_usage("--binaries needs --target opencl");
  if (arguments->budget > 0 && !arguments->tune) return fail_usage("--budget needs --tune");
  if (arguments->processor && strcmp(arguments->processor, "portable") != 0)
    return fail_usage("--processor: expected portable, got \"%s\"", arguments->processor);
  /* Makes planning and packing here use the kernels that the executable will run. */
  if (arguments->processor && setenv("CLAVE_DEVICE_CLASS", "portable", 1) != 0)
    return fail_memory();
  catch_endings();
  int result = compile_model(arguments, &model, out);
  close_model(&model);
  return result;
}

static const compile_arguments compile_defaults = {.threads = THREADS_OPEN};

const command compile_command = {
    .name = "compile",
    .usage = "compile PROG [CONSTS] (-o BIN or --emit-c DIR) [--dim NAME=N]... [--march M]",
    .summary = "Compiles a program to a self-contained executable.",
    .more =
        "The executable runs as `BIN INPUT... OUTPUT...`; each file is a .npy, a .safetensors, or\n"
        "raw little-endian elements. `BIN --help` lists them. A language model's executable has\n"
        "the options of clave generate (`BIN --prompt TEXT`). With --target c, a single method is\n"
        "emitted as C code, unless it has open sizes together with branches, loops or\n"
        "data-dependent sizes. All other executables embed the runtime. CC is the C compiler\n"
        "(default: cc).\n",
    .flags = compile_flags,
    .n_flags = LENGTH(compile_flags),
    .arguments_size = sizeof(compile_arguments),
    .defaults = &compile_defaults,
    .run = compile_program,
};
