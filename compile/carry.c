/* The files of an executable that carries its program. */
#include "compile/carry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "compile/carry_library.h"
#include "compile/carry_tests.h"
#include "compile/fields.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- what is refused */

static clave_status check_node(const program *p, uint32_t chain, uint32_t number) {
  uint32_t index, in = chain;
  program_find_node(&p->ir, number, &in, &index);
  const ir_instruction *ins = &p->ir.chains.items[in].instructions.items[index];
  const op_info *info = &op_table[ins->op_type];
  return info->is_cpu ? UNSUPPORTED(
                            "op %s runs on the CPU backend alone, no OpenCL device has it: "
                            "--target c compiles it; node %u (%s, %s)",
                            info->name, number, info->name, ins->name)
                      : NULL;
}

static clave_status check_method(const program *p, uint32_t number) {
  const uint32_t chain = p->ir.methods.items[number].chain;
  const uint32_t n = program_count_nodes(&p->ir, chain);
  for (uint32_t i = 0; i < n; i++) TRY(check_node(p, chain, i));
  return NULL;
}

/* Within its bounds in each method that has it. */
static clave_status check_dim(const program *p, const compile_options *o, const compile_dim *d,
                              scalar_value *values) {
  bool is_found = false;
  for (uint32_t i = 0; i < p->ir.methods.count; i++) {
    const uint32_t vid = plan_find_size(p, &p->ir.methods.items[i], d->name);
    if (!plan_has_method(o, i) || vid == IR_NONE) continue;
    is_found = true;
    if (p->ir.values.items[vid].type == IR_VALUE_TYPE_INT)
      TRY(scalar_set(&p->ir, vid, (scalar_value){.i = d->size}, values, d->name));
  }
  return is_found ? NULL
                  : INVALID("no method of it has an open size and no scalar input '%s'", d->name);
}

static clave_status check_dims(const program *p, const compile_options *o) {
  scalar_value *values = calloc((size_t)p->ir.values.count + 1, sizeof *values);
  clave_status st = values ? NULL : status_no_memory();
  for (uint32_t i = 0; i < o->n_dims && !st; i++) st = check_dim(p, o, &o->dims[i], values);
  free(values);
  return st;
}

static const char *what_carries(const compile_options *o) {
  if (o->is_opencl) return "what runs on OpenCL devices";
  if (o->all_methods) return "what has all methods";
  if (!o->text) return "this one";
  return "a language model's text (--method M and --dim NAME=N ask for one method alone)";
}

/* The first option that is of programs which are written out alone. */
static clave_status check_options(const compile_options *o) {
  const struct {
    bool is_given;
    const char *name;
  } all[] = {{o->bare, "--bare"},
             {o->static_memory, "--arena static"},
             {o->n_threads != 0, "--threads"},
             {o->kernel_dir != NULL, "--kernel-dir"},
             {o->packed_only, "--packed-only"},
             {o->tuning != NULL && o->text, "--tune"},
             {o->is_portable, "--processor"},
             {o->march != NULL, "--march"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].is_given)
      return UNSUPPORTED("%s is of programs that are written out as C, and %s carries the runtime",
                         all[i].name, what_carries(o));
  return NULL;
}

clave_status carry_check(const program *p, const compile_options *o) {
  TRY(check_options(o));
  for (uint32_t i = 0; i < p->ir.methods.count && o->is_opencl; i++)
    if (plan_has_method(o, i)) TRY(check_method(p, i));
  return check_dims(p, o);
}

clave_status carry_find_runtime(const compile_options *o, char **out) {
  static const char *const names[] = {"/libclave.a", "/../lib/libclave.a", "/../lib64/libclave.a"};
  if (o->runtime) {
    TRY(path_absolute(o->runtime, out)); /* the linker runs in another folder */
  } else {
    *out = find_own(names, sizeof names / sizeof *names, false);
  }
  if (*out && file_exists(*out)) return NULL;
  free(*out);
  *out = NULL;
  return status_new(STATUS_IO,
                    "%s: not found; executables that carry the runtime are linked with it; make, "
                    "make install and the Debian package libclave-dev provide it, and "
                    "--static-library names it",
                    o->runtime ? o->runtime : "libclave.a");
}

