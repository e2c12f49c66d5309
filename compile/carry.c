/* Writes the files of an executable that embeds its program. */
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

/* ---------------------------------------------------------------- checks */

static clave_status carry_check_node(const program *program, uint32_t chain, uint32_t number) {
  uint32_t index, in = chain;
  program_find_node(&program->ir, number, &in, &index);
  const ir_instruction *ins = &program->ir.chains.items[in].instructions.items[index];
  const op_info *info = &op_table[ins->op_type];
  return info->is_cpu ? UNSUPPORTED(
                            "op %s has no OpenCL kernel and runs only on the CPU backend: use "
                            "--target c; node %u (%s, %s)",
                            info->name, number, info->name, ins->name)
                      : NULL;
}

static clave_status carry_check_method(const program *program, uint32_t number) {
  const uint32_t chain = program->ir.methods.items[number].chain;
  const uint32_t n = program_count_nodes(&program->ir, chain);
  for (uint32_t i = 0; i < n; i++) TRY(carry_check_node(program, chain, i));
  return NULL;
}

/* Checks that a size is within its bounds in each method that has it. Fails if no method has it. */
static clave_status carry_check_dim(const program *program, const compile_options *options,
                                    const compile_dim *dim, scalar_value *values) {
  bool is_found = false;
  for (uint32_t i = 0; i < program->ir.methods.count; i++) {
    const uint32_t vid = plan_find_size(program, &program->ir.methods.items[i], dim->name);
    if (!plan_has_method(options, i) || vid == IR_NONE) continue;
    is_found = true;
    if (program->ir.values.items[vid].type == IR_VALUE_TYPE_INT)
      TRY(scalar_set(&program->ir, vid, (scalar_value){.i = dim->size}, values, dim->name));
  }
  return is_found
             ? NULL
             : INVALID("no compiled method has an open size or a scalar input '%s'", dim->name);
}

static clave_status carry_check_dims(const program *program, const compile_options *options) {
  scalar_value *values = calloc((size_t)program->ir.values.count + 1, sizeof *values);
  clave_status st = values ? NULL : status_no_memory();
  for (uint32_t i = 0; i < options->n_dims && !st; i++)
    st = carry_check_dim(program, options, &options->dims[i], values);
  free(values);
  return st;
}

static const char *what_carries(const compile_options *options) {
  if (options->is_opencl) return "a program for OpenCL devices";
  if (options->all_methods) return "a program with all methods";
  if (!options->text) return "this program";
  return "the text generation of a language model (--method M and --dim NAME=N select a single "
         "method)";
}

/* Rejects options that only emitted programs support. */
static clave_status carry_check_options(const compile_options *options) {
  const struct {
    bool is_given;
    const char *name;
  } all[] = {{options->bare, "--bare"},
             {options->static_memory, "--arena static"},
             {options->n_threads != 0, "--threads"},
             {options->kernel_dir != NULL, "--kernel-dir"},
             {options->packed_only, "--packed-only"},
             {options->tuning != NULL && options->text, "--tune"},
             {options->is_portable, "--processor"},
             {options->march != NULL, "--march"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].is_given)
      return UNSUPPORTED("%s needs a program that is emitted as C code, and %s embeds the runtime",
                         all[i].name, what_carries(options));
  return NULL;
}

clave_status carry_check(const program *program, const compile_options *options) {
  TRY(carry_check_options(options));
  for (uint32_t i = 0; i < program->ir.methods.count && options->is_opencl; i++)
    if (plan_has_method(options, i)) TRY(carry_check_method(program, i));
  return carry_check_dims(program, options);
}

clave_status carry_find_runtime(const compile_options *options, char **out) {
  static const char *const names[] = {"/libclave.a", "/../lib/libclave.a", "/../lib64/libclave.a"};
  if (options->runtime) {
    TRY(path_absolute(options->runtime, out)); /* absolute for the linker */
  } else {
    *out = find_own(names, sizeof names / sizeof *names, false);
  }
  if (*out && file_exists(*out)) return NULL;
  free(*out);
  *out = NULL;
  return status_new(
      STATUS_IO,
      "%s: not found; executables that embed the runtime are linked with it. make, make install "
      "and the Debian package libclave-dev provide it, and --static-library sets its path",
      options->runtime ? options->runtime : "libclave.a");
}

/* ---------------------------------------------------------------- main.c */

