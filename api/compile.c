/* Compiling of programs: converts the public options to the compiler's. */
#include "compile/compile.h"

#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_compile.h"

/* The compiler's options, and the memory that they point to. */
typedef struct compiling {
  compile_options options;
  compile_dim *dims; /* owned */
  text march;        /* owned */
} compiling;

/* Sets the tuning table of the device's backend that the target runs on. */
static clave_status find_table(const clave_device *device, compile_options *options) {
  const char *kind = options->is_opencl ? "opencl" : "cpu";
  for (int b = 0; device && b < device->set.count && !options->tuning; b++) {
    if (strcmp(device->set.backends[b]->info.kind, kind) != 0) continue;
    options->tuning = device->set.backends[b]->tuning;
    options->tuned_for = device->tuned_for[b].data;
  }
  if (!device || options->tuning || !options->is_opencl) return NULL;
  return INVALID("tuned: target 'opencl' needs an OpenCL device, got %s",
                 device->set.backends[0]->info.name);
}

/* Fails if options contradict each other. */
static clave_status api_compile_check_options(const compile_options *options) {
  enum { MAX_THREADS = 1024 };
  if (options->library && !is_library_name(options->library))
    return INVALID("library: '%s' cannot be the prefix of C function names", options->library);
  if (options->verify && options->bare)
    return UNSUPPORTED("verify: firmware code has no command line that could check results");
  if (options->binaries &&
      (!options->is_opencl || strcmp(options->binaries->info.kind, "opencl") != 0))
    return INVALID("binaries: expected an OpenCL device and target 'opencl'");
  if (options->packed_only && options->kernel_dir)
    return UNSUPPORTED(
        "packed_only cannot be combined with replaced kernels, which may read another layout of "
        "packed weights");
  if (options->bare && !options->library)
    return INVALID("bare: firmware code needs a library name, the prefix of its functions");
  if (options->static_memory && options->library && !options->bare)
    return UNSUPPORTED("static_memory: a shared library allocates memory for each of its models");
  if (options->static_memory && options->n_threads > 0)
    return UNSUPPORTED(
        "n_threads: code with static memory has no threads, because threads allocate memory");
  if (options->n_threads > MAX_THREADS)
    return INVALID("n_threads: expected at most %d, got %d", (int)MAX_THREADS, options->n_threads);
  return NULL;
}

/* Reads the target, and whether the program is a language model that writes text. */
static clave_status read_target(const clave_program *program, const clave_compile_options *own,
                                compile_options *options) {
  options->is_opencl = own->target && strcmp(own->target, "opencl") == 0;
  if (own->target && !options->is_opencl && strcmp(own->target, "c") != 0)
    return INVALID("target: expected c or opencl, got '%s'", own->target);
  if (own->all_methods && own->method)
    return INVALID("all_methods and method '%s' exclude each other", own->method);
  options->text = !own->method && !own->n_dims && !own->all_methods && !own->bare &&
                  program_find_section(program->program, "TOKN");
  return NULL;
}

static clave_status api_compile_read_options(const clave_program *program,
                                             const clave_compile_options *given,
                                             compiling *compiling) {
  clave_compile_options own;
  TRY(sized_read(given, &own, SIZED(clave_compile_options, ctx)));
  const char *named = getenv("CC");
  compiling->options =
      (compile_options){.name = own.name ? own.name : "a program",
                        .n_dims = own.n_dims,
                        .compiler = own.compiler      ? own.compiler
                                    : named && *named ? named
                                                      : "cc",
                        .library = own.library,
                        .bare = own.bare,
                        .n_threads = own.n_threads,
                        .static_memory = own.static_memory || own.bare,
                        .memory_bytes = own.memory_bytes,
                        .kernel_dir = own.kernel_folder,
                        .sbom = own.sbom,
                        .verify = own.verify,
                        .debug = own.debug,
                        .keep_build = own.keep_build,
                        .binaries = own.binaries ? own.binaries->set.backends[0] : NULL,
                        .packed_only = own.packed_only,
                        .message = own.message,
                        .progress = own.progress,
                        .cancel = own.cancel,
                        .ctx = own.ctx,
                        .runtime = own.static_library,
                        .all_methods = own.all_methods,
                        .allow_custom_kernels = own.allow_custom_kernels};
  TRY(read_target(program, &own, &compiling->options));
  TRY(find_table(own.tuned, &compiling->options));
  if (compiling->options.static_memory && compiling->options.n_threads == 0)
    compiling->options.n_threads = CLAVE_COMPILE_ALONE;
  TRY(api_compile_check_options(&compiling->options));
  TRY(program_find_method(program, own.method, &compiling->options.method));
  compiling->options.dims = compiling->dims =
      calloc((size_t)own.n_dims + 1, sizeof *compiling->dims);
  if (!compiling->dims) return status_no_memory();
  for (uint32_t i = 0; i < own.n_dims; i++)
    compiling->dims[i] = (compile_dim){own.dims[i].name, own.dims[i].size};
  if (own.processor && strcmp(own.processor, "portable") != 0)
    return INVALID("processor: expected portable, got '%s'", own.processor);
  compiling->options.is_portable = own.processor != NULL;
  if (!own.march) return NULL;
  text_printf(&compiling->march, "-march=%s", own.march);
  compiling->options.march = compiling->march.data;
  return text_status(&compiling->march);
}

typedef clave_status (*compile_fn)(const program *program, const compile_options *options,
                                   const char *path);

static clave_status api_compile(const clave_program *program, const char *path,
                                const clave_compile_options *options, compile_fn fn) {
  compiling compiling = {0};
  clave_status st = api_compile_read_options(program, options, &compiling);
  if (!st) st = fn(program->program, &compiling.options, path);
  free(compiling.dims);
  text_free(&compiling.march);
  return st;
}

clave_status clave_compile(const clave_program *program, const char *path,
                           const clave_compile_options *options) {
  OWN_FLOAT_ENV;
  return api_compile(program, path, options, compile_executable);
}

clave_status clave_compile_sources(const clave_program *program, const char *folder,
                                   const clave_compile_options *options) {
  OWN_FLOAT_ENV;
  return api_compile(program, folder, options, compile_sources);
}
