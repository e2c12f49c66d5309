/* Builds a folder of sources into an executable: compiles each source, with one job per processor,
 * then links. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "compile/carry.h"
#include "compile/packed.h"
#include "compile/project.h"
#include "compile/sbom.h"

enum { MAX_WORDS = 16, MAX_JOBS = 64 };

typedef struct build {
  const compile_options *options;
  project *project;
  char *words; /* owned; the compiler command's words, each NUL-terminated */
  char *path;  /* owned; the absolute path of the compiler if it has a slash; or NULL */
  const char *compiler[MAX_WORDS + 1]; /* words of the command; NULL-terminated */
  tool_log log;                        /* output of the compiler */
  char **objects;                      /* owned array (n_sources) of owned paths in the folder */
  int jobs;
} build;

/* ---------------------------------------------------------------- messages of the compiler */

/* The compiler's own summary of a linker failure is skipped, because the linker's message precedes
 * it. */
static bool is_error(const char *line) {
  if (strstr(line, "ld returned") || strstr(line, "linker command failed")) return false;
  return strstr(line, "error") || strstr(line, "undefined reference") || strstr(line, "failed");
}

/* Passes the compiler's log to options->message line by line. to: receives the first line with an
 * error. */
static void report_log(const build *build, text *to) {
  file_map map = {0};
  text line = {0};
  bool has_error = false;
  status_free(file_map_open(build->log.path, &map));
  for (size_t at = 0; at < map.size; at++) {
    const char *begin = (const char *)map.data + at, *end = memchr(begin, '\n', map.size - at);
    const size_t n = end ? (size_t)(end - begin) : map.size - at;
    text_clear(&line);
    text_append(&line, begin, n);
    at += n;
    if (line.failed || !n) continue;
    if (build->options->message) build->options->message(build->options->ctx, line.data);
    if (!to->size || (!has_error && is_error(line.data))) {
      text_clear(to);
      text_puts(to, line.data);
      has_error = is_error(line.data);
    }
  }
  text_free(&line);
  file_map_close(&map);
}

/* Reports the compiler's log, and returns the error for its exit status `code`. source: the file
 * that it compiled; NULL if it linked. */
static clave_status build_failed(const build *build, int code, const char *source) {
  text output = {0};
  report_log(build, &output);
  const bool has_output = output.size && !output.failed;
  clave_status st = status_new(STATUS_IO, "%s: exit status %d while %s%s%s%s", build->compiler[0],
                               code, source ? "compiling " : "linking", source ? source : "",
                               has_output ? ": " : "", has_output ? output.data : "");
  text_free(&output);
  return st;
}

static bool build_is_cancelled(const build *build) {
  return build->options->cancel && build->options->cancel(build->options->ctx);
}
static clave_status cancelled(void) { return CANCELLED("interrupted"); }

/* ---------------------------------------------------------------- running the compiler */

typedef struct words {
  const char **items; /* owned; NULL-terminated */
  size_t n, capacity;
} words;

static bool build_add_word(words *words, const char *word) {
  if (!array_reserve(&words->items, &words->capacity, words->n + 2, sizeof *words->items))
    return false;
  words->items[words->n++] = word;
  words->items[words->n] = NULL;
  return true;
}

static bool build_add_words(words *words, const char *const *all) {
  for (; *all; all++)
    if (!build_add_word(words, *all)) return false;
  return true;
}

static clave_status build_start(const build *build, words *words, bool is_whole, tool **out) {
  *out = NULL;
  clave_status st = is_whole
                        ? tool_start(words->items, build->project->folder, build->log.path, out)
                        : status_no_memory();
  free(words->items);
  return status_while(st, "CC names the C compiler (default: cc)");
}

