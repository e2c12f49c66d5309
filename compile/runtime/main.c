/* The command line of a compiled program: reads input files and writes output files. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/small_alloc.h"
#include "compile/runtime/arguments.h"
#include "compile/runtime/files.h"
#include "compile/runtime/model.h"
#include "compile/runtime/verify.h"

enum { EXIT_MALFORMED = 2 };

/* The parsed command line. */
typedef struct command_line {
  const char *self;
  model *model; /* owned */
  const model_method *method;
  int method_index;
  int64_t *sizes; /* owned (n_sizes); first those of --dim, later all */
  long runs;      /* with --bench; 0: not given */
  bool wants_help, verifies;
  char *const *paths; /* borrowed; the remaining arguments */
  int n_paths;
} command_line;

/* ---------------------------------------------------------------- words */

static void append_arguments(text *text, const model_method *method, const char *what,
                             const model_argument *all, int n) {
  for (int i = 0; i < n; i++) {
    text_printf(text, "  %s %d: %s: ", what, i, all[i].name);
    append_type(text, method, &all[i]);
    text_puts(text, "\n");
  }
}

static void runtime_main_append_sizes(text *text, const model_method *method) {
  for (int i = 0; i < method->n_sizes; i++) {
    const model_size *model_size = &method->sizes[i];
    text_printf(text, "  size %s: from %lld", model_size->name, (long long)model_size->min);
    if (model_size->max < INT64_MAX) text_printf(text, " to %lld", (long long)model_size->max);
    text_puts(text, "\n");
  }
}

static void append_method(text *text, const model_info *info, const model_method *method) {
  if (info->n_methods > 1) text_printf(text, "\nmethod %s:\n", method->name);
  append_arguments(text, method, "input", method->inputs, method->n_inputs);
  append_arguments(text, method, "output", method->outputs, method->n_outputs);
  runtime_main_append_sizes(text, method);
}

static bool has_sizes(const model_info *info) {
  bool has = false;
  for (int i = 0; i < info->n_methods; i++) has = has || info->methods[i].n_sizes;
  return has;
}

static void append_usage(text *text, const char *self, const model_info *info) {
  const char *options = info->n_methods > 1 ? "[--method M] " : "";
  const char *sizes = has_sizes(info) ? "[--dim NAME=N]... " : "";
  text_printf(text, "usage: %s %s%sINPUT... OUTPUT...\n       %s %s%s--bench RUNS INPUT...\n", self,
              options, sizes, self, options, sizes);
  if (info->tests.methods) text_printf(text, "       %s --verify\n", self);
  text_puts(text, "\n");
  if (info->n_methods > 1) {
    text_printf(text, "Runs a method of %s", info->program);
  } else {
    text_printf(text, "Runs method %s of %s", info->methods->name, info->program);
  }
  if (strcmp(info->device, "cpu") != 0) text_puts(text, " on an OpenCL device");
  text_puts(text,
            ".\nA file NAME.npy or NAME.safetensors has a tensor's dtype and shape. Any other file "
            "has only the\nelements, in row-major order and little-endian.");
  if (info->n_threads == 0) text_puts(text, " CLAVE_THREADS sets the number of threads.");
  if (has_sizes(info))
    text_puts(text, " Open sizes\nfollow from the lengths of the files, or --dim sets them.");
  if (strcmp(info->device, "cpu") != 0) text_puts(text, " CLAVE_DEVICE chooses\nthe device.");
  text_puts(text, "\n\n");
}

/* Replaces control characters in names by '?', because a terminal would interpret them. */
static void make_visible(const text *text) {
  for (size_t i = 0; i < text->size; i++) {
    const unsigned char c = (unsigned char)text->data[i];
    if ((c < ' ' && c != '\n') || c == 0x7f) text->data[i] = '?';
  }
}