/* ---------------------------------------------------------------- main.c */

static void write_dims(const compile_options *o, text *to) {
  if (!o->n_dims) return;
  text_puts(to, "static const carried_dim dims[] = {\n");
  for (uint32_t i = 0; i < o->n_dims; i++) {
    text_puts(to, "  {");
    write_string(to, o->dims[i].name);
    text_printf(to, ", %" PRId64 "},\n", o->dims[i].size);
  }
  text_puts(to, "};\n\n");
}

/* What fixes it; NULL: nothing does. */
static const compile_dim *find_fixed(const program *p, const compile_options *o,
                                     const ir_argument *a) {
  for (uint32_t i = 0; i < o->n_dims; i++)
    if (plan_is_scalar(p, a, o->dims[i].name)) return &o->dims[i];
  return NULL;
}

/* By their numbers: a value may have another name than the argument. How many there are. */
static uint32_t write_scalars_of(const program *p, const compile_options *o, const ir_method *m,
                                 text *to) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->inputs.count; i++) {
    const compile_dim *d = find_fixed(p, o, &m->inputs.items[i]);
    if (!d) continue;
    text_puts(to, "  {");
    write_string(to, m->name);
    text_printf(to, ", %u, %" PRId64 "},\n", i, d->size);
    n++;
  }
  return n;
}

static uint32_t write_scalars(const program *p, const compile_options *o, text *to) {
  uint32_t n = 0;
  text rows = {0};
  for (uint32_t i = 0; i < p->ir.methods.count; i++)
    if (plan_has_method(o, i)) n += write_scalars_of(p, o, &p->ir.methods.items[i], &rows);
  if (n && !rows.failed)
    text_printf(to, "static const carried_scalar scalars[] = {\n%s};\n\n", rows.data);
  to->failed = to->failed || rows.failed;
  text_free(&rows);
  return n;
}

static void write_method(const program *p, const compile_options *o, text *to) {
  text_puts(to, ",\n    .method = ");
  if (o->all_methods || o->text) {
    text_puts(to, "NULL");
  } else {
    write_string(to, p->ir.methods.items[o->method].name);
  }
}

/* Of a tuning table all that was found: which sizes will come is not known. How many. */
static uint32_t write_tuned(const compile_options *o, text *to) {
  tuning_row r;
  uint32_t n = 0;
  for (; o->tuning && tuning_get(o->tuning, n, &r); n++) {
    text_puts(to, n ? ",\n  {" : "static const carried_row tuned[] = {\n  {");
    write_string(to, r.family);
    text_puts(to, ", ");
    write_string(to, r.key);
    text_puts(to, ", ");
    write_string(to, r.variant);
    text_puts(to, "}");
  }
  if (n) text_puts(to, "\n};\n\n");
  return n;
}

/* Sizes of what is embedded. */
typedef struct carried_sizes {
  size_t program, binaries;
} carried_sizes;

static clave_status write_main(const program *p, const compile_options *o, project *k,
                               const carried_sizes *bytes, text *to) {
  text_puts(to,
            "/* Made by clave compile: what is known of the program that is carried. */\n"
            "#include \"compile/carried/carried.h\"\n#include \"compile/carried/close.h\"\n\n"
            "extern const unsigned char carried_clv[];\n\n");
  if (o->verify) TRY(carry_write_tests(p, o, k, to));
  if (o->binaries) text_puts(to, "extern const unsigned char carried_binaries[];\n\n");
  write_dims(o, to);
  const uint32_t n_scalars = write_scalars(p, o, to), n_tuned = write_tuned(o, to);
  text_puts(to, "const carried_program carried = {\n    .name = ");
  write_string(to, o->name);
  text_printf(to, ",\n    .clv = carried_clv,\n    .size = %zu,\n    .device = \"%s\"",
              bytes->program, o->is_opencl ? "opencl" : "cpu");
  write_method(p, o, to);
  if (o->n_dims) text_printf(to, ",\n    .dims = dims,\n    .n_dims = %u", o->n_dims);
  if (n_scalars) text_printf(to, ",\n    .scalars = scalars,\n    .n_scalars = %u", n_scalars);
  if (o->allow_custom_kernels) text_puts(to, ",\n    .allow_custom_kernels = 1");
  if (o->binaries)
    text_printf(to, ",\n    .binaries = carried_binaries,\n    .binaries_size = %zu",
                bytes->binaries);
  if (n_tuned)
    text_printf(to, ",\n    .tuned = tuned,\n    .n_tuned = %u,\n    .tuned_for = ", n_tuned);
  if (n_tuned) write_string(to, o->tuned_for);
  if (o->library) text_puts(to, ",\n    .is_library = 1");
  if (o->verify)
    text_printf(to, ",\n    .tests = {.methods = tests, .processor = processor%s}",
                o->is_opencl ? ", .is_close = results_close" : "");
  text_puts(to, ",\n};\n");
  if (o->library) return text_status(to);
  text_printf(to, "\nint main(int argc, char **argv) { return carried_%s(argc, argv); }\n",
              o->text ? "text" : "tensors");
  return text_status(to);
}

