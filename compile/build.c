/* A folder of sources becomes an executable: the compiler runs for each source, for as many at once
 * as there are processors, then links. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "compile/carry.h"
#include "compile/packed.h"
#include "compile/project.h"
#include "compile/sbom.h"

enum { MOST_WORDS = 16, MOST_JOBS = 64 };

typedef struct build {
  const compile_options *o;
  project *k;
  char *words;                          /* owned: the compiler's, each ended by NUL */
  char *path;                           /* owned: the first, if it is a path; or NULL */
  const char *compiler[MOST_WORDS + 1]; /* in words; NULL ends */
  tool_log log;                         /* of the compiler */
  char **objects;                       /* owned (n_sources) owned: by their paths in the folder */
  int jobs;
} build;

/* ---------------------------------------------------------------- what the compiler says */

/* What the compiler says of its linker says nothing: the linker's own lines stand ahead of it. */
static bool is_error(const char *line) {
  if (strstr(line, "ld returned") || strstr(line, "linker command failed")) return false;
  return strstr(line, "error") || strstr(line, "undefined reference") || strstr(line, "failed");
}

/* Tells the log line by line; to: what is worth a line of ours, the first with an error. */
static void tell_log(const build *b, text *to) {
  file_map m = {0};
  text line = {0};
  bool has_error = false;
  status_free(file_map_open(b->log.path, &m));
  for (size_t at = 0; at < m.size; at++) {
    const char *begin = (const char *)m.data + at, *end = memchr(begin, '\n', m.size - at);
    const size_t n = end ? (size_t)(end - begin) : m.size - at;
    text_clear(&line);
    text_append(&line, begin, n);
    at += n;
    if (line.failed || !n) continue;
    if (b->o->message) b->o->message(b->o->ctx, line.data);
    if (!to->size || (!has_error && is_error(line.data))) {
      text_clear(to);
      text_puts(to, line.data);
      has_error = is_error(line.data);
    }
  }
  text_free(&line);
  file_map_close(&m);
}

/* source: NULL: while linking. */
static clave_status failed(const build *b, int code, const char *source) {
  text said = {0};
  tell_log(b, &said);
  const bool has_said = said.size && !said.failed;
  clave_status st = status_new(STATUS_IO, "%s: exit status %d while %s%s%s%s", b->compiler[0], code,
                               source ? "compiling " : "linking", source ? source : "",
                               has_said ? ": " : "", has_said ? said.data : "");
  text_free(&said);
  return st;
}

static bool is_cancelled(const build *b) { return b->o->cancel && b->o->cancel(b->o->ctx); }
static clave_status cancelled(void) { return CANCELLED("interrupted"); }

/* ---------------------------------------------------------------- running it */

typedef struct words {
  const char **items; /* owned; NULL ends */
  size_t n, capacity;
} words;

static bool add_word(words *w, const char *word) {
  if (!array_reserve(&w->items, &w->capacity, w->n + 2, sizeof *w->items)) return false;
  w->items[w->n++] = word;
  w->items[w->n] = NULL;
  return true;
}

static bool add_words(words *w, const char *const *all) {
  for (; *all; all++)
    if (!add_word(w, *all)) return false;
  return true;
}

static clave_status start(const build *b, words *w, bool is_whole, tool **out) {
  *out = NULL;
  clave_status st =
      is_whole ? tool_start(w->items, b->k->folder, b->log.path, out) : status_no_memory();
  free(w->items);
  return status_while(st, "CC names the C compiler (default: cc)");
}

static clave_status start_compiling(const build *b, size_t i, tool **out) {
  const char *flags[MOST_FLAGS];
  words w = {0};
  project_compile_flags(b->k, b->o, flags);
  const char *const own[] = {project_source_flag(b->o, b->k->sources[i]), NULL};
  const bool is_whole = add_words(&w, b->compiler) && add_words(&w, flags) && add_words(&w, own) &&
                        add_word(&w, "-c") && add_word(&w, "-o") && add_word(&w, b->objects[i]) &&
                        add_word(&w, b->k->sources[i]);
  return start(b, &w, is_whole, out);
}

