/* The files of a compiled program. */
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
const embedded_file embedded_forms = {"model_forms", "forms.S", "forms.bin", true};
const embedded_file embedded_program = {"carried_clv", "program.S", "program.clv", true};
const embedded_file embedded_expected = {"carried_expected", "expected.S", "expected.bin", false};
const embedded_file embedded_binaries = {"carried_binaries", "binaries.S", "binaries.bin", false};

/* Within 2 GB of the code lies all but what is far. */
static const char far_section[] =
    "#ifdef __x86_64__\n"
    "  .section .lrodata,\"a\",%progbits\n"
    "#else\n"
    "  .section .rodata\n"
    "#endif\n";

/* Beside no NAME.h of a library's. */
#define NAMES "compile/names.h"

const host_library host_libraries[N_HOST_LIBRARIES] = {{"pcre2-8", "BSD-3-Clause"},
                                                       {"utf8proc", "MIT"}};

/* ---------------------------------------------------------------- flags */

/* What decides the bits of results is the same as in the library: no contraction of a * b + c. */
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

void project_compile_flags(const project *k, const compile_options *o,
                           const char *flags[MOST_FLAGS]) {
  size_t n = sizeof compile_flags / sizeof *compile_flags;
  copy_flags(compile_flags, n, flags);
  flags[n++] = o->debug ? "-O1" : "-O3";
  flags[n++] = o->debug ? "-g" : "-fno-asynchronous-unwind-tables";
  flags[n++] = "-DKERNEL_COMPILED=1";
  if (k->is_plain) flags[n++] = "-DKERNEL_PLAIN=1";
  if (k->is_whole) flags[n++] = "-DKERNEL_WHOLE=1";
  if (k->is_single) flags[n++] = "-DKERNEL_SINGLE=1";
  if (!k->carries && o->n_threads < 0) flags[n++] = "-DKERNEL_ALONE=1";
  if (o->is_portable) flags[n++] = "-DKERNEL_PORTABLE=1";
  if (k->room[0]) flags[n++] = k->room;
  if (o->bare) flags[n++] = "-include" NAMES;
  if (!k->carries) flags[n++] = k->steps[0];
  if (!k->carries) flags[n++] = k->steps[1];
  if (o->library && !o->bare) flags[n++] = "-fPIC";
  if (o->library && !o->bare) flags[n++] = "-fvisibility=hidden";
  if (o->march && !o->is_portable && !k->is_packed) flags[n++] = "-DKERNEL_MARCH=1";
  if (o->march) flags[n++] = o->march;
  flags[n] = NULL;
}

