/* The command line of a compiled program: files in, files out. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/room.h"
#include "compile/runtime/arguments.h"
#include "compile/runtime/files.h"
#include "compile/runtime/model.h"
#include "compile/runtime/verify.h"

enum { EXIT_MALFORMED = 2 };

/* What a command line says. */
typedef struct command_line {
  const char *self;
  model *m; /* owned */
  const model_method *method;
  int method_index;
  int64_t *sizes; /* owned (n_sizes): what --dim says, then all */
  long runs;      /* of --bench; 0: it was not given */
  bool wants_help, verifies;
  char *const *paths; /* borrowed: the arguments that are left */
  int n_paths;
} command_line;

/* ---------------------------------------------------------------- words */

static void append_arguments(text *t, const model_method *m, const char *what,
                             const model_argument *all, int n) {
  for (int i = 0; i < n; i++) {
    text_printf(t, "  %s %d: %s: ", what, i, all[i].name);
    append_type(t, m, &all[i]);
    text_puts(t, "\n");
  }
}

static void append_sizes(text *t, const model_method *m) {
  for (int i = 0; i < m->n_sizes; i++) {
    const model_size *s = &m->sizes[i];
    text_printf(t, "  size %s: from %lld", s->name, (long long)s->min);
    if (s->max < INT64_MAX) text_printf(t, " to %lld", (long long)s->max);
    text_puts(t, "\n");
  }
}

static void append_method(text *t, const model_info *info, const model_method *m) {
  if (info->n_methods > 1) text_printf(t, "\nmethod %s:\n", m->name);
  append_arguments(t, m, "input", m->inputs, m->n_inputs);
  append_arguments(t, m, "output", m->outputs, m->n_outputs);
  append_sizes(t, m);
}

static bool has_sizes(const model_info *info) {
  bool has = false;
  for (int i = 0; i < info->n_methods; i++) has = has || info->methods[i].n_sizes;
  return has;
}

static void append_usage(text *t, const char *self, const model_info *info) {
  const char *options = info->n_methods > 1 ? "[--method M] " : "";
  const char *sizes = has_sizes(info) ? "[--dim NAME=N]... " : "";
  text_printf(t, "usage: %s %s%sINPUT... OUTPUT...\n       %s %s%s--bench RUNS INPUT...\n", self,
              options, sizes, self, options, sizes);
  if (info->tests.methods) text_printf(t, "       %s --verify\n", self);
  text_puts(t, "\n");
  if (info->n_methods > 1) {
    text_printf(t, "Runs a method of %s", info->program);
  } else {
    text_printf(t, "Runs method %s of %s", info->methods->name, info->program);
  }
  if (strcmp(info->device, "cpu") != 0) text_puts(t, " on an OpenCL device");
  text_puts(t,
            ".\nA file NAME.npy or NAME.safetensors has a tensor's dtype and shape; any other the "
            "elements alone,\nin row-major order, little-endian.");
  if (info->n_threads == 0) text_puts(t, " CLAVE_THREADS sets how many threads compute.");
  if (has_sizes(info))
    text_puts(t, " Sizes follow from the lengths of the\nfiles, or --dim says them.");
  if (strcmp(info->device, "cpu") != 0) text_puts(t, " CLAVE_DEVICE chooses\nthe device.");
  text_puts(t, "\n\n");
}

/* Names are anybody's: what a terminal would obey is shown as '?'. */
static void make_visible(const text *t) {
  for (size_t i = 0; i < t->size; i++) {
    const unsigned char c = (unsigned char)t->data[i];
    if ((c < ' ' && c != '\n') || c == 0x7f) t->data[i] = '?';
  }
}