static void carry_write_dims(const compile_options *options, text *to) {
  if (!options->n_dims) return;
  text_puts(to, "static const carried_dim dims[] = {\n");
  for (uint32_t i = 0; i < options->n_dims; i++) {
    text_puts(to, "  {");
    write_string(to, options->dims[i].name);
    text_printf(to, ", %" PRId64 "},\n", options->dims[i].size);
  }
  text_puts(to, "};\n\n");
}

/* Returns the option that fixes the argument, a scalar; NULL if no option does. */
static const compile_dim *find_fixed(const program *program, const compile_options *options,
                                     const ir_argument *argument) {
  for (uint32_t i = 0; i < options->n_dims; i++)
    if (plan_is_scalar(program, argument, options->dims[i].name)) return &options->dims[i];
  return NULL;
}

/* Writes the fixed scalars of a method and returns their number. It writes the index of the input,
 * because a value's name may differ from its argument's. */
static uint32_t write_scalars_of(const program *program, const compile_options *options,
                                 const ir_method *method, text *to) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < method->inputs.count; i++) {
    const compile_dim *dim = find_fixed(program, options, &method->inputs.items[i]);
    if (!dim) continue;
    text_puts(to, "  {");
    write_string(to, method->name);
    text_printf(to, ", %u, %" PRId64 "},\n", i, dim->size);
    n++;
  }
  return n;
}

static uint32_t write_scalars(const program *program, const compile_options *options, text *to) {
  uint32_t n = 0;
  text rows = {0};
  for (uint32_t i = 0; i < program->ir.methods.count; i++)
    if (plan_has_method(options, i))
      n += write_scalars_of(program, options, &program->ir.methods.items[i], &rows);
  if (n && !rows.failed)
    text_printf(to, "static const carried_scalar scalars[] = {\n%s};\n\n", rows.data);
  to->failed = to->failed || rows.failed;
  text_free(&rows);
  return n;
}

static void carry_write_method(const program *program, const compile_options *options, text *to) {
  text_puts(to, ",\n    .method = ");
  if (options->all_methods || options->text) {
    text_puts(to, "NULL");
  } else {
    write_string(to, program->ir.methods.items[options->method].name);
  }
}

/* Writes all rows of the tuning table, because run-time sizes are unknown, and returns their
 * number. */
static uint32_t write_tuned(const compile_options *options, text *to) {
  tuning_row row;
  uint32_t n = 0;
  for (; options->tuning && tuning_get(options->tuning, n, &row); n++) {
    text_puts(to, n ? ",\n  {" : "static const carried_row tuned[] = {\n  {");
    write_string(to, row.family);
    text_puts(to, ", ");
    write_string(to, row.key);
    text_puts(to, ", ");
    write_string(to, row.variant);
    text_puts(to, "}");
  }
  if (n) text_puts(to, "\n};\n\n");
  return n;
}

/* Sizes of the embedded files. */
typedef struct carried_sizes {
  size_t program, binaries;
} carried_sizes;

static clave_status write_main(const program *program, const compile_options *options,
                               project *project, const carried_sizes *bytes, text *to) {
  text_puts(to,
            "/* Made by clave compile: what is known of the program that is carried. */\n"
            "#include \"compile/carried/carried.h\"\n#include \"compile/carried/close.h\"\n\n"
            "extern const unsigned char carried_clv[];\n\n");
  if (options->verify) TRY(carry_write_tests(program, options, project, to));
  if (options->binaries) text_puts(to, "extern const unsigned char carried_binaries[];\n\n");
  carry_write_dims(options, to);
  const uint32_t n_scalars = write_scalars(program, options, to),
                 n_tuned = write_tuned(options, to);
  text_puts(to, "const carried_program carried = {\n    .name = ");
  write_string(to, options->name);
  text_printf(to, ",\n    .clv = carried_clv,\n    .size = %zu,\n    .device = \"%s\"",
              bytes->program, options->is_opencl ? "opencl" : "cpu");
  carry_write_method(program, options, to);
  if (options->n_dims) text_printf(to, ",\n    .dims = dims,\n    .n_dims = %u", options->n_dims);
  if (n_scalars) text_printf(to, ",\n    .scalars = scalars,\n    .n_scalars = %u", n_scalars);
  if (options->allow_custom_kernels) text_puts(to, ",\n    .allow_custom_kernels = 1");
  if (options->binaries)
    text_printf(to, ",\n    .binaries = carried_binaries,\n    .binaries_size = %zu",
                bytes->binaries);
  if (n_tuned)
    text_printf(to, ",\n    .tuned = tuned,\n    .n_tuned = %u,\n    .tuned_for = ", n_tuned);
  if (n_tuned) write_string(to, options->tuned_for);
  if (options->library) text_puts(to, ",\n    .is_library = 1");
  if (options->verify)
    text_printf(to, ",\n    .tests = {.methods = tests, .processor = processor%s}",
                options->is_opencl ? ", .is_close = results_close" : "");
  text_puts(to, ",\n};\n");
  if (options->library) return text_status(to);
  text_printf(to, "\nint main(int argc, char **argv) { return carried_%s(argc, argv); }\n",
              options->text ? "text" : "tensors");
  return text_status(to);
}

