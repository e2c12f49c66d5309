/* Programs as C: the public options as the compiler's. */
#include "compile/compile.h"

#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_compile.h"

/* The compiler's options, and what they point to that is made here. */
typedef struct compiling {
  compile_options o;
  compile_dim *dims; /* owned */
  text march;        /* owned */
} compiling;

/* The table of what the program will run on. */
static clave_status find_table(const clave_device *d, compile_options *o) {
  const char *kind = o->is_opencl ? "opencl" : "cpu";
  for (int b = 0; d && b < d->set.count && !o->tuning; b++) {
    if (strcmp(d->set.backends[b]->info.kind, kind) != 0) continue;
    o->tuning = d->set.backends[b]->tuning;
    o->tuned_for = d->tuned_for[b].data;
  }
  if (!d || o->tuning || !o->is_opencl) return NULL;
  return INVALID("%s is tuned, which is no OpenCL device, for target 'opencl'",
                 d->set.backends[0]->info.name);
}

/* What goes together. */
static clave_status check_options(const compile_options *o) {
  enum { MOST_THREADS = 1024 };
  if (o->library && !is_library_name(o->library))
    return INVALID("'%s' cannot begin the names of a library's functions", o->library);
  if (o->verify && o->bare)
    return UNSUPPORTED(
        "what a program for firmware computes cannot be kept for --verify: that is a host's");
  if (o->binaries && (!o->is_opencl || strcmp(o->binaries->info.kind, "opencl") != 0))
    return INVALID("kernel binaries are of an OpenCL device, for target 'opencl'");
  if (o->packed_only && o->kernel_dir)
    return UNSUPPORTED(
        "kernels of one's own may read weights that are packed otherwise: plain ones stay");
  if (o->bare && !o->library) return INVALID("a program for firmware needs a library's name");
  if (o->static_memory && o->library && !o->bare)
    return UNSUPPORTED("a shared library's memory is not static: each of its models has its own");
  if (o->static_memory && o->n_threads > 0)
    return UNSUPPORTED("threads allocate memory, and with static memory there are none");
  if (o->n_threads > MOST_THREADS)
    return INVALID("n_threads: expected at most %d, got %d", (int)MOST_THREADS, o->n_threads);
  return NULL;
}

/* What it runs on, and whether it writes text. */
static clave_status read_target(const clave_program *p, const clave_compile_options *own,
                                compile_options *o) {
  o->is_opencl = own->target && strcmp(own->target, "opencl") == 0;
  if (own->target && !o->is_opencl && strcmp(own->target, "c") != 0)
    return INVALID("target '%s' is neither c nor opencl", own->target);
  if (own->all_methods && own->method)
    return INVALID("all methods, and method '%s' alone", own->method);
  o->text = !own->method && !own->n_dims && !own->all_methods && !own->bare &&
            program_find_section(p->p, "TOKN");
  return NULL;
}

static clave_status read_options(const clave_program *p, const clave_compile_options *given,
                                 compiling *c) {
  clave_compile_options own;
  TRY(sized_read(given, &own, SIZED(clave_compile_options, ctx)));
  const char *named = getenv("CC");
  c->o = (compile_options){.name = own.name ? own.name : "a program",
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
  TRY(read_target(p, &own, &c->o));
  TRY(find_table(own.tuned, &c->o));
  if (c->o.static_memory && c->o.n_threads == 0) c->o.n_threads = CLAVE_COMPILE_ALONE;
  TRY(check_options(&c->o));
  TRY(program_find_method(p, own.method, &c->o.method));
  c->o.dims = c->dims = calloc((size_t)own.n_dims + 1, sizeof *c->dims);
  if (!c->dims) return status_no_memory();
  for (uint32_t i = 0; i < own.n_dims; i++)
    c->dims[i] = (compile_dim){own.dims[i].name, own.dims[i].size};
  if (own.processor && strcmp(own.processor, "portable") != 0)
    return INVALID("processor: expected portable, got '%s'", own.processor);
  c->o.is_portable = own.processor != NULL;
  if (!own.march) return NULL;
  text_printf(&c->march, "-march=%s", own.march);
  c->o.march = c->march.data;
  return text_status(&c->march);
}

typedef clave_status (*compile_fn)(const program *p, const compile_options *o, const char *path);

static clave_status compile(const clave_program *p, const char *path,
                            const clave_compile_options *options, compile_fn fn) {
  compiling c = {0};
  clave_status st = read_options(p, options, &c);
  if (!st) st = fn(p->p, &c.o, path);
  free(c.dims);
  text_free(&c.march);
  return st;
}

clave_status clave_compile(const clave_program *p, const char *path,
                           const clave_compile_options *options) {
  OWN_FLOAT_ENV;
  return compile(p, path, options, compile_executable);
}

clave_status clave_compile_sources(const clave_program *p, const char *folder,
                                   const clave_compile_options *options) {
  OWN_FLOAT_ENV;
  return compile(p, folder, options, compile_sources);
}
