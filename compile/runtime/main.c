/* The command line of a compiled program: files in, files out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "compile/runtime/model.h"

enum { EXIT_MALFORMED = 2 };

/* ---------------------------------------------------------------- words */

static void append_type(text *t, const model_argument *a) {
  text_printf(t, "%s (", dtype_name(a->type));
  for (int i = 0; i < a->rank; i++) text_printf(t, "%s%" PRId64, i ? ", " : "", a->dims[i]);
  text_printf(t, "), %zu bytes", a->bytes);
}

static void append_arguments(text *t, const char *what, const model_argument *all, int n) {
  for (int i = 0; i < n; i++) {
    text_printf(t, "  %s %d: %s: ", what, i, all[i].name);
    append_type(t, &all[i]);
    text_puts(t, "\n");
  }
}

static int print_help(const char *self, const model_info *info) {
  text t = {0};
  text_printf(&t,
              "usage: %s INPUT... OUTPUT...\n       %s --bench RUNS INPUT...\n\n"
              "Runs method %s of %s. A file holds the elements of a tensor alone, in row-major "
              "order,\nlittle-endian. CLAVE_THREADS sets how many threads compute.\n\n",
              self, self, info->method, info->program);
  append_arguments(&t, "input", info->inputs, info->n_inputs);
  append_arguments(&t, "output", info->outputs, info->n_outputs);
  const bool is_good = !t.failed && fputs(t.data, stdout) >= 0 && fflush(stdout) == 0;
  text_free(&t);
  return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Consumes st. */
static int report(const char *self, clave_status st) {
  if (!st) return EXIT_SUCCESS;
  (void)fprintf(stderr, "%s: %s\n", self, status_message(st));
  status_free(st);
  return EXIT_FAILURE;
}

static int refuse_usage(const char *self, const model_info *info) {
  (void)fprintf(stderr, "%s: expected %d input and %d output files; --help lists them\n", self,
                info->n_inputs, info->n_outputs);
  return EXIT_MALFORMED;
}

/* ---------------------------------------------------------------- files */

/* The tensors of a run. */
typedef struct files {
  file_map *inputs;      /* (n_inputs) */
  file_writer **writers; /* (n_outputs) */
  const void **in;
  void **out; /* owned */
} files;

static clave_status take_files(const model_info *info, files *f) {
  f->inputs = calloc((size_t)info->n_inputs + 1, sizeof *f->inputs);
  f->writers = calloc((size_t)info->n_outputs + 1, sizeof *f->writers);
  f->in = calloc((size_t)info->n_inputs + 1, sizeof *f->in);
  f->out = calloc((size_t)info->n_outputs + 1, sizeof *f->out);
  if (!f->inputs || !f->writers || !f->in || !f->out) return status_no_memory();
  for (int i = 0; i < info->n_outputs; i++) {
    f->out[i] = malloc(info->outputs[i].bytes + 1);
    if (!f->out[i]) return status_no_memory();
  }
  return NULL;
}

static void close_files(const model_info *info, files *f) {
  for (int i = 0; f->inputs && i < info->n_inputs; i++) file_map_close(&f->inputs[i]);
  for (int i = 0; f->writers && i < info->n_outputs; i++) file_writer_destroy(f->writers[i]);
  for (int i = 0; f->out && i < info->n_outputs; i++) free(f->out[i]);
  free(f->inputs);
  free(f->writers);
  free(f->in);
  free(f->out);
}

static clave_status wrong_size(const char *path, const model_argument *a, size_t bytes) {
  text t = {0};
  append_type(&t, a);
  clave_status st = t.failed
                        ? status_no_memory()
                        : INVALID("%s: %zu bytes; input '%s' is %s", path, bytes, a->name, t.data);
  text_free(&t);
  return st;
}

static clave_status read_inputs(const model_info *info, char *const *paths, files *f) {
  for (int i = 0; i < info->n_inputs; i++) {
    TRY(file_map_open(paths[i], &f->inputs[i]));
    f->in[i] = f->inputs[i].data;
    if (f->inputs[i].size != info->inputs[i].bytes)
      return wrong_size(paths[i], &info->inputs[i], f->inputs[i].size);
  }
  return NULL;
}

/* All of them, or none where one cannot be written. */
static clave_status write_outputs(const model_info *info, char *const *paths, files *f) {
  for (int i = 0; i < info->n_outputs; i++) {
    TRY(file_writer_create(paths[i], &f->writers[i]));
    TRY(file_writer_append(f->writers[i], f->out[i], info->outputs[i].bytes));
  }
  for (int i = 0; i < info->n_outputs; i++) TRY(file_writer_commit(f->writers[i]));
  return NULL;
}

/* ---------------------------------------------------------------- runs */

static clave_status run_files(const model_info *info, char *const *paths, files *f) {
  model *m;
  TRY(take_files(info, f));
  TRY(read_inputs(info, paths, f));
  TRY(model_create(info, 0, &m));
  clave_status st = model_run(m, f->in, f->out);
  if (!st) st = write_outputs(info, paths + info->n_inputs, f);
  model_destroy(m);
  return st;
}

static int compare_times(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* times: (runs) ns, of which the first is of the first run. */
static clave_status time_runs(model *m, const files *f, int64_t *times, int runs) {
  for (int i = 0; i < runs; i++) {
    const int64_t begin = clock_ns();
    TRY(model_run(m, f->in, f->out));
    times[i] = clock_ns() - begin;
  }
  return NULL;
}

static clave_status bench_files(const model_info *info, int runs, char *const *paths, files *f) {
  model *m = NULL;
  const int64_t begin = clock_ns();
  int64_t *times = calloc((size_t)runs, sizeof *times);
  clave_status st = times ? take_files(info, f) : status_no_memory();
  if (!st) st = read_inputs(info, paths, f);
  if (!st) st = model_create(info, 0, &m);
  const int64_t loaded = clock_ns() - begin;
  if (!st) st = time_runs(m, f, times, runs);
  if (!st) {
    const int64_t first = times[0];
    qsort(times, (size_t)runs, sizeof *times, compare_times);
    (void)printf("load_ms %.3f first_ms %.3f median_ms %.3f min_ms %.3f\n", (double)loaded / 1e6,
                 (double)first / 1e6, (double)times[runs / 2] / 1e6, (double)times[0] / 1e6);
  }
  model_destroy(m);
  free(times);
  return st;
}

static int bench(const char *self, const model_info *info, int argc, char *const *argv) {
  char *end = NULL;
  const long runs = argc > 2 ? strtol(argv[2], &end, 10) : 0;
  if (argc != info->n_inputs + 3) return refuse_usage(self, info);
  if (runs < 1 || runs > 1000000 || *end) {
    (void)fprintf(stderr, "%s: --bench: '%s' is not a number of runs from 1 to 1000000\n", self,
                  argv[2]);
    return EXIT_MALFORMED;
  }
  files f = {0};
  const int code = report(self, bench_files(info, (int)runs, argv + 3, &f));
  close_files(info, &f);
  return code;
}

int main(int argc, char **argv) {
  const model_info *info = &compiled_model;
  const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
  const char *self = slash ? slash + 1 : argc > 0 ? argv[0] : "model";
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return print_help(self, info);
  if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench(self, info, argc, argv);
  if (argc != 1 + info->n_inputs + info->n_outputs) return refuse_usage(self, info);
  files f = {0};
  const int code = report(self, run_files(info, argv + 1, &f));
  close_files(info, &f);
  return code;
}
