/* Programs as C: the public options as the compiler's. */
#include "compile/compile.h"

#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "clave_compile.h"

/* The compiler's options, and what they point to that is made here. */
typedef struct compiling {
  compile_options o;
  compile_dim *dims; /* owned */
  text march;        /* owned */
} compiling;

static tuning *table_of_cpu(const clave_device *d) {
  for (int b = 0; b < d->set.count; b++)
    if (strcmp(d->set.backends[b]->info.kind, "cpu") == 0) return d->set.backends[b]->tuning;
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
                           .debug = own.debug,
                           .keep_build = own.keep_build,
                           .tuning = own.tuned ? table_of_cpu(own.tuned) : NULL,
                           .message = own.message,
                           .progress = own.progress,
                           .ctx = own.ctx};
  if (own.library && !is_library_name(own.library))
    return INVALID("'%s' cannot begin the names of a library's functions", own.library);
  TRY(program_find_method(p, own.method, &c->o.method));
  c->o.dims = c->dims = calloc((size_t)own.n_dims + 1, sizeof *c->dims);
  if (!c->dims) return status_no_memory();
  for (uint32_t i = 0; i < own.n_dims; i++)
    c->dims[i] = (compile_dim){own.dims[i].name, own.dims[i].size};
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
  return compile(p, path, options, compile_executable);
}

clave_status clave_compile_sources(const clave_program *p, const char *folder,
                                   const clave_compile_options *options) {
  return compile(p, folder, options, compile_sources);
}
