/* clave run: runs a program once on given inputs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "clave_files.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/records.h"
#include "cli/tensor_json.h"
#include "cli/values.h"

typedef struct run_arguments {
  model_arguments model;
  const char *inputs, *outputs, *profile, *dump;
  text_list input;
  int64_t seed;
  bool json;
} run_arguments;

static const flag run_flags[] = {
    PROGRAM_FLAGS(run_arguments),
    {"--inputs", FLAG_PATH, offsetof(run_arguments, inputs), "I.safetensors",
     "input tensors, named as in the program, or input_0... by position", 0, 0},
    {"--input", FLAG_INPUTS, offsetof(run_arguments, input), "NAME=F.npy",
     "one input from a file, or literal values: NAME=5, NAME=1,2,3, NAME=[[1,2],[3,4]]; "
     "repeatable, overrides --inputs",
     0, 0},
    {"--outputs", FLAG_WRITTEN, offsetof(run_arguments, outputs), "O.safetensors",
     "writes output_0... (default: prints a summary)", 0, 0},
    METHOD_FLAG(run_arguments),
    DEVICE_FLAGS(run_arguments),
    WARM_UP_FLAG(run_arguments),
    {"--profile", FLAG_WRITTEN, offsetof(run_arguments, profile), "T.json",
     "writes a trace with the time of every op, for Perfetto or chrome://tracing", 0, 0},
    {"--dump", FLAG_WRITTEN, offsetof(run_arguments, dump), "D.safetensors",
     "writes the result of every op under its node's name; disables fusion", 0, 0},
    {"--seed", FLAG_INT, offsetof(run_arguments, seed), "N",
     "random seed of random ops (default 0)", 0, INT64_MAX},
    {"--json", FLAG_SWITCH, offsetof(run_arguments, json), NULL, "machine-readable summary", 0, 0},
};

enum { FIRST_VALUES = 8 };

typedef struct output {
  clave_tensor_info info;
  clave_tensor value;
} output;

static int get_outputs(const model *model, output *list) {
  for (uint32_t i = 0; i < model->method.n_outputs; i++) {
    list[i].info.size = sizeof list[i].info;
    TRY_STATUS(clave_program_output(model->program, model->method.name, i, &list[i].info));
    TRY_STATUS(clave_session_output(model->session, model->method.name, i, &list[i].value));
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the output file */

/* Arguments for clave_tensors_save. */
typedef struct output_file {
  char (*keys)[24]; /* "output_0" */
  const char **names;
  clave_tensor *values;
  const char **metadata; /* pairs: output_i, and the program's name for it */
} output_file;

static int save_outputs(const char *path, const output *list, uint32_t count,
                        const output_file *file) {
  for (uint32_t i = 0; i < count; i++) {
    (void)snprintf(file->keys[i], sizeof file->keys[i], "output_%" PRIu32, i);
    file->names[i] = file->metadata[(size_t)2 * i] = file->keys[i];
    file->metadata[(size_t)2 * i + 1] = list[i].info.name;
    file->values[i] = list[i].value;
  }
  TRY_STATUS(clave_tensors_save(path, file->names, file->values, count, file->metadata, count));
  return EXIT_GOOD;
}

static int cli_run_write_outputs(const char *path, const output *list, uint32_t count) {
  size_t n = count ? count : 1;
  output_file file = {.keys = calloc(n, sizeof *file.keys),
                      .names = calloc(n, sizeof *file.names),
                      .values = calloc(n, sizeof *file.values),
                      .metadata = calloc(n, 2 * sizeof *file.metadata)};
  bool good = file.keys && file.names && file.values && file.metadata;
  int result = good ? save_outputs(path, list, count, &file) : fail_memory();
  free(file.keys);
  free(file.names);
  free(file.values);
  free(file.metadata);
  return result;
}

/* ---------------------------------------------------------------- the summary */

static void write_first_values(page *cell, const clave_tensor *tensor, uint64_t count) {
  text_puts(cell, tensor->rank ? "[" : "");
  for (uint64_t i = 0; i < count && i < FIRST_VALUES; i++) {
    if (i) text_puts(cell, ", ");
    page_element(cell, tensor->dtype, values_element_at(tensor, i), 6);
  }
  if (count > FIRST_VALUES) text_puts(cell, ", ...");
  text_puts(cell, tensor->rank ? "]" : "");
}

static void write_summary_row(columns *table, const output *output, page *cell) {
  tensor_summary summary = summarise_tensor(&output->value);
  cell->size = 0;
  page_visible(cell, output->info.name);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  cell->size = 0;
  page_shape(cell, &output->value);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  if (summary.count == summary.n_nan) {
    for (int i = 0; i < 3; i++) columns_cell(table, "%s", summary.count ? "nan" : "-");
  } else {
    columns_cell(table, "%.6g", summary.min);
    columns_cell(table, "%.6g", summary.mean);
    columns_cell(table, "%.6g", summary.max);
  }
  cell->size = 0;
  write_first_values(cell, &output->value, summary.count);
  if (summary.n_nan) text_printf(cell, " (%" PRIu64 " nan)", summary.n_nan);
  columns_cell(table, "%s", cell->data ? cell->data : "");
}

