/* clave run: one run of a program on given inputs. */
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
     "inputs by the program's names, or input_0... by position", 0, 0},
    {"--input", FLAG_INPUTS, offsetof(run_arguments, input), "NAME=F.npy",
     "one input; or its numbers: NAME=5, NAME=1,2,3, NAME=[[1,2],[3,4]]; repeatable, wins over "
     "--inputs",
     0, 0},
    {"--outputs", FLAG_WRITTEN, offsetof(run_arguments, outputs), "O.safetensors",
     "writes output_0...; without it a summary is printed", 0, 0},
    METHOD_FLAG(run_arguments),
    DEVICE_FLAGS(run_arguments),
    WARM_UP_FLAG(run_arguments),
    {"--profile", FLAG_WRITTEN, offsetof(run_arguments, profile), "T.json",
     "writes the time of every op, for Perfetto or chrome://tracing", 0, 0},
    {"--dump", FLAG_WRITTEN, offsetof(run_arguments, dump), "D.safetensors",
     "writes what every op gave, by node name; runs each op by itself", 0, 0},
    {"--seed", FLAG_INT, offsetof(run_arguments, seed), "N", "of random ops (default: 0)", 0,
     INT64_MAX},
    {"--json", FLAG_SWITCH, offsetof(run_arguments, json), NULL, "the summary for programs", 0, 0},
};

enum { FIRST_VALUES = 8 };

typedef struct output {
  clave_tensor_info info;
  clave_tensor value;
} output;

