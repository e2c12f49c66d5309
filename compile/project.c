/* Writes the files of a compiled program. */
#include "compile/project.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "compile/bare.h"
#include "compile/carry_library.h"
#include "compile/emit.h"
#include "compile/kernel_folder.h"
#include "compile/library.h"
#include "compile/packed.h"

const embedded_file embedded_weights = {"model_weights", "weights.S", "weights.bin", false};
const embedded_file embedded_packed_weights = {"model_packed_weights", "packed_weights.S",
                                               "packed_weights.bin", true};
const embedded_file embedded_program = {"carried_clv", "program.S", "program.clv", true};
const embedded_file embedded_expected = {"carried_expected", "expected.S", "expected.bin", false};
const embedded_file embedded_binaries = {"carried_binaries", "binaries.S", "binaries.bin", false};

/* Everything except far data is placed within 2 GB of the code. */
static const char far_section[] =
    "#ifdef __x86_64__\n"
    "  .section .lrodata,\"a\",%progbits\n"
    "#else\n"
    "  .section .rodata\n"
    "#endif\n";

/* The header of linker names, in a folder so that it cannot clash with a library's NAME.h. */
#define NAMES "compile/names.h"

const host_library host_libraries[N_HOST_LIBRARIES] = {{"pcre2-8", "BSD-3-Clause"},
                                                       {"utf8proc", "MIT"}};

/* ---------------------------------------------------------------- flags */

/* Flags of the compiler. Those that affect the bits of results are the same as for the library: no
 * contraction of a * b + c. */
static const char *const compile_flags[] = {"-std=c11",
                                            "-D_GNU_SOURCE",
                                            "-D_FILE_OFFSET_BITS=64",
                                            "-D_TIME_BITS=64",
                                            "-Wall",
                                            "-Wextra",
                                            "-Wpedantic",
                                            "-fwrapv",
                                            "-ffp-contract=off",
                                            "-fno-math-errno",
                                            "-fno-trapping-math",
                                            "-ffunction-sections",
                                            "-fdata-sections",
                                            "-iquote."};
static const char *const carried_link_flags[] = {"-Wl,--gc-sections", "-Wl,--as-needed", "-pthread",
                                                 "-ldl", "-lm"};

static void copy_flags(const char *const *from, size_t n, const char **to) {
  for (size_t i = 0; i < n; i++) to[i] = from[i];
}

void project_compile_flags(const project *project, const compile_options *options,
                           const char *flags[MAX_FLAGS]) {
  size_t n = sizeof compile_flags / sizeof *compile_flags;
  copy_flags(compile_flags, n, flags);
  flags[n++] = options->debug ? "-O1" : "-O3";
  flags[n++] = options->debug ? "-g" : "-fno-asynchronous-unwind-tables";
  flags[n++] = "-DKERNEL_COMPILED=1";
  if (project->is_plain) flags[n++] = "-DKERNEL_PLAIN=1";
  if (project->is_ungrouped) flags[n++] = "-DKERNEL_UNGROUPED=1";
  if (project->is_single) flags[n++] = "-DKERNEL_SINGLE=1";
  if (!project->carries && options->n_threads < 0) flags[n++] = "-DKERNEL_ALONE=1";
  if (options->is_portable) flags[n++] = "-DKERNEL_PORTABLE=1";
  if (project->static_memory[0]) flags[n++] = project->static_memory;
  if (options->bare) flags[n++] = "-include" NAMES;
  if (!project->carries) flags[n++] = project->steps[0];
  if (!project->carries) flags[n++] = project->steps[1];
  if (options->library && !options->bare) flags[n++] = "-fPIC";
  if (options->library && !options->bare) flags[n++] = "-fvisibility=hidden";
  if (options->march && !options->is_portable && !project->is_packed)
    flags[n++] = "-DKERNEL_MARCH=1";
  if (options->march) flags[n++] = options->march;
  flags[n] = NULL;
}