static int print_help(const command_line *line) {
  const model_info *info = model_get_info(line->model);
  text text = {0};
  append_usage(&text, line->self, info);
  for (int i = 0; i < info->n_methods; i++) append_method(&text, info, &info->methods[i]);
  make_visible(&text);
  const bool is_good = !text.failed && fputs(text.data, stdout) >= 0 && fflush(stdout) == 0;
  text_free(&text);
  return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void runtime_main_print_note(void *ctx, const char *line) {
  (void)ctx;
  (void)fprintf(stderr, "note: %s\n", line);
}

/* Consumes st. */
static int runtime_main_report(const char *self, clave_status st) {
  if (!st) return EXIT_SUCCESS;
  (void)fprintf(stderr, "%s: %s\n", self, status_message(st));
  status_free(st);
  return EXIT_FAILURE;
}

static int refuse_usage(const command_line *line) {
  const model_method *method = line->method;
  (void)fprintf(stderr, "%s: expected %d input and %d output files; --help lists them\n",
                line->self, method->n_inputs, line->runs ? 0 : method->n_outputs);
  return EXIT_MALFORMED;
}

/* ---------------------------------------------------------------- files */

/* Inputs and outputs of a run. */
typedef struct files {
  input_file *inputs;          /* (n_inputs) */
  file_writer **writers;       /* (n_outputs) */
  unsigned char (*numbers)[8]; /* (n_inputs); values of scalar inputs */
  given_input *given;          /* (n_inputs) */
  model_value *in, *out;       /* (n_inputs), (n_outputs) */
} files;

static clave_status take_files(const model_method *method, files *files) {
  files->inputs = small_alloc(((size_t)method->n_inputs + 1) * sizeof *files->inputs);
  files->writers = small_alloc(((size_t)method->n_outputs + 1) * sizeof *files->writers);
  files->numbers = small_alloc(((size_t)method->n_inputs + 1) * sizeof *files->numbers);
  files->given = small_alloc(((size_t)method->n_inputs + 1) * sizeof *files->given);
  files->in = small_alloc(((size_t)method->n_inputs + 1) * sizeof *files->in);
  files->out = small_alloc(((size_t)method->n_outputs + 1) * sizeof *files->out);
  const bool is_whole =
      files->inputs && files->writers && files->numbers && files->given && files->in && files->out;
  return is_whole ? NULL : status_no_memory();
}

static void close_files(const model_method *method, files *files) {
  for (int i = 0; files->inputs && i < method->n_inputs; i++) input_file_close(&files->inputs[i]);
  for (int i = 0; files->writers && i < method->n_outputs; i++)
    file_writer_destroy(files->writers[i]);
  small_free(files->inputs);
  small_free(files->writers);
  small_free(files->numbers);
  small_free(files->given);
  small_free(files->in);
  small_free(files->out);
}

static clave_status runtime_main_read_input(const model_method *method, const char *path,
                                            files *files, int i) {
  const model_argument *argument = &method->inputs[i];
  input_file *file = &files->inputs[i];
  if (argument->is_scalar) {
    files->in[i].data = files->numbers[i];
    return read_number(argument, path, files->numbers[i]);
  }
  TRY(input_file_open(path, method, i, file));
  files->in[i].data = file->data;
  files->given[i] = (given_input){
      .from = path, .bytes = file->bytes, .dims = file->has_shape ? file->dims : NULL};
  return NULL;
}

static clave_status runtime_main_read_inputs(const command_line *line, files *files) {
  const model_method *method = line->method;
  for (int i = 0; i < method->n_inputs; i++)
    TRY(runtime_main_read_input(method, line->paths[i], files, i));
  TRY(find_sizes(method, files->given, line->sizes));
  for (int i = 0; i < method->n_inputs; i++)
    known_dims(&method->inputs[i], line->sizes, files->in[i].dims);
  return NULL;
}

/* Rejects outputs that would overwrite an input. */
static clave_status runtime_main_check_outputs(const command_line *line) {
  const model_method *method = line->method;
  for (int i = 0; i < method->n_inputs * method->n_outputs; i++) {
    const int input = i / method->n_outputs, output = method->n_inputs + i % method->n_outputs;
    if (!method->inputs[input].is_scalar && file_is_same(line->paths[input], line->paths[output]))
      return INVALID("output %s would overwrite input %s", line->paths[output], line->paths[input]);
  }
  return NULL;
}

/* Fails if a file was truncated before the run read all of it. */
static clave_status runtime_main_check_inputs(const command_line *line, const files *files) {
  for (int i = 0; i < line->method->n_inputs; i++)
    TRY(file_map_check(&files->inputs[i].map, line->paths[i], NULL));
  return NULL;
}

/* Writes all outputs, or none if one cannot be written. */
static clave_status runtime_main_write_outputs(const command_line *line, files *files) {
  const model_method *method = line->method;
  TRY(output_files_write(method, files->out, line->paths + method->n_inputs, files->writers));
  for (int i = 0; i < method->n_outputs; i++)
    if (files->writers[i]) TRY(file_writer_commit(files->writers[i]));
  return NULL;
}

/* ---------------------------------------------------------------- runs */

static clave_status run_files(const command_line *line, files *files) {
  TRY(take_files(line->method, files));
  TRY(runtime_main_read_inputs(line, files));
  TRY(runtime_main_check_outputs(line));
  TRY(model_start(line->model, 0));
  TRY(model_run(line->model, line->method_index, files->in, files->out));
  TRY(runtime_main_check_inputs(line, files));
  return runtime_main_write_outputs(line, files);
}

static int compare_times(const void *left, const void *right) {
  const int64_t x = *(const int64_t *)left, y = *(const int64_t *)right;
  return (x > y) - (x < y);
}

/* Runs the method line->runs times. times: (runs), receives the nanoseconds of each run. */
static clave_status runtime_main_time_runs(const command_line *line, const files *files,
                                           int64_t *times) {
  for (long i = 0; i < line->runs; i++) {
    const int64_t begin = clock_ns();
    TRY(model_run(line->model, line->method_index, files->in, files->out));
    times[i] = clock_ns() - begin;
  }
  return NULL;
}

static clave_status bench_files(const command_line *line, files *files) {
  const int64_t begin = clock_ns();
  const size_t runs = (size_t)line->runs;
  int64_t *times = small_alloc(runs * sizeof *times);
  clave_status st = times ? take_files(line->method, files) : status_no_memory();
  if (!st) st = runtime_main_read_inputs(line, files);
  if (!st) st = model_start(line->model, 0);
  const int64_t loaded = clock_ns() - begin;
  if (!st) st = runtime_main_time_runs(line, files, times);
  if (!st) {
    const int64_t first = times[0];
    qsort(times, runs, sizeof *times, compare_times);
    (void)printf("load_ms %.3f first_ms %.3f median_ms %.3f min_ms %.3f\n", (double)loaded / 1e6,
                 (double)first / 1e6, (double)times[runs / 2] / 1e6, (double)times[0] / 1e6);
  }
  small_free(times);
  return st;
}

static int verify(const command_line *line) {
  const model_tests *tests = &model_get_info(line->model)->tests;
  int n;
  clave_status st = verify_model(line->model, 0, &n);
  if (!st)
    (void)printf("verified: %d outputs on random inputs are equal to those of clave%s\n", n,
                 tests->is_close ? " on the CPU, within rounding" : "");
  return runtime_main_report(line->self, st);
}

static int run_line(const command_line *line) {
  const model_method *method = line->method;
  files files = {0};
  if (line->wants_help) return print_help(line);
  if (line->verifies) return verify(line);
  if (line->n_paths != method->n_inputs + (line->runs ? 0 : method->n_outputs))
    return refuse_usage(line);
  const int code = runtime_main_report(
      line->self, line->runs ? bench_files(line, &files) : run_files(line, &files));
  close_files(method, &files);
  return code;
}

/* ---------------------------------------------------------------- the command line */

static clave_status runtime_main_choose_method(command_line *line, const char *name) {
  const model_info *info = model_get_info(line->model);
  text text = {0};
  for (int i = 0; i < info->n_methods; i++) {
    text_printf(&text, "%s%s", i ? ", " : "", info->methods[i].name);
    if (name && strcmp(info->methods[i].name, name) != 0) continue;
    text_free(&text);
    line->method = &info->methods[i];
    line->method_index = i;
    line->sizes = small_alloc(((size_t)line->method->n_sizes + 1) * sizeof *line->sizes);
    for (int k = 0; line->sizes && k < line->method->n_sizes; k++) line->sizes[k] = SIZE_UNKNOWN;
    return line->sizes ? NULL : status_no_memory();
  }
  clave_status st = text_status(&text);
  if (!st) st = INVALID("unknown method \"%s\"; the methods are %s", name, text.data);
  text_free(&text);
  return st;
}

static clave_status read_runs(command_line *line, const char *word) {
  char *end;
  line->runs = strtol(word, &end, 10);
  if (*word && !*end && line->runs >= 1 && line->runs <= 1000000) return NULL;
  return INVALID("--bench: expected a number of runs from 1 to 1000000, got '%s'", word);
}

/* Parses the options, which precede the files. */
static clave_status runtime_main_read_options(command_line *line) {
  const char *method = NULL;
  char *const *first = line->paths;
  int n = 0;
  for (; n + 1 < line->n_paths && strcmp(first[n], "--method") == 0; n += 2) method = first[n + 1];
  TRY(runtime_main_choose_method(line, method));
  line->verifies = line->n_paths == 1 && strcmp(first[0], "--verify") == 0;
  for (; n < line->n_paths; n += 2) {
    const char *name = first[n], *value = n + 1 < line->n_paths ? first[n + 1] : "";
    if (strcmp(name, "--help") == 0) line->wants_help = true;
    if (line->wants_help || line->verifies || strncmp(name, "--", 2) != 0) break;
    if (strcmp(name, "--dim") == 0) {
      TRY(read_size(line->method, value, line->sizes));
    } else if (strcmp(name, "--bench") == 0) {
      TRY(read_runs(line, value));
    } else {
      return INVALID(
          "%s: unknown option, or an option at the wrong place; --help lists the options", name);
    }
  }
  line->paths += n;
  line->n_paths -= n;
  return NULL;
}

int model_main(int argc, char **argv) {
  const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
  command_line line = {.self = slash      ? slash + 1
                               : argc > 0 ? argv[0]
                                          : "model",
                       .paths = argv + (argc > 0),
                       .n_paths = argc - (argc > 0)};
  (void)signal(SIGXFSZ, SIG_IGN); /* a file size limit is reported as a write error */
  clave_status st = model_create(&line.model);
  int code = EXIT_FAILURE;
  if (!st) model_set_note(line.model, runtime_main_print_note, NULL);
  if (st) {
    code = runtime_main_report(line.self, st);
  } else if ((st = runtime_main_read_options(&line))) {
    (void)runtime_main_report(line.self, st);
    code = EXIT_MALFORMED;
  } else {
    code = run_line(&line);
  }
  model_destroy(line.model);
  small_free(line.sizes);
  return code;
}