static int get_outputs(const model *m, output *list) {
  for (uint32_t i = 0; i < m->method.n_outputs; i++) {
    list[i].info.size = sizeof list[i].info;
    TRY_STATUS(clave_program_output(m->program, m->method.name, i, &list[i].info));
    TRY_STATUS(clave_session_output(m->session, m->method.name, i, &list[i].value));
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the output file */

/* What clave_tensors_save takes. */
typedef struct output_file {
  char (*keys)[24]; /* "output_0" */
  const char **names;
  clave_tensor *values;
  const char **metadata; /* output_i, the program's name of it */
} output_file;

static int save_outputs(const char *path, const output *list, uint32_t count,
                        const output_file *f) {
  for (uint32_t i = 0; i < count; i++) {
    (void)snprintf(f->keys[i], sizeof f->keys[i], "output_%" PRIu32, i);
    f->names[i] = f->metadata[(size_t)2 * i] = f->keys[i];
    f->metadata[(size_t)2 * i + 1] = list[i].info.name;
    f->values[i] = list[i].value;
  }
  TRY_STATUS(clave_tensors_save(path, f->names, f->values, count, f->metadata, count));
  return EXIT_GOOD;
}

static int write_outputs(const char *path, const output *list, uint32_t count) {
  size_t n = count ? count : 1;
  output_file f = {.keys = calloc(n, sizeof *f.keys),
                   .names = calloc(n, sizeof *f.names),
                   .values = calloc(n, sizeof *f.values),
                   .metadata = calloc(n, 2 * sizeof *f.metadata)};
  bool good = f.keys && f.names && f.values && f.metadata;
  int result = good ? save_outputs(path, list, count, &f) : fail_memory();
  free(f.keys);
  free(f.names);
  free(f.values);
  free(f.metadata);
  return result;
}

/* ---------------------------------------------------------------- the summary */

static void write_first_values(page *cell, const clave_tensor *t, uint64_t count) {
  text_puts(cell, t->rank ? "[" : "");
  for (uint64_t i = 0; i < count && i < FIRST_VALUES; i++) {
    if (i) text_puts(cell, ", ");
    page_element(cell, t->dtype, element_at(t, i), 6);
  }
  if (count > FIRST_VALUES) text_puts(cell, ", ...");
  text_puts(cell, t->rank ? "]" : "");
}

static void write_summary_row(columns *table, const output *o, page *cell) {
  tensor_summary s = summarise_tensor(&o->value);
  cell->size = 0;
  page_visible(cell, o->info.name);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  cell->size = 0;
  page_shape(cell, &o->value);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  if (s.count == s.n_nan) {
    for (int i = 0; i < 3; i++) columns_cell(table, "%s", s.count ? "nan" : "-");
  } else {
    columns_cell(table, "%.6g", s.min);
    columns_cell(table, "%.6g", s.mean);
    columns_cell(table, "%.6g", s.max);
  }
  cell->size = 0;
  write_first_values(cell, &o->value, s.count);
  if (s.n_nan) text_printf(cell, " (%" PRIu64 " nan)", s.n_nan);
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
  json_writer j = {.out = out};
  emit_array(&j, NULL);
  for (uint32_t i = 0; i < count; i++) {
    const clave_tensor *t = &list[i].value;
    tensor_summary s = summarise_tensor(t);
    emit_object(&j, NULL);
    emit_string(&j, "name", list[i].info.name);
    emit_string(&j, "dtype", clave_dtype_name(t->dtype));
    emit_list(&j, "shape");
    for (int k = 0; k < t->rank; k++) emit_integer(&j, NULL, t->dims[k]);
    emit_end_array(&j);
    emit_number(&j, "min", s.min);
    emit_number(&j, "mean", s.mean);
    emit_number(&j, "max", s.max);
    emit_size(&j, "nan", s.n_nan);
    emit_list(&j, "first");
    for (uint64_t k = 0; k < s.count && k < FIRST_VALUES; k++) {
      emit_element(&j, NULL, t->dtype, element_at(t, k));
    }
    emit_end_array(&j);
    emit_end_object(&j);
  }
  emit_end_array(&j);
}

/* ---------------------------------------------------------------- the command */

static int report_outputs(const run_arguments *a, const model *m, page *out) {
  uint32_t count = m->method.n_outputs;
  output *list = calloc(count ? count : 1, sizeof *list);
  if (!list) return fail_memory();
  int result = get_outputs(m, list);
  if (!result && a->outputs) {
    result = write_outputs(a->outputs, list, count);
  } else if (!result) {
    (a->json ? write_summary_json : write_summary)(list, count, out);
  }
  free(list);
  return result;
}

/* Ops that view other tensors write nothing and are not in the file. */
static int run_dumped(const char *path, const model *m) {
  records r = {0};
  clave_status st = clave_session_observe(m->session, keep_record, &r);
  if (!st) st = clave_session_run(m->session, m->method.name);
  int result = EXIT_GOOD;
  if (r.no_memory) {
    clave_status_free(st);
    result = fail_memory();
  } else if (st) {
    result = fail_status(st);
  }
  if (!result) result = save_records(&r, m, path);
  free_records(&r);
  return result;
}

static int run_on_inputs(const run_arguments *a, model *m, input_set *inputs, page *out) {
  TRY_EXIT(read_warm_up(&a->model, &m->warm_up));
  TRY_EXIT(open_program(&a->model, m));
  TRY_EXIT(collect_inputs(m, a->inputs, &a->input, inputs));
  TRY_EXIT(open_device(&a->model, m));
  if (a->profile && a->dump) return fail("--profile and --dump do not go together");
  m->seed = (uint64_t)a->seed;
  TRY_EXIT(open_session(m, a->profile ? SESSION_PROFILED
                           : a->dump  ? SESSION_UNFUSED
                                      : SESSION_PLAIN));
  TRY_EXIT(set_inputs(inputs, m));
  show_progress("running");
  if (a->dump) {
    TRY_EXIT(run_dumped(a->dump, m));
  } else {
    TRY_STATUS(clave_session_run(m->session, m->method.name));
  }
  clear_progress();
  note_answer(m);
  if (a->profile) TRY_STATUS(clave_session_write_profile(m->session, a->profile));
  return report_outputs(a, m, out);
}

static int run_program(const void *arguments, page *out) {
  model m = {0};
  input_set inputs = {0};
  int result = run_on_inputs(arguments, &m, &inputs, out);
  if (!result) result = print_page(out); /* kernels are kept when the session ends */
  free_inputs(&inputs);
  close_model(&m);
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