const char *project_source_flag(const compile_options *options, const char *source) {
  static const char *const folders[] = {"json/", "compile/runtime/"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders && !options->debug; i++)
    if (strncmp(source, folders[i], strlen(folders[i])) == 0) return "-O2";
  return NULL;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Appends the host's libraries after the archives. */
static size_t add_libraries(const project *project, const compile_options *options,
                            const char **flags) {
  size_t n = 0;
  if (project->carries) {
    copy_flags(carried_link_flags, COUNT(carried_link_flags), flags);
    n += COUNT(carried_link_flags);
    if (options->library)
      flags[n++] = "-Wl,--exclude-libs,ALL"; /* exports only its own functions */
    if (options->library) flags[n++] = "-Wl,-z,defs";
    return n;
  }
  flags[n++] = "-Wl,--gc-sections";
  if (options->n_threads >= 0) flags[n++] = "-lpthread";
  flags[n++] = "-lm";
  return n;
}

void project_link_flags(const project *project, const compile_options *options,
                        const char *flags[MAX_FLAGS]) {
  size_t n = 0;
  for (int i = 0; i < 2 && project->archives[i]; i++) flags[n++] = project->archives[i];
  for (int i = 0; project->libs[i]; i++) flags[n++] = project->libs[i];
  if (options->bare) {
    flags[n++] = "-r";
    flags[n++] = "-nostdlib";
  } else {
    n += add_libraries(project, options, flags + n);
    if (!options->debug) flags[n++] = "-s";
    if (options->library) flags[n++] = "-shared";
  }
  flags[n] = NULL;
}

/* ---------------------------------------------------------------- files */

clave_status project_add_file(project *project, const char *name) {
  if (!array_reserve(&project->files, &project->cap_files, project->n_files + 1,
                     sizeof *project->files))
    return status_no_memory();
  project->files[project->n_files] = (project_file){.path = strdup(name)};
  return project->files[project->n_files].path ? (project->n_files++, NULL) : status_no_memory();
}

/* Creates the parent folders of `path`. */
static clave_status make_folders_of(char *path) {
  char *slash = strrchr(path, '/');
  *slash = '\0';
  clave_status st = make_folders(path, FOLDERS_SHARED);
  *slash = '/';
  return st;
}

clave_status project_write_file(project *project, const char *name, const void *data, size_t size) {
  TRY(project_add_file(project, name));
  char *path = path_join(project->folder, name);
  clave_status st = path ? make_folders_of(path) : status_no_memory();
  if (!st) st = file_write(path, data, size);
  free(path);
  return st;
}

clave_status project_embed(project *project, const embedded_file *file) {
  text text = {0};
  text_printf(&text, "/* %s, mapped with the program and read in place. */\n%s", file->file,
              file->is_far ? far_section : "  .section .rodata\n");
  text_printf(
      &text,
      "  .balign 4096\n  .globl %s\n  .hidden %s\n%s:\n  .incbin \"%s\"\n  .byte 0\n"
      "#ifdef __unix__ /* firmware has no such notes, and the linker warns where only some do */\n"
      "  .section .note.GNU-stack,\"\",%%progbits\n"
      "#endif\n",
      file->symbol, file->symbol, file->symbol, file->file);
  clave_status st = text_status(&text);
  if (!st) st = project_write_file(project, file->source, text.data, text.size);
  text_free(&text);
  project->sources[project->n_sources++] = file->source;
  project->embedded[project->n_embedded++] = file;
  return st;
}

clave_status project_embed_by(project *project, const embedded_file *file, project_file_fn write,
                              const void *from, size_t *bytes) {
  TRY(project_add_file(project, file->file));
  char *path = path_join(project->folder, file->file);
  file_map map = {0};
  clave_status st = path ? write(from, path) : status_no_memory();
  if (!st && bytes) st = file_map_open(path, &map);
  if (bytes) *bytes = map.size;
  file_map_close(&map);
  free(path);
  return st ? st : project_embed(project, file);
}

/* Writes the source from the user's folder of kernels, else ours. */
clave_status project_write_source(project *project, const char *kernel_dir,
                                  const source_file *file) {
  char *own;
  file_map map;
  TRY(kernel_folder_find(kernel_dir, file, &own));
  if (!own) {
    TRY(project_write_file(project, file->path, file->data, file->size));
    project->files[project->n_files - 1].is_ours = true;
    return NULL;
  }
  clave_status st = file_map_open(own, &map);
  if (!st) st = project_write_file(project, file->path, map.data, map.size);
  file_map_close(&map);
  free(own);
  return st;
}

/* Marks a file and everything it needs. */
static void mark(bool *needed, int file) {
  if (needed[file]) return;
  needed[file] = true;
  for (int i = 0; i < source_files[file].n_needs; i++) mark(needed, source_files[file].needs[i]);
}

/* Marks the file that defines a function, if any. */
static void mark_function(bool *needed, const char *begin, const char *end) {
  char name[96];
  (void)snprintf(name, sizeof name, "%s%s", begin, end);
  for (int i = 0; i < n_source_files; i++)
    for (int k = 0; k < source_files[i].n_names; k++)
      if (strcmp(source_files[i].names[k], name) == 0) mark(needed, i);
}

static void mark_path(bool *needed, const char *path) {
  int i = 0;
  while (strcmp(source_files[i].path, path) != 0) i++; /* always found */
  mark(needed, i);
}

/* Marks the files that model.c refers to with open sizes. */
static void mark_planned(const emitted *used, bool *needed) {
  static const char *const paths[] = {"compile/open/planned.c", "cpu_ops.h", "ir_desc.c",
                                      "steps_table.c"};
  for (size_t i = 0; i < COUNT(paths); i++) mark_path(needed, paths[i]);
  for (int i = 0; i < IR_OP_COUNT; i++) {
    if (!used->ops[i]) continue;
    mark_function(needed, "rule_", op_table[i].name);
    mark_function(needed, "view_", op_table[i].name);
    mark_function(needed, "cpu_", op_table[i].name);
  }
}

/* Marks the files of the runtime that model.c and the options need. */
static void mark_all(const emitted *used, const compile_options *options, bool *needed) {
  if (emits_planner(used)) mark_planned(used, needed);
  mark_path(needed, "compile/runtime/core.c");
  if (options->n_threads >= 0) mark_path(needed, "compile/runtime/pool.c");
  if (!options->static_memory) mark_path(needed, "compile/runtime/heap.c");
  if (!options->bare) mark_path(needed, "compile/runtime/written.c");
  if (!options->library) mark_path(needed, "compile/runtime/start.c");
  if (options->library && !options->bare)
    mark_path(needed,
              emits_planner(used) ? "compile/runtime/tensors.c" : "compile/runtime/library.c");
  for (int i = 0; i < n_kernel_infos; i++)
    if (used->kernels[i]) mark(needed, kernel_infos[i].source);
  if (used->packed.n) mark_path(needed, "backend/cpu/kernels/support/features.c");
}

static bool is_compiled(const char *path) { return path_has_ending(path, ".c"); }

/* The user's kernels may include any header, so all headers are written. */
static bool project_is_written(const bool *needed, const compile_options *options, int i) {
  return needed[i] || (options->kernel_dir && !is_compiled(source_files[i].path));
}

static clave_status write_needed(project *project, const compile_options *options,
                                 const bool *needed) {
  if (options->library)
    project->sources[project->n_sources++] = options->bare ? "bare.c" : "library.c";
  for (int i = 0; i < n_source_files; i++) {
    if (!project_is_written(needed, options, i)) continue;
    TRY(project_write_source(project, options->kernel_dir, &source_files[i]));
    if (is_compiled(source_files[i].path))
      project->sources[project->n_sources++] = source_files[i].path;
  }
  return NULL;
}

/* Sets *out (n_source_files), which the caller frees: true for files that the program is built
 * from. Fails with INVALID if the user's folder of kernels does not fit. */
static clave_status project_find_needed(const compile_options *options, const emitted *used,
                                        bool **out) {
  *out = calloc((size_t)n_source_files, sizeof **out);
  if (!*out) return status_no_memory();
  mark_all(used, options, *out);
  return options->kernel_dir ? kernel_folder_check(options->kernel_dir, *out) : NULL;
}

static const char carried_makefile[] =
    "\n# CLAVE_LIBDIR=DIR: where libclave.a and libclave_main.a are, if pkg-config does not know.\n"
    "CLAVE_LIBDIR ?= $(shell pkg-config --variable=libdir clave)\n"
    "CLAVE = $(CLAVE_LIBDIR)/libclave_main.a $(CLAVE_LIBDIR)/libclave.a";

static void project_add_words(text *text, const char *const *words) {
  for (; *words; words++) text_printf(text, " %s", *words);
}

clave_status project_write_makefile(project *project, const compile_options *options) {
  const char *compile[MAX_FLAGS], *link[MAX_FLAGS];
  text text = {0};
  project_compile_flags(project, options, compile);
  project_link_flags(project, options, link);
  text_puts(&text, "# make CC=aarch64-linux-gnu-gcc builds for another processor.\nFLAGS =");
  project_add_words(&text, compile);
  if (project->carries) text_puts(&text, carried_makefile);
  text_puts(&text, "\nSOURCES =");
  for (size_t i = 0; i < project->n_sources; i++)
    text_printf(&text, " \\\n  %s", project->sources[i]);
  text_puts(&text, "\nOBJECTS = $(addsuffix .o,$(SOURCES))\n\n" LINKED_FILE
                   ": $(OBJECTS)\n\t$(CC) $(LDFLAGS) -o $@ $^");
  if (project->carries) text_puts(&text, " $(CLAVE)");
  for (int i = 0; i < N_HOST_LIBRARIES && options->text; i++)
    text_printf(&text, " -l%s", host_libraries[i].name);
  project_add_words(&text, link);
  text_puts(&text, "\n");
  for (size_t i = 0; i < project->n_sources; i++)
    if (project_source_flag(options, project->sources[i]))
      text_printf(&text, "%s.o: FLAGS += %s\n", project->sources[i],
                  project_source_flag(options, project->sources[i]));
  for (int i = 0; i < project->n_embedded; i++)
    text_printf(&text, "%s.o: %s\n", project->embedded[i]->source, project->embedded[i]->file);
  text_puts(&text,
            "$(OBJECTS): %.o: %\n\t$(CC) $(FLAGS) $(CFLAGS) -c -o $@ $<\n"
            "clean:\n\trm -f " LINKED_FILE " $(OBJECTS)\n.PHONY: clean\n");
  clave_status st = text_status(&text);
  if (!st) st = project_write_file(project, "Makefile", text.data, text.size);
  text_free(&text);
  return st;
}

static clave_status write_weights(const void *plan, const char *path) {
  return plan_write_weights(plan, path);
}

static clave_status project_write_packed(const void *list, const char *path) {
  return packed_write(list, path);
}

typedef clave_status (*library_writer)(const compile_plan *plan, const compile_options *options,
                                       text *to);

static clave_status project_write_text(project *project, const compile_plan *plan,
                                       const compile_options *options, library_writer write,
                                       const char *name) {
  text text = {0};
  clave_status st = write(plan, options, &text);
  if (!st) st = project_write_file(project, name, text.data, text.size);
  text_free(&text);
  return st;
}

static clave_status open_header(const compile_plan *plan, const compile_options *options,
                                text *to) {
  return carry_library_header(plan->prog, options, to);
}

static clave_status open_source(const compile_plan *plan, const compile_options *options,
                                text *to) {
  (void)plan;
  return carry_library_source(options, to);
}

typedef struct library_writers {
  library_writer header, source;
} library_writers;

static library_writers writers_of(const compile_plan *plan, const compile_options *options) {
  if (options->bare) return (library_writers){bare_write_header, bare_write_source};
  if (!plan->schedule) return (library_writers){open_header, open_source};
  return (library_writers){library_write_header, library_write_source};
}

static clave_status project_write_library(project *project, const compile_plan *plan,
                                          const compile_options *options) {
  text header = {0};
  if (!options->library) return NULL;
  const library_writers writers = writers_of(plan, options);
  text_printf(&header, "%s.h", options->library);
  clave_status st = text_status(&header);
  if (!st) st = project_write_text(project, plan, options, writers.header, header.data);
  text_free(&header);
  if (st) return st;
  TRY(project_write_text(project, plan, options, writers.source,
                         options->bare ? "bare.c" : "library.c"));
  return options->bare ? project_write_text(project, plan, options, bare_write_names, NAMES) : NULL;
}

static void name_steps(const char *class, const uint64_t bits[2], char flag[80]) {
  (void)snprintf(flag, 80, "-DKERNEL_%s_STEPS=0x%" PRIx64 "u,0x%" PRIx64 "u", class, bits[0],
                 bits[1]);
}

/* Computes the static memory that the command line itself uses. */
static void name_static_memory(project *project, const compile_plan *plan,
                               const compile_options *options) {
  enum { COMMAND_LINE_BYTES = 64 << 10, BYTES_OF_INPUT = 1 << 10, BYTES_OF_OUTPUT = 16 << 10 };
  const ir_method *method = plan->graph->method;
  if (!options->static_memory || options->bare) return;
  const size_t bytes = COMMAND_LINE_BYTES + method->inputs.count * BYTES_OF_INPUT +
                       method->outputs.count * BYTES_OF_OUTPUT +
                       (options->verify ? self_test_bytes(plan) : 0);
  (void)snprintf(project->static_memory, sizeof project->static_memory, "-DMEMORY_STATIC=%zu",
                 bytes);
  project->memory_bytes += bytes;
}

/* Emits the model again without the constants that are only read packed. Only the first pass finds
 * out which constants these are. */
static clave_status emit_without(compile_plan *plan, const compile_options *options,
                                 const test_output *kept, text *model, emitted *used) {
  plan_keep_weights(plan, used->constants);
  emitted_free(used);
  text_clear(model);
  TRY(emitted_create(plan, used));
  return emit_model(plan, options, kept, model, used);
}

static clave_status project_make_model(compile_plan *plan, const compile_options *options,
                                       text *model, emitted *used) {
  test_output *kept = NULL;
  clave_status st = NULL;
  if (options->verify) kept = calloc((size_t)plan->graph->method->outputs.count + 1, sizeof *kept);
  if (options->verify && !kept) return status_no_memory();
  if (kept)
    st = self_test_run(plan->prog, options, plan->executable, plan->constants, plan->method, kept,
                       NULL);
  if (!st) st = emit_model(plan, options, kept, model, used);
  if (!st && options->packed_only) st = emit_without(plan, options, kept, model, used);
  free(kept);
  return st;
}

static clave_status project_write_files(project *project, const compile_plan *plan,
                                        const compile_options *options, const text *model,
                                        const emitted *used, const bool *needed) {
  project->sources = calloc((size_t)n_source_files + 4, sizeof *project->sources);
  if (!project->sources) return status_no_memory();
  TRY(project_write_file(project, "model.c", model->data, model->size));
  project->sources[project->n_sources++] = "model.c";
  TRY(project_write_library(project, plan, options));
  TRY(project_embed_by(project, &embedded_weights, write_weights, plan, NULL));
  project->is_packed = used->packed.n > 0;
  if (project->is_packed)
    TRY(project_embed_by(project, &embedded_packed_weights, project_write_packed, &used->packed,
                         NULL));
  return write_needed(project, options, needed);
}

static clave_status write_project(project *project, compile_plan *plan,
                                  const compile_options *options, emitted *used) {
  text model = {0};
  bool *needed = NULL;
  clave_status st = project_make_model(plan, options, &model, used);
  if (!st) st = project_find_needed(options, used, &needed);
  if (!st) st = project_write_files(project, plan, options, &model, used, needed);
  free(needed);
  text_free(&model);
  if (st) return st;
  project->memory_bytes = used->memory_bytes;
  name_static_memory(project, plan, options);
  name_steps("FLOAT", used->float_steps, project->steps[0]);
  name_steps("INT", used->int_steps, project->steps[1]);
  return project_write_makefile(project, options);
}

static bool has_encoded(const program *program) {
  for (uint32_t i = 0; i < program->ir.constants.count; i++)
    if (program->types[i].encoding.kind) return true;
  return false;
}

static bool has_halves(const program *program) {
  for (uint32_t i = 0; i < slot_count(program); i++)
    if (program->types[i].type == DTYPE_F16 || program->types[i].type == DTYPE_BF16) return true;
  return false;
}

static int32_t groups_of(const ir_instruction *ins) {
  switch (ins->op_type) {
    case IR_OP_CONV:
      return ((const ir_conv *)ins->op)->groups;
    case IR_OP_CONV_TRANSPOSE:
      return ((const ir_conv_transpose *)ins->op)->groups;
    case IR_OP_CONV_INTEGER:
      return ((const ir_conv_integer *)ins->op)->groups;
    default:
      return 1;
  }
}

static bool has_groups(const program *program) {
  for (uint32_t c = 0; c < program->ir.chains.count; c++) {
    const ir_instructions *all = &program->ir.chains.items[c].instructions;
    for (uint32_t i = 0; i < all->count; i++)
      if (groups_of(&all->items[i]) != 1) return true;
  }
  return false;
}

clave_status project_write(compile_plan *plan, const compile_options *options, const char *folder,
                           project *out) {
  *out = (project){.folder = strdup(folder),
                   .is_plain = !has_encoded(plan->prog),
                   .is_ungrouped = !has_groups(plan->prog),
                   .is_single = !has_halves(plan->prog)};
  emitted used;
  clave_status st = emitted_create(plan, &used);
  if (!st && !out->folder) st = status_no_memory();
  if (!st) st = write_project(out, plan, options, &used);
  emitted_free(&used);
  if (st) project_free(out);
  return st;
}

void project_free(project *build) {
  for (size_t i = 0; i < build->n_files; i++) free(build->files[i].path);
  free(build->files);
  free(build->archives[0]);
  free(build->archives[1]);
  for (int i = 0; build->libs[i]; i++) free(build->libs[i]);
  free(build->folder);
  free(build->sources);
  *build = (project){0};
}
