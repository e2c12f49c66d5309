/* Runs a compiled program in a temporary folder, which is removed afterwards. */
#include "cli/executed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "cli/bounds.h"
#include "cli/files.h"
#include "cli/interrupts.h"
#include "cli/progress.h"

/* The files in `folder`; all members are owned. */
typedef struct workplace {
  char *program; /* absolute */
  char *folder;  /* NULL: not created */
  char **names;  /* files of inputs, then of outputs, then the log */
  uint32_t n, n_inputs;
} workplace;

static int add_name(workplace *workplace, const char *kind) {
  page name = {0};
  text_printf(&name, "%s/%s_%" PRIu32, workplace->folder, kind, workplace->n);
  workplace->names[workplace->n] = name.data;
  if (name.failed) return fail_memory();
  workplace->n++;
  return EXIT_GOOD;
}

static int make_workplace(const char *path, const model *model, const input_set *inputs,
                          workplace *workplace) {
  const char *parent = temporary_folder();
  workplace->names =
      calloc((size_t)inputs->count + model->method.n_outputs + 1, sizeof *workplace->names);
  if (!workplace->names) return fail_memory();
  workplace->program = realpath(path, NULL);
  if (!workplace->program) return fail("%s: %s", path, strerror(errno));
  workplace->folder = folder_create_unique(parent, "clave-verify-");
  if (!workplace->folder) return fail("cannot create a temporary folder in %s", parent);
  for (uint32_t i = 0; i < inputs->count; i++)
    if (!inputs->items[i].info.is_scalar) TRY_EXIT(add_name(workplace, "in"));
  workplace->n_inputs = workplace->n;
  for (uint32_t i = 0; i < model->method.n_outputs; i++) TRY_EXIT(add_name(workplace, "out"));
  return add_name(workplace, "log");
}

static void remove_workplace(workplace *workplace) {
  uint64_t bytes;
  for (uint32_t i = 0; i < workplace->n; i++) free(workplace->names[i]);
  if (workplace->folder) (void)folder_remove(workplace->folder, &bytes);
  free(workplace->folder);
  free(workplace->names);
  free(workplace->program);
}

static int executed_write_tensor(const char *path, const clave_tensor *tensor) {
  const uint64_t n = count_elements(tensor);
  const size_t size = clave_dtype_size(tensor->dtype);
  page bytes = {0};
  for (uint64_t i = 0; i < n; i++) text_append(&bytes, values_element_at(tensor, i), size);
  int result = bytes.failed ? fail_memory() : write_file(path, &bytes);
  text_free(&bytes);
  return result;
}

/* Reports the first line of the log after a nonzero exit status. */
static int report_failure(const workplace *workplace, const char *path, int code) {
  page log = {0}, line = {0};
  TRY_EXIT(read_file(workplace->names[workplace->n - 1], &log));
  if (log.size) log.data[strcspn(log.data, "\n")] = 0;
  page_visible(&line, log.size ? log.data : "nothing");
  int result = line.failed ? fail_memory()
                           : fail("%s: the executable failed with exit status %d: %s", path, code,
                                  line.data);
  text_free(&log);
  text_free(&line);
  return result;
}

/* *code: the exit status. */
static int run_with(const workplace *workplace, const char *path, const char *const *arguments,
                    int *code) {
  tool *tool = NULL;
  show_progress("running %s", path);
  clave_status st =
      tool_start(arguments, workplace->folder, workplace->names[workplace->n - 1], &tool);
  if (st) return fail_status(st);
  *code = tool_end(tool, is_interrupted, NULL);
  clear_progress();
  return is_interrupted(NULL) ? interrupted_exit() : EXIT_GOOD;
}

static int execute(const workplace *workplace, const char *path) {
  const char **arguments = calloc((size_t)workplace->n + 2, sizeof *arguments);
  if (!arguments) return fail_memory();
  arguments[0] = workplace->program;
  for (uint32_t i = 0; i + 1 < workplace->n; i++) arguments[i + 1] = workplace->names[i];
  int code = 0, result = run_with(workplace, path, arguments, &code);
  free(arguments);
  return !result && code ? report_failure(workplace, path, code) : result;
}

static int query_in(workplace *workplace, const char *path, page *help) {
  const model none = {0};
  const input_set nothing = {0};
  TRY_EXIT(make_workplace(path, &none, &nothing, workplace));
  const char *const arguments[] = {workplace->program, "--help", NULL};
  int code;
  TRY_EXIT(run_with(workplace, path, arguments, &code));
  return read_file(workplace->names[workplace->n - 1], help);
}

int query_executable(const char *path, bool *is_opencl) {
  workplace workplace = {0};
  page help = {0};
  catch_endings(); /* removes the folder on a signal, too */
  int result = query_in(&workplace, path, &help);
  *is_opencl = !result && help.data && strstr(help.data, " on an OpenCL device");
  remove_workplace(&workplace);
  text_free(&help);
  return result;
}

static const char *owner_of(const model *model) {
  return strcmp(model->device_info.kind, "cpu") == 0 ? "the CPU backend" : "this machine's device";
}

static int compare_file(const char *file, const char *path, const model *model, uint32_t index) {
  clave_tensor_info info = {.size = sizeof info};
  clave_tensor mine;
  page bytes = {0};
  TRY_STATUS(clave_program_output(model->program, model->method.name, index, &info));
  TRY_STATUS(clave_session_output(model->session, model->method.name, index, &mine));
  TRY_EXIT(read_file(file, &bytes));
  const clave_tensor theirs = clave_tensor_make(mine.dtype, mine.rank, mine.dims, bytes.data);
  const uint64_t want = count_elements(&mine) * clave_dtype_size(mine.dtype);
  int result = EXIT_GOOD;
  if (bytes.size != want) {
    result = fail("output_%" PRIu32 " (%s) of %s: expected %" PRIu64 " bytes, got %zu", index,
                  info.name, path, want, bytes.size);
  } else if (!same_elements(&theirs, &mine)) {
    const difference difference = compare_tensors(&theirs, &mine, NULL, 1, 0);
    result = fail("output_%" PRIu32 " (%s) of %s differs from %s: at element %" PRIu64
                  ": %s %.9g, got %.9g (all bits must be equal)",
                  index, info.name, path, owner_of(model), difference.element,
                  model->device_info.kind, difference.expected, difference.got);
  }
  text_free(&bytes);
  return result;
}

static int run_in(workplace *workplace, const char *path, const model *model,
                  const input_set *inputs) {
  TRY_EXIT(make_workplace(path, model, inputs, workplace));
  for (uint32_t i = 0, k = 0; i < inputs->count; i++)
    if (!inputs->items[i].info.is_scalar)
      TRY_EXIT(executed_write_tensor(workplace->names[k++], &inputs->items[i].value));
  TRY_EXIT(execute(workplace, path));
  for (uint32_t i = 0; i < model->method.n_outputs; i++)
    TRY_EXIT(compare_file(workplace->names[workplace->n_inputs + i], path, model, i));
  return EXIT_GOOD;
}

int compare_executable(const char *path, const model *model, const input_set *inputs, page *out) {
  workplace workplace = {0};
  catch_endings(); /* removes the folder on a signal, too */
  int result = run_in(&workplace, path, model, inputs);
  remove_workplace(&workplace);
  if (result) return result;
  text_printf(out, "binary   %" PRIu32 " outputs of ", model->method.n_outputs);
  page_visible(out, path);
  text_printf(out, " equal to %s, bit for bit\n", owner_of(model));
  return EXIT_GOOD;
}