static void write_summary(const output *list, uint32_t count, page *out) {
  columns table = {.n_columns = 6, .right = {[2] = true, [3] = true, [4] = true}};
  static const char *const titles[] = {"output", "shape", "min", "mean", "max", "first values"};
  page cell = {0};
  for (size_t i = 0; i < LENGTH(titles); i++) columns_cell(&table, "%s", titles[i]);
  for (uint32_t i = 0; i < count; i++) write_summary_row(&table, &list[i], &cell);
  columns_write(&table, 0, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

static void write_summary_json(const output *list, uint32_t count, page *out) {
  json_writer writer = {.out = out};
  emit_array(&writer, NULL);
  for (uint32_t i = 0; i < count; i++) {
    const clave_tensor *tensor = &list[i].value;
    tensor_summary summary = summarise_tensor(tensor);
    emit_object(&writer, NULL);
    emit_string(&writer, "name", list[i].info.name);
    emit_string(&writer, "dtype", clave_dtype_name(tensor->dtype));
    emit_list(&writer, "shape");
    for (int k = 0; k < tensor->rank; k++) emit_integer(&writer, NULL, tensor->dims[k]);
    emit_end_array(&writer);
    emit_number(&writer, "min", summary.min);
    emit_number(&writer, "mean", summary.mean);
    emit_number(&writer, "max", summary.max);
    emit_size(&writer, "nan", summary.n_nan);
    emit_list(&writer, "first");
    for (uint64_t k = 0; k < summary.count && k < FIRST_VALUES; k++) {
      emit_element(&writer, NULL, tensor->dtype, values_element_at(tensor, k));
    }
    emit_end_array(&writer);
    emit_end_object(&writer);
  }
  emit_end_array(&writer);
}

/* ---------------------------------------------------------------- the command */

static int report_outputs(const run_arguments *arguments, const model *model, page *out) {
  uint32_t count = model->method.n_outputs;
  output *list = calloc(count ? count : 1, sizeof *list);
  if (!list) return fail_memory();
  int result = get_outputs(model, list);
  if (!result && arguments->outputs) {
    result = cli_run_write_outputs(arguments->outputs, list, count);
  } else if (!result) {
    (arguments->json ? write_summary_json : write_summary)(list, count, out);
  }
  free(list);
  return result;
}

/* Records all results. Ops that only view other tensors write nothing and are not in the file. */
static int run_dumped(const char *path, const model *model) {
  records records = {0};
  clave_status st = clave_session_observe(model->session, keep_record, &records);
  if (!st) st = clave_session_run(model->session, model->method.name);
  int result = EXIT_GOOD;
  if (records.no_memory) {
    clave_status_free(st);
    result = fail_memory();
  } else if (st) {
    result = fail_status(st);
  }
  if (!result) result = save_records(&records, model, path);
  free_records(&records);
  return result;
}

static int run_on_inputs(const run_arguments *arguments, model *model, input_set *inputs,
                         page *out) {
  TRY_EXIT(read_warm_up(&arguments->model, &model->warm_up));
  TRY_EXIT(open_program(&arguments->model, model));
  TRY_EXIT(collect_inputs(model, arguments->inputs, &arguments->input, inputs));
  TRY_EXIT(open_device(&arguments->model, model));
  if (arguments->profile && arguments->dump) return fail("--profile and --dump exclude each other");
  model->seed = (uint64_t)arguments->seed;
  TRY_EXIT(open_session(model, arguments->profile ? SESSION_PROFILED
                               : arguments->dump  ? SESSION_UNFUSED
                                                  : SESSION_PLAIN));
  TRY_EXIT(set_inputs(inputs, model));
  show_progress("running");
  if (arguments->dump) {
    TRY_EXIT(run_dumped(arguments->dump, model));
  } else {
    TRY_STATUS(clave_session_run(model->session, model->method.name));
  }
  clear_progress();
  note_answer(model);
  if (arguments->profile)
    TRY_STATUS(clave_session_write_profile(model->session, arguments->profile));
  return report_outputs(arguments, model, out);
}

static int run_program(const void *arguments, page *out) {
  model model = {0};
  input_set inputs = {0};
  int result = run_on_inputs(arguments, &model, &inputs, out);
  if (!result) result = print_page(out); /* before kernels are stored in the cache */
  free_inputs(&inputs);
  close_model(&model);
  return result;
}

const command run_command = {
    .name = "run",
    .usage = "run PROG [--inputs I.safetensors] [--input NAME=F.npy] [--outputs O.safetensors] ...",
    .summary = "Runs a program once.",
    .more =
        "clave run model.clv --inputs in.safetensors --outputs out.safetensors\n"
        "clave run model.clv --input x=image.npy --input pos=5 --device cpu\n",
    .flags = run_flags,
    .n_flags = LENGTH(run_flags),
    .arguments_size = sizeof(run_arguments),
    .run = run_program,
};