static clave_status start_compiling(const build *build, size_t i, tool **out) {
  const char *flags[MAX_FLAGS];
  words words = {0};
  project_compile_flags(build->project, build->options, flags);
  const char *const own[] = {project_source_flag(build->options, build->project->sources[i]), NULL};
  const bool is_whole = build_add_words(&words, build->compiler) &&
                        build_add_words(&words, flags) && build_add_words(&words, own) &&
                        build_add_word(&words, "-c") && build_add_word(&words, "-o") &&
                        build_add_word(&words, build->objects[i]) &&
                        build_add_word(&words, build->project->sources[i]);
  return build_start(build, &words, is_whole, out);
}

/* Runs the compiler with one option, and sets *answer to the first line that it prints. *answer is
 * empty if it prints nothing. */
static clave_status query_compiler(const build *build, const char *option, text *answer) {
  tool *tool;
  file_map map = {0};
  words words = {0};
  tool_log log;
  TRY(tool_log_open(build->project->folder, "answer", &log));
  const bool is_whole = build_add_words(&words, build->compiler) && build_add_word(&words, option);
  clave_status st = is_whole ? tool_start(words.items, build->project->folder, log.path, &tool)
                             : status_no_memory();
  free(words.items);
  if (!st && tool_end(tool, build->options->cancel, build->options->ctx) == 0)
    st = file_map_open(log.path, &map);
  const char *line = (const char *)map.data, *end = line ? memchr(line, '\n', map.size) : NULL;
  if (line) text_append(answer, line, end ? (size_t)(end - line) : map.size);
  file_map_close(&map);
  tool_log_close(&log);
  return st ? st : text_status(answer);
}

/* Sets *out to lib<name>.a if it is stored beside the runtime, as in a Python wheel, else to NULL.
 */
static clave_status find_beside_runtime(const build *build, const char *name, char **out) {
  const char *runtime = build->project->archives[1],
             *slash = runtime ? strrchr(runtime, '/') : NULL;
  text text = {0};
  *out = NULL;
  if (!slash) return NULL;
  text_printf(&text, "%.*s/lib%s.a", (int)(slash - runtime), runtime, name);
  clave_status st = text_status(&text);
  if (!st && file_exists(text.data)) {
    *out = text.data;
    return NULL;
  }
  text_free(&text);
  return st;
}

/* Sets *out to a library that language models need: the static library beside the runtime, else the
 * compiler's, else "-lNAME". */
static clave_status find_library(const build *build, const char *name, char **out) {
  text option = {0}, found = {0};
  TRY(find_beside_runtime(build, name, out));
  if (*out) return NULL;
  text_printf(&option, "-print-file-name=lib%s.a", name);
  clave_status st = text_status(&option);
  if (!st) st = query_compiler(build, option.data, &found);
  text_free(&option);
  if (!st && !(found.size && *found.data == '/')) {
    text_clear(&found);
    text_printf(&found, "-l%s", name);
    st = text_status(&found);
  }
  *out = found.data;
  return st;
}

static clave_status find_libraries(const build *build) {
  for (int i = 0; i < N_HOST_LIBRARIES && build->options->text; i++)
    TRY(find_library(build, host_libraries[i].name, &build->project->libs[i]));
  return NULL;
}

static clave_status link_all(const build *build) {
  const char *flags[MAX_FLAGS];
  tool *tool;
  words words = {0};
  project_link_flags(build->project, build->options, flags);
  bool is_whole = build_add_words(&words, build->compiler) && build_add_word(&words, "-o") &&
                  build_add_word(&words, LINKED_FILE);
  for (size_t i = 0; i < build->project->n_sources; i++)
    is_whole = is_whole && build_add_word(&words, build->objects[i]);
  is_whole = is_whole && build_add_words(&words, flags);
  TRY(build_start(build, &words, is_whole, &tool));
  const int code = tool_end(tool, build->options->cancel, build->options->ctx);
  if (build_is_cancelled(build)) return cancelled();
  return code ? build_failed(build, code, NULL) : NULL;
}