/* The first line of what the compiler answers; empty: it says nothing. */
static clave_status ask_compiler(const build *b, const char *question, text *answer) {
  tool *t;
  file_map m = {0};
  words w = {0};
  tool_log log;
  TRY(tool_log_open(b->k->folder, "answer", &log));
  const bool is_whole = add_words(&w, b->compiler) && add_word(&w, question);
  clave_status st = is_whole ? tool_start(w.items, b->k->folder, log.path, &t) : status_no_memory();
  free(w.items);
  if (!st && tool_end(t, b->o->cancel, b->o->ctx) == 0) st = file_map_open(log.path, &m);
  const char *said = (const char *)m.data, *end = said ? memchr(said, '\n', m.size) : NULL;
  if (said) text_append(answer, said, end ? (size_t)(end - said) : m.size);
  file_map_close(&m);
  tool_log_close(&log);
  return st ? st : text_status(answer);
}

/* Sets *out to lib<name>.a if it is stored beside the runtime, as in a Python wheel, else to NULL.
 */
static clave_status find_beside_runtime(const build *b, const char *name, char **out) {
  const char *runtime = b->k->archives[1], *slash = runtime ? strrchr(runtime, '/') : NULL;
  text t = {0};
  *out = NULL;
  if (!slash) return NULL;
  text_printf(&t, "%.*s/lib%s.a", (int)(slash - runtime), runtime, name);
  clave_status st = text_status(&t);
  if (!st && file_exists(t.data)) {
    *out = t.data;
    return NULL;
  }
  text_free(&t);
  return st;
}

/* A library that language models need: the static one beside the runtime, else the compiler's, else
 * "-lNAME". */
static clave_status find_library(const build *b, const char *name, char **out) {
  text asked = {0}, found = {0};
  TRY(find_beside_runtime(b, name, out));
  if (*out) return NULL;
  text_printf(&asked, "-print-file-name=lib%s.a", name);
  clave_status st = text_status(&asked);
  if (!st) st = ask_compiler(b, asked.data, &found);
  text_free(&asked);
  if (!st && !(found.size && *found.data == '/')) {
    text_clear(&found);
    text_printf(&found, "-l%s", name);
    st = text_status(&found);
  }
  *out = found.data;
  return st;
}

static clave_status find_libraries(const build *b) {
  for (int i = 0; i < N_HOST_LIBRARIES && b->o->text; i++)
    TRY(find_library(b, host_libraries[i].name, &b->k->libs[i]));
  return NULL;
}

static clave_status link_all(const build *b) {
  const char *flags[MOST_FLAGS];
  tool *t;
  words w = {0};
  project_link_flags(b->k, b->o, flags);
  bool is_whole = add_words(&w, b->compiler) && add_word(&w, "-o") && add_word(&w, MADE);
  for (size_t i = 0; i < b->k->n_sources; i++) is_whole = is_whole && add_word(&w, b->objects[i]);
  is_whole = is_whole && add_words(&w, flags);
  TRY(start(b, &w, is_whole, &t));
  const int code = tool_end(t, b->o->cancel, b->o->ctx);
  if (is_cancelled(b)) return cancelled();
  return code ? failed(b, code, NULL) : NULL;
}

static void tell_done(const build *b, size_t done) {
  const compile_options *o = b->o;
  if (o->progress) o->progress(o->ctx, "compiling", (int)done, (int)b->k->n_sources);
}

/* The oldest of those at work ends first. */
static clave_status compile_all(const build *b) {
  tool *at_work[MOST_JOBS] = {0};
  const size_t n = b->k->n_sources, jobs = (size_t)b->jobs;
  clave_status st = NULL;
  for (size_t i = 0; i < n + jobs; i++) {
    tool **slot = &at_work[i % jobs];
    if (*slot) {
      const int code = tool_end(*slot, b->o->cancel, b->o->ctx);
      *slot = NULL;
      if (!st && is_cancelled(b)) st = cancelled();
      if (code && !st) st = failed(b, code, b->k->sources[i - jobs]);
      tell_done(b, i - jobs + 1);
    }
    if (i < n && !st) st = start_compiling(b, i, slot);
  }
  return st;
}

/* ---------------------------------------------------------------- the build */

/* It runs in the folder of sources, whereto a path from here does not lead. */
static clave_status find_compiler(build *b) {
  if (!strchr(b->compiler[0], '/')) return NULL;
  TRY(path_absolute(b->compiler[0], &b->path));
  b->compiler[0] = b->path;
  return NULL;
}

static clave_status split_compiler(build *b) {
  size_t n = 0;
  b->words = strdup(b->o->compiler);
  if (!b->words) return status_no_memory();
  for (char *left = b->words, *word; (word = strtok_r(left, " ", &left));) {
    if (n == MOST_WORDS) return INVALID("CC has more than %d words", (int)MOST_WORDS);
    b->compiler[n++] = word;
  }
  if (!n) return INVALID("CC names no compiler");
  return find_compiler(b);
}