/* ---------------------------------------------------------------- files */

static clave_status save_program(const void *p, const char *path) { return program_save(p, path); }
static clave_status save_binaries(const void *b, const char *path) {
  return opencl_save_binaries((backend *)(uintptr_t)b, path);
}

static bool is_needed(const char *path) {
  return strncmp(path, "compile/carried/", 16) == 0 ||
         strcmp(path, "compile/runtime/expected.h") == 0 ||
         strcmp(path, "compile/runtime/tensors.h") == 0;
}

static clave_status write_headers(project *k) {
  for (int i = 0; i < n_source_files; i++)
    if (is_needed(source_files[i].path)) TRY(project_write_source(k, NULL, &source_files[i]));
  return NULL;
}

/* "some/libclave.a": "some/libclave_main.a". */
static clave_status name_archives(const char *runtime, project *k) {
  const char *slash = strrchr(runtime, '/');
  text t = {0};
  text_append(&t, runtime, slash ? (size_t)(slash - runtime) + 1 : 0);
  text_puts(&t, "libclave_main.a");
  k->archives[0] = t.data;
  TRY(text_status(&t));
  k->archives[1] = strdup(runtime);
  if (!k->archives[1]) return status_no_memory();
  return file_exists(k->archives[0])
             ? NULL
             : status_new(STATUS_IO, "%s: not found, which belongs beside libclave.a",
                          k->archives[0]);
}

static clave_status write_text(project *k, const char *name, text *t, clave_status written) {
  clave_status st = written ? written : project_write_file(k, name, t->data, t->size);
  text_free(t);
  return st;
}

static clave_status write_library(const program *p, const compile_options *o, project *k) {
  text name = {0}, t = {0};
  text_printf(&name, "%s.h", o->library);
  clave_status st = text_status(&name);
  if (!st) st = write_text(k, name.data, &t, carry_library_header(p, o, &t));
  text_free(&name);
  if (st) return st;
  k->sources[k->n_sources++] = "library.c";
  return write_text(k, "library.c", &t, carry_library_source(o, &t));
}

static clave_status write_files(const program *p, const compile_options *o, project *k) {
  carried_sizes bytes = {0};
  text t = {0};
  k->sources[k->n_sources++] = "main.c";
  TRY(project_embed_by(k, &embedded_program, save_program, p, &bytes.program));
  if (o->binaries)
    TRY(project_embed_by(k, &embedded_binaries, save_binaries, o->binaries, &bytes.binaries));
  TRY(write_text(k, "main.c", &t, write_main(p, o, k, &bytes, &t)));
  if (o->library) TRY(write_library(p, o, k));
  TRY(write_headers(k));
  return project_write_makefile(k, o);
}

clave_status carry_write(const program *p, const compile_options *o, const char *runtime,
                         const char *folder, project *out) {
  enum { MOST_SOURCES = 2 + MOST_EMBEDDED };
  *out = (project){.folder = strdup(folder), .carries = true};
  out->sources = calloc(MOST_SOURCES, sizeof *out->sources);
  clave_status st = out->folder && out->sources ? NULL : status_no_memory();
  if (!st && runtime) st = name_archives(runtime, out);
  if (!st) st = write_files(p, o, out);
  if (st) project_free(out);
  return st;
}