static void report_done(const build *build, size_t done) {
  const compile_options *options = build->options;
  if (options->progress)
    options->progress(options->ctx, "compiling", (int)done, (int)build->project->n_sources);
}

/* Compiles all sources. Runs up to `jobs` compilers at a time, and always waits for the oldest. */
static clave_status compile_all(const build *build) {
  tool *at_work[MAX_JOBS] = {0};
  const size_t n = build->project->n_sources, jobs = (size_t)build->jobs;
  clave_status st = NULL;
  for (size_t i = 0; i < n + jobs; i++) {
    tool **slot = &at_work[i % jobs];
    if (*slot) {
      const int code = tool_end(*slot, build->options->cancel, build->options->ctx);
      *slot = NULL;
      if (!st && build_is_cancelled(build)) st = cancelled();
      if (code && !st) st = build_failed(build, code, build->project->sources[i - jobs]);
      report_done(build, i - jobs + 1);
    }
    if (i < n && !st) st = start_compiling(build, i, slot);
  }
  return st;
}

/* ---------------------------------------------------------------- the build */

/* Makes the compiler's path absolute, because it runs in the folder of sources. */
static clave_status find_compiler(build *build) {
  if (!strchr(build->compiler[0], '/')) return NULL;
  TRY(path_absolute(build->compiler[0], &build->path));
  build->compiler[0] = build->path;
  return NULL;
}

static clave_status split_compiler(build *build) {
  size_t n = 0;
  build->words = strdup(build->options->compiler);
  if (!build->words) return status_no_memory();
  for (char *left = build->words, *word; (word = strtok_r(left, " ", &left));) {
    if (n == MAX_WORDS) return INVALID("CC: expected at most %d words", (int)MAX_WORDS);
    build->compiler[n++] = word;
  }
  if (!n) return INVALID("CC: expected the name of a compiler, got only spaces");
  return find_compiler(build);
}

/* Sets build->objects. The object of "base/dtype.c" is "base/dtype.c.o". */
static clave_status name_objects(build *build) {
  build->objects = calloc(build->project->n_sources + 1, sizeof *build->objects);
  if (!build->objects) return status_no_memory();
  for (size_t i = 0; i < build->project->n_sources; i++) {
    text text = {0};
    text_printf(&text, "%s.o", build->project->sources[i]);
    build->objects[i] = text.data;
    if (text.failed) return status_no_memory();
  }
  return NULL;
}

static clave_status make_build(build *build) {
  TRY(split_compiler(build));
  TRY(name_objects(build));
  TRY(tool_log_open(build->project->folder, "log", &build->log));
  TRY(compile_all(build));
  TRY(find_libraries(build));
  return link_all(build);
}

/* The program to compile, emitted or carried. */
typedef struct source_program {
  const program *program;
  const compile_options *options;
  compile_plan plan; /* if emitted */
  char *runtime;     /* owned; libclave.a if carried */
  bool carries;
} source_program;

/* Writes the SBOM before the result is moved to its place. */
static clave_status write_sbom(const project *project, const program *program, const build *build,
                               file_writer **out) {
  text version = {0};
  if (!build->options->sbom) return NULL;
  clave_status st = query_compiler(build, "--version", &version);
  if (!st)
    st = sbom_write(project, program, build->options, LINKED_FILE,
                    version.size ? version.data : "unknown", out);
  text_free(&version);
  return st;
}

/* Compiles and links the project. sbom: receives the writer of the SBOM, to be committed after
 * everything else. */
static clave_status build_project(project *project, const source_program *made,
                                  file_writer **sbom) {
  const int jobs = made->carries ? 2 : (int)made->plan.cpu->info.compute_units;
  build build = {
      .options = made->options, .project = project, .jobs = jobs < MAX_JOBS ? jobs : MAX_JOBS};
  clave_status st = make_build(&build);
  if (!st) st = write_sbom(project, made->program, &build, sbom);
  for (size_t i = 0; build.objects && i < project->n_sources; i++) free(build.objects[i]);
  free(build.objects);
  free(build.words);
  free(build.path);
  tool_log_close(&build.log);
  return st;
}