/* "base/dtype.c" becomes "base/dtype.c.o". */
static clave_status name_objects(build *b) {
  b->objects = calloc(b->k->n_sources + 1, sizeof *b->objects);
  if (!b->objects) return status_no_memory();
  for (size_t i = 0; i < b->k->n_sources; i++) {
    text t = {0};
    text_printf(&t, "%s.o", b->k->sources[i]);
    b->objects[i] = t.data;
    if (t.failed) return status_no_memory();
  }
  return NULL;
}

static clave_status make_build(build *b) {
  TRY(split_compiler(b));
  TRY(name_objects(b));
  TRY(tool_log_open(b->k->folder, "log", &b->log));
  TRY(compile_all(b));
  TRY(find_libraries(b));
  return link_all(b);
}

/* What is made of a program: its schedule, written out, or itself, carried. */
typedef struct form {
  const program *p;
  const compile_options *o;
  compile_plan plan; /* of what is written out */
  char *runtime;     /* owned: libclave.a, of what is carried */
  bool carries;
} form;

/* Before what was made is moved. */
static clave_status write_sbom(const project *k, const program *p, const build *b,
                               file_writer **out) {
  text version = {0};
  if (!b->o->sbom) return NULL;
  clave_status st = ask_compiler(b, "--version", &version);
  if (!st) st = sbom_write(k, p, b->o, MADE, version.size ? version.data : "unknown", out);
  text_free(&version);
  return st;
}

/* sbom: gets what is to be committed once all else is there. */
static clave_status build_project(project *k, const form *f, file_writer **sbom) {
  const int jobs = f->carries ? 2 : (int)f->plan.cpu->info.compute_units;
  build b = {.o = f->o, .k = k, .jobs = jobs < MOST_JOBS ? jobs : MOST_JOBS};
  clave_status st = make_build(&b);
  if (!st) st = write_sbom(k, f->p, &b, sbom);
  for (size_t i = 0; b.objects && i < k->n_sources; i++) free(b.objects[i]);
  free(b.objects);
  free(b.words);
  free(b.path);
  tool_log_close(&b.log);
  return st;
}

/* ---------------------------------------------------------------- folders */

typedef bool (*remove_fn)(const char *folder, uint64_t *bytes);

/* Once more where memory was out, which may be there again. */
static void remove_by(remove_fn fn, const char *folder) {
  uint64_t removed;
  if (!fn(folder, &removed)) (void)fn(folder, &removed);
}

/* Beside the executable; NULL where it could not be made. */
static char *make_build_folder(const compile_options *o, const char *path) {
  text t = {0};
  if (o->keep_build) {
    text_printf(&t, "%s.build", path);
    clave_status st = t.failed ? status_no_memory() : make_folders(t.data, FOLDERS_SHARED);
    if (st) text_free(&t);
    status_free(st);
    return t.data;
  }
  const char *slash = strrchr(path, '/');
  if (slash) {
    text_append(&t, path, (size_t)(slash - path));
  } else {
    text_puts(&t, ".");
  }
  if (slash == path) text_puts(&t, "/");
  char *made = t.failed ? NULL : folder_create_unique(t.data, ".clave-compile-");
  text_free(&t);
  return made;
}

/* NAME.h in the folder that `path` lies in. */
static clave_status name_beside(const char *path, const char *name, text *to) {
  const char *slash = strrchr(path, '/');
  text_append(to, path, slash ? (size_t)(slash - path) + 1 : 0);
  text_printf(to, "%s.h", name);
  return text_status(to);
}

static clave_status move_header(const compile_options *o, const char *folder, const char *path) {
  text from = {0}, to = {0};
  text_printf(&from, "%s/%s.h", folder, o->library);
  clave_status st = text_status(&from);
  if (!st) st = name_beside(path, o->library, &to);
  if (!st) st = file_move(from.data, to.data);
  text_free(&from);
  text_free(&to);
  return st;
}

static clave_status move_made(const compile_options *o, const char *folder, const char *path) {
  char *made = path_join(folder, MADE);
  clave_status st = made ? file_move(made, path) : status_no_memory();
  free(made);
  if (st || !o->library) return st;
  st = move_header(o, folder, path);
  if (st) (void)file_remove(path);
  return st;
}

static void remove_made(const compile_options *o, const char *path) {
  text header = {0};
  (void)file_remove(path);
  clave_status st = o->library ? name_beside(path, o->library, &header) : NULL;
  if (!st && o->library) (void)file_remove(header.data);
  status_free(st);
  text_free(&header);
}