static int print_help(const command_line *c) {
  const model_info *info = model_get_info(c->m);
  text t = {0};
  append_usage(&t, c->self, info);
  for (int i = 0; i < info->n_methods; i++) append_method(&t, info, &info->methods[i]);
  make_visible(&t);
  const bool is_good = !t.failed && fputs(t.data, stdout) >= 0 && fflush(stdout) == 0;
  text_free(&t);
  return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void print_note(void *ctx, const char *line) {
  (void)ctx;
  (void)fprintf(stderr, "note: %s\n", line);
}

/* Consumes st. */
static int report(const char *self, clave_status st) {
  if (!st) return EXIT_SUCCESS;
  (void)fprintf(stderr, "%s: %s\n", self, status_message(st));
  status_free(st);
  return EXIT_FAILURE;
}

static int refuse_usage(const command_line *c) {
  const model_method *m = c->method;
  (void)fprintf(stderr, "%s: expected %d input and %d output files; --help lists them\n", c->self,
                m->n_inputs, c->runs ? 0 : m->n_outputs);
  return EXIT_MALFORMED;
}

/* ---------------------------------------------------------------- files */

/* The tensors of a run. */
typedef struct files {
  input_file *inputs;          /* (n_inputs) */
  file_writer **writers;       /* (n_outputs) */
  unsigned char (*numbers)[8]; /* (n_inputs): of scalars */
  given_input *given;          /* (n_inputs) */
  model_value *in, *out;       /* (n_inputs), (n_outputs) */
} files;

static clave_status take_files(const model_method *m, files *f) {
  f->inputs = room_take(((size_t)m->n_inputs + 1) * sizeof *f->inputs);
  f->writers = room_take(((size_t)m->n_outputs + 1) * sizeof *f->writers);
  f->numbers = room_take(((size_t)m->n_inputs + 1) * sizeof *f->numbers);
  f->given = room_take(((size_t)m->n_inputs + 1) * sizeof *f->given);
  f->in = room_take(((size_t)m->n_inputs + 1) * sizeof *f->in);
  f->out = room_take(((size_t)m->n_outputs + 1) * sizeof *f->out);
  const bool is_whole = f->inputs && f->writers && f->numbers && f->given && f->in && f->out;
  return is_whole ? NULL : status_no_memory();
}

static void close_files(const model_method *m, files *f) {
  for (int i = 0; f->inputs && i < m->n_inputs; i++) input_file_close(&f->inputs[i]);
  for (int i = 0; f->writers && i < m->n_outputs; i++) file_writer_destroy(f->writers[i]);
  room_give(f->inputs);
  room_give(f->writers);
  room_give(f->numbers);
  room_give(f->given);
  room_give(f->in);
  room_give(f->out);
}

static clave_status read_input(const model_method *m, const char *path, files *f, int i) {
  const model_argument *a = &m->inputs[i];
  input_file *file = &f->inputs[i];
  if (a->is_scalar) {
    f->in[i].data = f->numbers[i];
    return read_number(a, path, f->numbers[i]);
  }
  TRY(input_file_open(path, m, i, file));
  f->in[i].data = file->data;
  f->given[i] = (given_input){
      .from = path, .bytes = file->bytes, .dims = file->has_shape ? file->dims : NULL};
  return NULL;
}

static clave_status read_inputs(const command_line *c, files *f) {
  const model_method *m = c->method;
  for (int i = 0; i < m->n_inputs; i++) TRY(read_input(m, c->paths[i], f, i));
  TRY(find_sizes(m, f->given, c->sizes));
  for (int i = 0; i < m->n_inputs; i++) known_dims(&m->inputs[i], c->sizes, f->in[i].dims);
  return NULL;
}

/* What was given is not lost. */
static clave_status check_outputs(const command_line *c) {
  const model_method *m = c->method;
  for (int i = 0; i < m->n_inputs * m->n_outputs; i++) {
    const int input = i / m->n_outputs, output = m->n_inputs + i % m->n_outputs;
    if (!m->inputs[input].is_scalar && file_is_same(c->paths[input], c->paths[output]))
      return INVALID("output %s would be written over input %s", c->paths[output], c->paths[input]);
  }
  return NULL;
}

/* Error if a file was cut short before the run read all of it. */
static clave_status check_inputs(const command_line *c, const files *f) {
  for (int i = 0; i < c->method->n_inputs; i++)
    TRY(file_map_check(&f->inputs[i].map, c->paths[i], NULL));
  return NULL;
}

/* All of them, or none where one cannot be written. */
static clave_status write_outputs(const command_line *c, files *f) {
  const model_method *m = c->method;
  TRY(output_files_write(m, f->out, c->paths + m->n_inputs, f->writers));
  for (int i = 0; i < m->n_outputs; i++)
    if (f->writers[i]) TRY(file_writer_commit(f->writers[i]));
  return NULL;
}

/* ---------------------------------------------------------------- runs */

static clave_status run_files(const command_line *c, files *f) {
  TRY(take_files(c->method, f));
  TRY(read_inputs(c, f));
  TRY(check_outputs(c));
  TRY(model_start(c->m, 0));
  TRY(model_run(c->m, c->method_index, f->in, f->out));
  TRY(check_inputs(c, f));
  return write_outputs(c, f);
}

static int compare_times(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* times: (runs) ns, of which the first is of the first run. */
static clave_status time_runs(const command_line *c, const files *f, int64_t *times) {
  for (long i = 0; i < c->runs; i++) {
    const int64_t begin = clock_ns();
    TRY(model_run(c->m, c->method_index, f->in, f->out));
    times[i] = clock_ns() - begin;
  }
  return NULL;
}

static clave_status bench_files(const command_line *c, files *f) {
  const int64_t begin = clock_ns();
  const size_t runs = (size_t)c->runs;
  int64_t *times = room_take(runs * sizeof *times);
  clave_status st = times ? take_files(c->method, f) : status_no_memory();
  if (!st) st = read_inputs(c, f);
  if (!st) st = model_start(c->m, 0);
  const int64_t loaded = clock_ns() - begin;
  if (!st) st = time_runs(c, f, times);
  if (!st) {
    const int64_t first = times[0];
    qsort(times, runs, sizeof *times, compare_times);
    (void)printf("load_ms %.3f first_ms %.3f median_ms %.3f min_ms %.3f\n", (double)loaded / 1e6,
                 (double)first / 1e6, (double)times[runs / 2] / 1e6, (double)times[0] / 1e6);
  }
  room_give(times);
  return st;
}

static int verify(const command_line *c) {
  const model_tests *tests = &model_get_info(c->m)->tests;
  int n;
  clave_status st = verify_model(c->m, 0, &n);
  if (!st)
    (void)printf("verified: %d outputs of drawn inputs are as clave computes them%s\n", n,
                 tests->is_close ? " on the CPU, but for rounding" : "");
  return report(c->self, st);
}

static int run_line(const command_line *c) {
  const model_method *m = c->method;
  files f = {0};
  if (c->wants_help) return print_help(c);
  if (c->verifies) return verify(c);
  if (c->n_paths != m->n_inputs + (c->runs ? 0 : m->n_outputs)) return refuse_usage(c);
  const int code = report(c->self, c->runs ? bench_files(c, &f) : run_files(c, &f));
  close_files(m, &f);
  return code;
}

/* ---------------------------------------------------------------- the command line */

static clave_status choose_method(command_line *c, const char *name) {
  const model_info *info = model_get_info(c->m);
  text t = {0};
  for (int i = 0; i < info->n_methods; i++) {
    text_printf(&t, "%s%s", i ? ", " : "", info->methods[i].name);
    if (name && strcmp(info->methods[i].name, name) != 0) continue;
    text_free(&t);
    c->method = &info->methods[i];
    c->method_index = i;
    c->sizes = room_take(((size_t)c->method->n_sizes + 1) * sizeof *c->sizes);
    for (int k = 0; c->sizes && k < c->method->n_sizes; k++) c->sizes[k] = SIZE_UNKNOWN;
    return c->sizes ? NULL : status_no_memory();
  }
  clave_status st = text_status(&t);
  if (!st) st = INVALID("no method \"%s\"; there are: %s", name, t.data);
  text_free(&t);
  return st;
}

static clave_status read_runs(command_line *c, const char *word) {
  char *end;
  c->runs = strtol(word, &end, 10);
  if (*word && !*end && c->runs >= 1 && c->runs <= 1000000) return NULL;
  return INVALID("--bench: '%s' is not a number of runs from 1 to 1000000", word);
}

/* Options stand before the files. */
static clave_status read_options(command_line *c) {
  const char *method = NULL;
  char *const *first = c->paths;
  int n = 0;
  for (; n + 1 < c->n_paths && strcmp(first[n], "--method") == 0; n += 2) method = first[n + 1];
  TRY(choose_method(c, method));
  c->verifies = c->n_paths == 1 && strcmp(first[0], "--verify") == 0;
  for (; n < c->n_paths; n += 2) {
    const char *name = first[n], *value = n + 1 < c->n_paths ? first[n + 1] : "";
    if (strcmp(name, "--help") == 0) c->wants_help = true;
    if (c->wants_help || c->verifies || strncmp(name, "--", 2) != 0) break;
    if (strcmp(name, "--dim") == 0) {
      TRY(read_size(c->method, value, c->sizes));
    } else if (strcmp(name, "--bench") == 0) {
      TRY(read_runs(c, value));
    } else {
      return INVALID("%s: no option that can stand here; --help lists them", name);
    }
  }
  c->paths += n;
  c->n_paths -= n;
  return NULL;
}

int model_main(int argc, char **argv) {
  const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
  command_line c = {.self = slash      ? slash + 1
                            : argc > 0 ? argv[0]
                                       : "model",
                    .paths = argv + (argc > 0),
                    .n_paths = argc - (argc > 0)};
  (void)signal(SIGXFSZ, SIG_IGN); /* a limit of files' sizes is an error of writing */
  clave_status st = model_create(&c.m);
  int code = EXIT_FAILURE;
  if (!st) model_set_note(c.m, print_note, NULL);
  if (st) {
    code = report(c.self, st);
  } else if ((st = read_options(&c))) {
    (void)report(c.self, st);
    code = EXIT_MALFORMED;
  } else {
    code = run_line(&c);
  }
  model_destroy(c.m);
  room_give(c.sizes);
  return code;
}