/* ---------------------------------------------------------------- folders */

typedef bool (*remove_fn)(const char *folder, uint64_t *bytes);

/* Removes a folder, or empties it. Retries once after a failure, because memory may be available
 * again. */
static void remove_by(remove_fn fn, const char *folder) {
  uint64_t removed;
  if (!fn(folder, &removed)) (void)fn(folder, &removed);
}

/* Creates a folder beside the executable. Returns NULL on failure. */
static char *make_build_folder(const compile_options *options, const char *path) {
  text text = {0};
  if (options->keep_build) {
    text_printf(&text, "%s.build", path);
    clave_status st = text.failed ? status_no_memory() : make_folders(text.data, FOLDERS_SHARED);
    if (st) text_free(&text);
    status_free(st);
    return text.data;
  }
  const char *slash = strrchr(path, '/');
  if (slash) {
    text_append(&text, path, (size_t)(slash - path));
  } else {
    text_puts(&text, ".");
  }
  if (slash == path) text_puts(&text, "/");
  char *made = text.failed ? NULL : folder_create_unique(text.data, ".clave-compile-");
  text_free(&text);
  return made;
}

/* Sets `to` to NAME.h in the folder of `path`. */
static clave_status name_beside(const char *path, const char *name, text *to) {
  const char *slash = strrchr(path, '/');
  text_append(to, path, slash ? (size_t)(slash - path) + 1 : 0);
  text_printf(to, "%s.h", name);
  return text_status(to);
}

static clave_status move_header(const compile_options *options, const char *folder,
                                const char *path) {
  text from = {0}, to = {0};
  text_printf(&from, "%s/%s.h", folder, options->library);
  clave_status st = text_status(&from);
  if (!st) st = name_beside(path, options->library, &to);
  if (!st) st = file_move(from.data, to.data);
  text_free(&from);
  text_free(&to);
  return st;
}

static clave_status move_made(const compile_options *options, const char *folder,
                              const char *path) {
  char *made = path_join(folder, LINKED_FILE);
  clave_status st = made ? file_move(made, path) : status_no_memory();
  free(made);
  if (st || !options->library) return st;
  st = move_header(options, folder, path);
  if (st) (void)file_remove(path);
  return st;
}

static void remove_made(const compile_options *options, const char *path) {
  text header = {0};
  (void)file_remove(path);
  clave_status st = options->library ? name_beside(path, options->library, &header) : NULL;
  if (!st && options->library) (void)file_remove(header.data);
  status_free(st);
  text_free(&header);
}

static clave_status write_sources(source_program *made, const char *folder, project *out) {
  return made->carries ? carry_write(made->program, made->options, made->runtime, folder, out)
                       : project_write(&made->plan, made->options, folder, out);
}

static clave_status build_in(source_program *made, const char *folder, const char *path) {
  project project;
  file_writer *sbom = NULL;
  TRY(write_sources(made, folder, &project));
  clave_status st = program_check_files(made->program);
  if (!st) st = build_project(&project, made, &sbom);
  if (!st) st = move_made(made->options, folder, path);
  if (!st && sbom) {
    st = file_writer_commit(sbom);
    if (st) remove_made(made->options, path);
  }
  file_writer_destroy(sbom);
  if (!st && made->options->memory_bytes) *made->options->memory_bytes = project.memory_bytes;
  project_free(&project);
  return st;
}