static clave_status write_form(form *f, const char *folder, project *out) {
  return f->carries ? carry_write(f->p, f->o, f->runtime, folder, out)
                    : project_write(&f->plan, f->o, folder, out);
}

static clave_status build_in(form *f, const char *folder, const char *path) {
  project k;
  file_writer *sbom = NULL;
  TRY(write_form(f, folder, &k));
  clave_status st = program_check_files(f->p);
  if (!st) st = build_project(&k, f, &sbom);
  if (!st) st = move_made(f->o, folder, path);
  if (!st && sbom) {
    st = file_writer_commit(sbom);
    if (st) remove_made(f->o, path);
  }
  file_writer_destroy(sbom);
  if (!st && f->o->memory_bytes) *f->o->memory_bytes = k.memory_bytes;
  project_free(&k);
  return st;
}

static clave_status build_form(form *f, const char *path) {
  const compile_options *o = f->o;
  if (folder_exists(path)) return status_new(STATUS_IO, "%s: is a folder, not a file", path);
  if (file_is_special(path)) return status_new(STATUS_IO, "%s: is a device or a pipe", path);
  if (f->carries) TRY(carry_find_runtime(o, &f->runtime));
  char *folder = make_build_folder(o, path);
  if (!folder) return status_new(STATUS_IO, "%s: its folder cannot be written to", path);
  clave_status st = build_in(f, folder, path);
  if (!o->keep_build) remove_by(folder_remove, folder);
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
  return n_files + n_folders ? INVALID("%s: is not empty", folder) : NULL;
}

/* A folder that was there stays, as empty as it was. */
static clave_status write_to(form *f, const char *folder) {
  const bool is_new = !folder_exists(folder);
  project k;
  file_writer *sbom = NULL;
  TRY(make_folders(folder, FOLDERS_SHARED));
  TRY(check_empty(folder));
  clave_status st = write_form(f, folder, &k);
  if (!st) st = program_check_files(f->p);
  if (!st && f->o->sbom) st = sbom_write(&k, f->p, f->o, NULL, NULL, &sbom);
  if (!st && sbom) st = file_writer_commit(sbom);
  file_writer_destroy(sbom);
  if (!st && f->o->memory_bytes) *f->o->memory_bytes = k.memory_bytes;
  if (k.folder) project_free(&k);
  if (st) remove_by(is_new ? folder_remove : folder_empty, folder);
  return st;
}

/* ---------------------------------------------------------------- both */

/* why: what stands against writing it out; NULL: that it is carried was asked for. Consumed. */
static clave_status carry(form *f, clave_status why) {
  text t = {0};
  f->carries = true;
  clave_status st = carry_check(f->p, f->o);
  if (why && st) st = status_while(st, "%s", status_message(why));
  if (why && !st && f->o->message) {
    text_printf(&t, "the %s carries the runtime: %s", f->o->library ? "library" : "executable",
                status_message(why));
    if (!t.failed) f->o->message(f->o->ctx, t.data);
  }
  text_free(&t);
  status_free(why);
  return st;
}

static clave_status choose_form(form *f) {
  const compile_options *o = f->o;
  if (o->is_opencl || o->all_methods || o->text) return carry(f, NULL);
  clave_status st = plan_create(f->p, o, &f->plan);
  if (status_code_of(st) == STATUS_UNSUPPORTED) return carry(f, st);
  if (!st) st = packed_make(&f->plan, o);
  if (st) plan_destroy(&f->plan);
  return st;
}

static clave_status check_dims(const compile_options *o) {
  for (uint32_t i = 1; i < o->n_dims; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(o->dims[i].name, o->dims[k].name) == 0)
        return INVALID("size '%s' is given twice", o->dims[i].name);
  return NULL;
}

typedef clave_status (*make_fn)(form *f, const char *path);

static clave_status make_of(const program *p, const compile_options *o, const char *path,
                            make_fn make) {
  form f = {.p = p, .o = o};
  TRY(check_dims(o));
  TRY(sbom_check(o));
  TRY(choose_form(&f));
  clave_status st = make(&f, path);
  if (!f.carries) plan_destroy(&f.plan);
  free(f.runtime);
  return st;
}

clave_status compile_executable(const program *p, const compile_options *o, const char *path) {
  return make_of(p, o, path, build_form);
}

clave_status compile_sources(const program *p, const compile_options *o, const char *folder) {
  return make_of(p, o, folder, write_to);
}