const char *project_source_flag(const compile_options *options, const char *source) {
  static const char *const folders[] = {"json/", "compile/runtime/"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders && !options->debug; i++)
    if (strncmp(source, folders[i], strlen(folders[i])) == 0) return "-O2";
  return NULL;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The host's libraries behind the archives. */
static size_t add_libraries(const project *k, const compile_options *o, const char **flags) {
  size_t n = 0;
  if (k->carries) {
    copy_flags(carried_link_flags, COUNT(carried_link_flags), flags);
    n += COUNT(carried_link_flags);
    if (o->library) flags[n++] = "-Wl,--exclude-libs,ALL"; /* its own functions alone are seen */
    if (o->library) flags[n++] = "-Wl,-z,defs";
    return n;
  }
  flags[n++] = "-Wl,--gc-sections";
  if (o->n_threads >= 0) flags[n++] = "-lpthread";
  flags[n++] = "-lm";
  return n;
}

void project_link_flags(const project *k, const compile_options *o, const char *flags[MOST_FLAGS]) {
  size_t n = 0;
  for (int i = 0; i < 2 && k->archives[i]; i++) flags[n++] = k->archives[i];
  for (int i = 0; k->libs[i]; i++) flags[n++] = k->libs[i];
  if (o->bare) {
    flags[n++] = "-r";
    flags[n++] = "-nostdlib";
  } else {
    n += add_libraries(k, o, flags + n);
    if (!o->debug) flags[n++] = "-s";
    if (o->library) flags[n++] = "-shared";
  }
  flags[n] = NULL;
}

/* ---------------------------------------------------------------- files */

clave_status project_add_file(project *k, const char *name) {
  if (!array_reserve(&k->files, &k->cap_files, k->n_files + 1, sizeof *k->files))
    return status_no_memory();
  k->files[k->n_files] = (project_file){.path = strdup(name)};
  return k->files[k->n_files].path ? (k->n_files++, NULL) : status_no_memory();
}

/* What `path` lies in. */
static clave_status make_folders_of(char *path) {
  char *slash = strrchr(path, '/');
  *slash = '\0';
  clave_status st = make_folders(path, FOLDERS_SHARED);
  *slash = '/';
  return st;
}

clave_status project_write_file(project *k, const char *name, const void *data, size_t size) {
  TRY(project_add_file(k, name));
  char *path = path_join(k->folder, name);
  file_writer *w = NULL;
  clave_status st = path ? make_folders_of(path) : status_no_memory();
  if (!st) st = file_writer_create(path, &w);
  if (!st) st = file_writer_append(w, data, size);
  if (!st) st = file_writer_commit(w);
  file_writer_destroy(w);
  free(path);
  return st;
}

clave_status project_embed(project *k, const embedded_file *e) {
  text t = {0};
  text_printf(&t, "/* %s, mapped with the program and read in place. */\n%s", e->file,
              e->is_far ? far_section : "  .section .rodata\n");
  text_printf(
      &t,
      "  .balign 4096\n  .globl %s\n  .hidden %s\n%s:\n  .incbin \"%s\"\n  .byte 0\n"
      "#ifdef __unix__ /* firmware has no such notes, and the linker warns where only some do */\n"
      "  .section .note.GNU-stack,\"\",%%progbits\n"
      "#endif\n",
      e->symbol, e->symbol, e->symbol, e->file);
  clave_status st = text_status(&t);
  if (!st) st = project_write_file(k, e->source, t.data, t.size);
  text_free(&t);
  k->sources[k->n_sources++] = e->source;
  k->embedded[k->n_embedded++] = e;
  return st;
}

clave_status project_embed_by(project *k, const embedded_file *e, project_file_fn write,
                              const void *from, size_t *bytes) {
  TRY(project_add_file(k, e->file));
  char *path = path_join(k->folder, e->file);
  file_map m = {0};
  clave_status st = path ? write(from, path) : status_no_memory();
  if (!st && bytes) st = file_map_open(path, &m);
  if (bytes) *bytes = m.size;
  file_map_close(&m);
  free(path);
  return st ? st : project_embed(k, e);
}

/* Of the caller's folder of kernels, or ours. */
clave_status project_write_source(project *k, const char *kernel_dir, const source_file *f) {
  char *own;
  file_map m;
  TRY(kernel_folder_find(kernel_dir, f, &own));
  if (!own) {
    TRY(project_write_file(k, f->path, f->data, f->size));
    k->files[k->n_files - 1].is_ours = true;
    return NULL;
  }
  clave_status st = file_map_open(own, &m);
  if (!st) st = project_write_file(k, f->path, m.data, m.size);
  file_map_close(&m);
  free(own);
  return st;
}

/* Marks a file and what it needs. */
static void mark(bool *needed, int file) {
  if (needed[file]) return;
  needed[file] = true;
  for (int i = 0; i < source_files[file].n_needs; i++) mark(needed, source_files[file].needs[i]);
}

/* What defines a function, if there is one. */
static void mark_function(bool *needed, const char *begin, const char *end) {
  char name[96];
  (void)snprintf(name, sizeof name, "%s%s", begin, end);
  for (int i = 0; i < n_source_files; i++)
    for (int k = 0; k < source_files[i].n_names; k++)
      if (strcmp(source_files[i].names[k], name) == 0) mark(needed, i);
}

static void mark_path(bool *needed, const char *path) {
  int i = 0;
  while (strcmp(source_files[i].path, path) != 0) i++; /* it is there */
  mark(needed, i);
}

/* What model.c names where sizes are open. */
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

/* What model.c and the caller name of the runtime. */
static void mark_all(const emitted *used, const compile_options *o, bool *needed) {
  if (emits_planner(used)) mark_planned(used, needed);
  mark_path(needed, "compile/runtime/core.c");
  if (o->n_threads >= 0) mark_path(needed, "compile/runtime/pool.c");
  if (!o->static_memory) mark_path(needed, "compile/runtime/heap.c");
  if (!o->bare) mark_path(needed, "compile/runtime/written.c");
  if (!o->library) mark_path(needed, "compile/runtime/start.c");
  if (o->library && !o->bare)
    mark_path(needed,
              emits_planner(used) ? "compile/runtime/tensors.c" : "compile/runtime/library.c");
  for (int i = 0; i < n_kernel_infos; i++)
    if (used->kernels[i]) mark(needed, kernel_infos[i].source);
  if (used->packed.n) mark_path(needed, "backend/cpu/kernels/support/features.c");
}

static bool is_compiled(const char *path) { return path_has_ending(path, ".c"); }

/* Kernels of the caller's may include any header. */
static bool is_written(const bool *needed, const compile_options *o, int i) {
  return needed[i] || (o->kernel_dir && !is_compiled(source_files[i].path));
}

static clave_status write_needed(project *k, const compile_options *o, const bool *needed) {
  if (o->library) k->sources[k->n_sources++] = o->bare ? "bare.c" : "library.c";
  for (int i = 0; i < n_source_files; i++) {
    if (!is_written(needed, o, i)) continue;
    TRY(project_write_source(k, o->kernel_dir, &source_files[i]));
    if (is_compiled(source_files[i].path)) k->sources[k->n_sources++] = source_files[i].path;
  }
  return NULL;
}

/* Of source_files those that it is built of: owned by the caller. INVALID: the caller's folder of
 * kernels does not fit. */
static clave_status find_needed(const compile_options *o, const emitted *used, bool **out) {
  *out = calloc((size_t)n_source_files, sizeof **out);
  if (!*out) return status_no_memory();
  mark_all(used, o, *out);
  return o->kernel_dir ? kernel_folder_check(o->kernel_dir, *out) : NULL;
}

static const char carried_makefile[] =
    "\n# CLAVE_LIBDIR=DIR: where libclave.a and libclave_main.a are, if pkg-config does not know.\n"
    "CLAVE_LIBDIR ?= $(shell pkg-config --variable=libdir clave)\n"
    "CLAVE = $(CLAVE_LIBDIR)/libclave_main.a $(CLAVE_LIBDIR)/libclave.a";

static void add_words(text *t, const char *const *words) {
  for (; *words; words++) text_printf(t, " %s", *words);
}

clave_status project_write_makefile(project *k, const compile_options *o) {
  const char *compile[MOST_FLAGS], *link[MOST_FLAGS];
  text t = {0};
  project_compile_flags(k, o, compile);
  project_link_flags(k, o, link);
  text_puts(&t, "# make CC=aarch64-linux-gnu-gcc builds for another processor.\nFLAGS =");
  add_words(&t, compile);
  if (k->carries) text_puts(&t, carried_makefile);
  text_puts(&t, "\nSOURCES =");
  for (size_t i = 0; i < k->n_sources; i++) text_printf(&t, " \\\n  %s", k->sources[i]);
  text_puts(&t, "\nOBJECTS = $(addsuffix .o,$(SOURCES))\n\n" MADE
                ": $(OBJECTS)\n\t$(CC) $(LDFLAGS) -o $@ $^");
  if (k->carries) text_puts(&t, " $(CLAVE)");
  for (int i = 0; i < N_HOST_LIBRARIES && o->text; i++)
    text_printf(&t, " -l%s", host_libraries[i].name);
  add_words(&t, link);
  text_puts(&t, "\n");
  for (size_t i = 0; i < k->n_sources; i++)
    if (project_source_flag(o, k->sources[i]))
      text_printf(&t, "%s.o: FLAGS += %s\n", k->sources[i], project_source_flag(o, k->sources[i]));
  for (int i = 0; i < k->n_embedded; i++)
    text_printf(&t, "%s.o: %s\n", k->embedded[i]->source, k->embedded[i]->file);
  text_puts(&t,
            "$(OBJECTS): %.o: %\n\t$(CC) $(FLAGS) $(CFLAGS) -c -o $@ $<\n"
            "clean:\n\trm -f " MADE " $(OBJECTS)\n.PHONY: clean\n");
  clave_status st = text_status(&t);
  if (!st) st = project_write_file(k, "Makefile", t.data, t.size);
  text_free(&t);
  return st;
}

static clave_status write_weights(const void *plan, const char *path) {
  return plan_write_weights(plan, path);
}

static clave_status write_packed(const void *list, const char *path) {
  return packed_write(list, path);
}

typedef clave_status (*library_writer)(const compile_plan *k, const compile_options *o, text *to);

static clave_status write_text(project *k, const compile_plan *plan, const compile_options *o,
                               library_writer write, const char *name) {
  text t = {0};
  clave_status st = write(plan, o, &t);
  if (!st) st = project_write_file(k, name, t.data, t.size);
  text_free(&t);
  return st;
}

static clave_status open_header(const compile_plan *k, const compile_options *o, text *to) {
  return carry_library_header(k->prog, o, to);
}

static clave_status open_source(const compile_plan *k, const compile_options *o, text *to) {
  (void)k;
  return carry_library_source(o, to);
}

typedef struct library_form {
  library_writer header, source;
} library_form;

static library_form form_of(const compile_plan *k, const compile_options *o) {
  if (o->bare) return (library_form){bare_write_header, bare_write_source};
  if (!k->p) return (library_form){open_header, open_source};
  return (library_form){library_write_header, library_write_source};
}

static clave_status write_library(project *k, const compile_plan *plan, const compile_options *o) {
  text header = {0};
  if (!o->library) return NULL;
  const library_form form = form_of(plan, o);
  text_printf(&header, "%s.h", o->library);
  clave_status st = text_status(&header);
  if (!st) st = write_text(k, plan, o, form.header, header.data);
  text_free(&header);
  if (st) return st;
  TRY(write_text(k, plan, o, form.source, o->bare ? "bare.c" : "library.c"));
  return o->bare ? write_text(k, plan, o, bare_write_names, NAMES) : NULL;
}

static void name_steps(const char *class, const uint64_t bits[2], char flag[80]) {
  (void)snprintf(flag, 80, "-DKERNEL_%s_STEPS=0x%" PRIx64 "u,0x%" PRIx64 "u", class, bits[0],
                 bits[1]);
}

/* What the command line of a program with static memory takes for itself. */
static void name_room(project *k, const compile_plan *plan, const compile_options *o) {
  enum { ROOM = 64 << 10, ROOM_OF_INPUT = 1 << 10, ROOM_OF_OUTPUT = 16 << 10 };
  const ir_method *m = plan->g->method;
  if (!o->static_memory || o->bare) return;
  const size_t bytes = ROOM + m->inputs.count * ROOM_OF_INPUT + m->outputs.count * ROOM_OF_OUTPUT +
                       (o->verify ? self_test_bytes(plan) : 0);
  (void)snprintf(k->room, sizeof k->room, "-DMEMORY_STATIC=%zu", bytes);
  k->memory_bytes += bytes;
}

/* Without the constants that it reads packed alone: which these are is known once it is written. */
static clave_status emit_without(compile_plan *plan, const compile_options *o,
                                 const test_output *kept, text *model, emitted *used) {
  plan_keep_weights(plan, used->constants);
  emitted_free(used);
  text_clear(model);
  TRY(emitted_create(plan, used));
  return emit_model(plan, o, kept, model, used);
}

static clave_status make_model(compile_plan *plan, const compile_options *o, text *model,
                               emitted *used) {
  test_output *kept = NULL;
  clave_status st = NULL;
  if (o->verify) kept = calloc((size_t)plan->g->method->outputs.count + 1, sizeof *kept);
  if (o->verify && !kept) return status_no_memory();
  if (kept) st = self_test_run(plan->prog, o, plan->x, plan->constants, plan->method, kept, NULL);
  if (!st) st = emit_model(plan, o, kept, model, used);
  if (!st && o->packed_only) st = emit_without(plan, o, kept, model, used);
  free(kept);
  return st;
}

static clave_status write_files(project *k, const compile_plan *plan, const compile_options *o,
                                const text *model, const emitted *used, const bool *needed) {
  k->sources = calloc((size_t)n_source_files + 4, sizeof *k->sources);
  if (!k->sources) return status_no_memory();
  TRY(project_write_file(k, "model.c", model->data, model->size));
  k->sources[k->n_sources++] = "model.c";
  TRY(write_library(k, plan, o));
  TRY(project_embed_by(k, &embedded_weights, write_weights, plan, NULL));
  k->is_packed = used->packed.n > 0;
  if (k->is_packed) TRY(project_embed_by(k, &embedded_forms, write_packed, &used->packed, NULL));
  return write_needed(k, o, needed);
}

static clave_status write_project(project *k, compile_plan *plan, const compile_options *o,
                                  emitted *used) {
  text model = {0};
  bool *needed = NULL;
  clave_status st = make_model(plan, o, &model, used);
  if (!st) st = find_needed(o, used, &needed);
  if (!st) st = write_files(k, plan, o, &model, used, needed);
  free(needed);
  text_free(&model);
  if (st) return st;
  k->memory_bytes = used->memory_bytes;
  name_room(k, plan, o);
  name_steps("FLOAT", used->float_steps, k->steps[0]);
  name_steps("INT", used->int_steps, k->steps[1]);
  return project_write_makefile(k, o);
}

static bool has_encoded(const program *p) {
  for (uint32_t i = 0; i < p->ir.constants.count; i++)
    if (p->types[i].encoding.kind) return true;
  return false;
}

static bool has_halves(const program *p) {
  for (uint32_t i = 0; i < slot_count(p); i++)
    if (p->types[i].type == DTYPE_F16 || p->types[i].type == DTYPE_BF16) return true;
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

static bool has_groups(const program *p) {
  for (uint32_t c = 0; c < p->ir.chains.count; c++) {
    const ir_instructions *all = &p->ir.chains.items[c].instructions;
    for (uint32_t i = 0; i < all->count; i++)
      if (groups_of(&all->items[i]) != 1) return true;
  }
  return false;
}

clave_status project_write(compile_plan *plan, const compile_options *o, const char *folder,
                           project *out) {
  *out = (project){.folder = strdup(folder),
                   .is_plain = !has_encoded(plan->prog),
                   .is_whole = !has_groups(plan->prog),
                   .is_single = !has_halves(plan->prog)};
  emitted used;
  clave_status st = emitted_create(plan, &used);
  if (!st && !out->folder) st = status_no_memory();
  if (!st) st = write_project(out, plan, o, &used);
  emitted_free(&used);
  if (st) project_free(out);
  return st;
}

void project_free(project *k) {
  for (size_t i = 0; i < k->n_files; i++) free(k->files[i].path);
  free(k->files);
  free(k->archives[0]);
  free(k->archives[1]);
  for (int i = 0; k->libs[i]; i++) free(k->libs[i]);
  free(k->folder);
  free(k->sources);
  *k = (project){0};
}