static clave_status build_sources(source_program *made, const char *path) {
  const compile_options *options = made->options;
  if (folder_exists(path)) return status_new(STATUS_IO, "%s: expected a file, got a folder", path);
  if (file_is_special(path))
    return status_new(STATUS_IO, "%s: expected a regular file, got a device or a pipe", path);
  if (made->carries) TRY(carry_find_runtime(options, &made->runtime));
  char *folder = make_build_folder(options, path);
  if (!folder) return status_new(STATUS_IO, "%s: the folder of this file is not writable", path);
  clave_status st = build_in(made, folder, path);
  if (!options->keep_build) remove_by(folder_remove, folder);
  free(folder);
  return st;
}

/* ---------------------------------------------------------------- sources */

static clave_status check_empty(const char *folder) {
  folder_entry *entries;
  size_t n_files, n_folders;
  TRY(folder_list(folder, &entries, &n_files));
  folder_list_free(entries, n_files);
  TRY(folder_list_folders(folder, &entries, &n_folders));
  folder_list_free(entries, n_folders);
  return n_files + n_folders ? INVALID("%s: the folder is not empty", folder) : NULL;
}

/* Writes the sources to an empty or new folder. On failure, empties the folder again, and removes
 * it if it is new. */
static clave_status build_write_to(source_program *made, const char *folder) {
  const bool is_new = !folder_exists(folder);
  project project;
  file_writer *sbom = NULL;
  TRY(make_folders(folder, FOLDERS_SHARED));
  TRY(check_empty(folder));
  clave_status st = write_sources(made, folder, &project);
  if (!st) st = program_check_files(made->program);
  if (!st && made->options->sbom)
    st = sbom_write(&project, made->program, made->options, NULL, NULL, &sbom);
  if (!st && sbom) st = file_writer_commit(sbom);
  file_writer_destroy(sbom);
  if (!st && made->options->memory_bytes) *made->options->memory_bytes = project.memory_bytes;
  if (project.folder) project_free(&project);
  if (st) remove_by(is_new ? folder_remove : folder_empty, folder);
  return st;
}

/* ---------------------------------------------------------------- entry points */

/* Carries the program. why: the reason that it cannot be emitted; NULL if carrying was requested.
 * Consumes why. */
static clave_status carry(source_program *made, clave_status why) {
  text text = {0};
  made->carries = true;
  clave_status st = carry_check(made->program, made->options);
  if (why && st) st = status_while(st, "%s", status_message(why));
  if (why && !st && made->options->message) {
    text_printf(&text, "the %s embeds the runtime: %s",
                made->options->library ? "library" : "executable", status_message(why));
    if (!text.failed) made->options->message(made->options->ctx, text.data);
  }
  text_free(&text);
  status_free(why);
  return st;
}

static clave_status choose_sources(source_program *made) {
  const compile_options *options = made->options;
  if (options->is_opencl || options->all_methods || options->text) return carry(made, NULL);
  clave_status st = plan_create(made->program, options, &made->plan);
  if (status_code_of(st) == STATUS_UNSUPPORTED) return carry(made, st);
  if (!st) st = packed_make(&made->plan, options);
  if (st) plan_destroy(&made->plan);
  return st;
}

static clave_status build_check_dims(const compile_options *options) {
  for (uint32_t i = 1; i < options->n_dims; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(options->dims[i].name, options->dims[k].name) == 0)
        return INVALID("size '%s' is given twice", options->dims[i].name);
  return NULL;
}

typedef clave_status (*make_fn)(source_program *made, const char *path);

static clave_status make_of(const program *program, const compile_options *options,
                            const char *path, make_fn make) {
  source_program made = {.program = program, .options = options};
  TRY(build_check_dims(options));
  TRY(sbom_check(options));
  TRY(choose_sources(&made));
  clave_status st = make(&made, path);
  if (!made.carries) plan_destroy(&made.plan);
  free(made.runtime);
  return st;
}

clave_status compile_executable(const program *program, const compile_options *options,
                                const char *path) {
  return make_of(program, options, path, build_sources);
}

clave_status compile_sources(const program *program, const compile_options *options,
                             const char *folder) {
  return make_of(program, options, folder, build_write_to);
}