/* ---------------------------------------------------------------- files */

static clave_status carry_save_program(const void *memory, const char *path) {
  return program_save(memory, path);
}
static clave_status save_binaries(const void *right, const char *path) {
  return opencl_save_binaries((backend *)(uintptr_t)right, path);
}

static bool carry_is_needed(const char *path) {
  return strncmp(path, "compile/carried/", 16) == 0 ||
         strcmp(path, "compile/runtime/expected.h") == 0 ||
         strcmp(path, "compile/runtime/tensors.h") == 0;
}

static clave_status write_headers(project *project) {
  for (int i = 0; i < n_source_files; i++)
    if (carry_is_needed(source_files[i].path))
      TRY(project_write_source(project, NULL, &source_files[i]));
  return NULL;
}

/* Finds "some/libclave_main.a" beside "some/libclave.a". */
static clave_status name_archives(const char *runtime, project *project) {
  const char *slash = strrchr(runtime, '/');
  text text = {0};
  text_append(&text, runtime, slash ? (size_t)(slash - runtime) + 1 : 0);
  text_puts(&text, "libclave_main.a");
  project->archives[0] = text.data;
  TRY(text_status(&text));
  project->archives[1] = strdup(runtime);
  if (!project->archives[1]) return status_no_memory();
  return file_exists(project->archives[0])
             ? NULL
             : status_new(STATUS_IO, "%s: not found; it must be in the folder of libclave.a",
                          project->archives[0]);
}

static clave_status carry_write_text(project *project, const char *name, text *text,
                                     clave_status written) {
  clave_status st = written ? written : project_write_file(project, name, text->data, text->size);
  text_free(text);
  return st;
}

static clave_status carry_write_library(const program *program, const compile_options *options,
                                        project *project) {
  text header_name = {0}, content = {0};
  text_printf(&header_name, "%s.h", options->library);
  clave_status st = text_status(&header_name);
  if (!st)
    st = carry_write_text(project, header_name.data, &content,
                          carry_library_header(program, options, &content));
  text_free(&header_name);
  if (st) return st;
  project->sources[project->n_sources++] = "library.c";
  return carry_write_text(project, "library.c", &content, carry_library_source(options, &content));
}

static clave_status carry_write_files(const program *program, const compile_options *options,
                                      project *project) {
  carried_sizes bytes = {0};
  text text = {0};
  project->sources[project->n_sources++] = "main.c";
  TRY(project_embed_by(project, &embedded_program, carry_save_program, program, &bytes.program));
  if (options->binaries)
    TRY(project_embed_by(project, &embedded_binaries, save_binaries, options->binaries,
                         &bytes.binaries));
  TRY(carry_write_text(project, "main.c", &text,
                       write_main(program, options, project, &bytes, &text)));
  if (options->library) TRY(carry_write_library(program, options, project));
  TRY(write_headers(project));
  return project_write_makefile(project, options);
}

clave_status carry_write(const program *program, const compile_options *options,
                         const char *runtime, const char *folder, project *out) {
  enum { MAX_SOURCES = 2 + MAX_EMBEDDED };
  *out = (project){.folder = strdup(folder), .carries = true};
  out->sources = calloc(MAX_SOURCES, sizeof *out->sources);
  clave_status st = out->folder && out->sources ? NULL : status_no_memory();
  if (!st && runtime) st = name_archives(runtime, out);
  if (!st) st = carry_write_files(program, options, out);
  if (st) project_free(out);
  return st;
}
