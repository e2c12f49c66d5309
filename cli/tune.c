/* clave tune: measures the variants of kernels for a program's sizes on a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/interrupts.h"
#include "cli/progress.h"
#include "cli/tune.h"
#include "cli/tune_table.h"
#include "json/writer.h"

typedef struct tune_arguments {
  model_arguments model;
  const char *inputs, *precision, *exported, *imported;
  text_list input, dims;
  double budget;
  bool again, dry, list, clear, force, json;
} tune_arguments;

#define FIELD(f) offsetof(tune_arguments, f)
static const flag tune_flags[] = {
    {"PROG", FLAG_OPTIONAL, FIELD(model.program), NULL,
     PROGRAM_FILES "; optional with --list, --export, --import or --clear", 0, 0},
    {"--consts", FLAG_PATH, FIELD(model.consts), "FILE",
     "constants of a .json program (default: consts.safetensors beside it)", 0, 0},
    METHOD_FLAG(tune_arguments),
    DEVICE_FLAGS(tune_arguments),
    {"--dim", FLAG_LIST, FIELD(dims), "NAME=N",
     "sets an open size of the inputs (default: the smallest legal size), or the value of an "
     "integer scalar input; repeatable",
     0, 0},
    {"--inputs", FLAG_PATH, FIELD(inputs), "I.safetensors",
     "input tensors, which set the open sizes", 0, 0},
    {"--input", FLAG_INPUTS, FIELD(input), "NAME=F.npy",
     "one input from a file, or literal values; repeatable", 0, 0},
    {"--precision", FLAG_TEXT, FIELD(precision), "P", "strict or fast (default: CLAVE_PRECISION)",
     0, 0},
    {"--budget", FLAG_NUMBER, FIELD(budget), "SECONDS",
     "time limit; the next clave tune continues (default: measures everything)", 0, 1000000},
    {"--again", FLAG_SWITCH, FIELD(again), NULL,
     "measures sizes again that are already in the table", 0, 0},
    {"--dry-run", FLAG_SWITCH, FIELD(dry), NULL, "shows the current choices without measuring", 0,
     0},
    {"--list", FLAG_SWITCH, FIELD(list), NULL, "prints the device's tuning table", 0, 0},
    {"--clear", FLAG_SWITCH, FIELD(clear), NULL, "first removes the device's tuning table", 0, 0},
    {"--import", FLAG_PATH, FIELD(imported), "FILE", "first adds the rows of an exported table", 0,
     0},
    {"--export", FLAG_RENEWED, FIELD(exported), "FILE", "writes the table as JSON at the end",
     FIELD(imported), 0},
    {"--force", FLAG_SWITCH, FIELD(force), NULL,
     "imports a table even if it was measured on another device", 0, 0},
    {"--json", FLAG_SWITCH, FIELD(json), NULL, "machine-readable output", 0, 0},
};

/* A choice that tuning made, for the report. */
typedef struct chosen {
  char *device, *family, *key, *variant, *by_rule; /* owned */
  double ratio;
  uint32_t n_variants;
  clave_tune_how how;
} chosen;

typedef struct tuning_run {
  chosen *items; /* owned */
  size_t n, capacity;
  bool no_memory;
  clave_tune_result result;
  uint32_t imported;
} tuning_run;

static const char *const how_names[] = {"begins", "measured", "known", "rule", "unmeasured"};

static bool keep_event(tuning_run *run, const clave_tune_event *event) {
  if (!array_reserve(&run->items, &run->capacity, run->n + 1, sizeof *run->items)) return false;
  chosen *picked = &run->items[run->n++];
  *picked = (chosen){.device = strdup(event->device),
                     .family = strdup(event->family),
                     .key = strdup(event->key),
                     .variant = strdup(event->variant),
                     .by_rule = strdup(event->by_rule),
                     .ratio = event->ratio,
                     .n_variants = event->n_variants,
                     .how = event->how};
  return picked->device && picked->family && picked->key && picked->variant && picked->by_rule;
}

static bool cli_tune_note_event(void *ctx, const clave_tune_event *event) {
  tuning_run *run = ctx;
  if (event->how == CLAVE_TUNE_BEGINS) {
    show_progress("tuning %u/%u: %s %.80s", event->done + 1, event->total, event->family,
                  event->key);
    return true;
  }
  run->no_memory = !keep_event(run, event);
  return !run->no_memory;
}

static void free_run(tuning_run *run) {
  for (size_t i = 0; i < run->n; i++) {
    free(run->items[i].device);
    free(run->items[i].family);
    free(run->items[i].key);
    free(run->items[i].variant);
    free(run->items[i].by_rule);
  }
  free(run->items);
}

/* ---------------------------------------------------------------- measuring */

static int tune_session(const tune_arguments *arguments, model *model, bool unkept,
                        input_set *inputs, tuning_run *run) {
  const clave_tune_options options = {.size = sizeof options,
                                      .again = arguments->again,
                                      .dry = arguments->dry,
                                      .unkept = unkept,
                                      .budget_s = arguments->budget,
                                      .report = cli_tune_note_event,
                                      .cancel = is_interrupted,
                                      .ctx = run};
  run->result.size = sizeof run->result;
  TRY_EXIT(open_session(model, SESSION_PLAIN));
  TRY_EXIT(prepare_inputs(model, arguments->inputs, &arguments->input, &arguments->dims, inputs));
  TRY_EXIT(set_inputs(inputs, model));
  catch_interrupts();
  clave_status st = clave_session_tune(model->session, model->method.name, &options, &run->result);
  clear_progress();
  if (st) return fail_status(st);
  return run->no_memory ? fail_memory() : EXIT_GOOD;
}

int tune_quietly(model *model, const tune_request *request) {
  input_set inputs = {0};
  tuning_run run = {0};
  const tune_arguments arguments = {.dims = *request->dims, .budget = request->budget};
  int result = tune_session(&arguments, model, request->unkept, &inputs, &run);
  free_run(&run);
  free_inputs(&inputs);
  return result;
}

static int tune_program(const tune_arguments *arguments, model *model, tuning_run *run) {
  input_set inputs = {0};
  int result = open_program(&arguments->model, model);
  if (!result)
    result = tune_session(arguments, model, arguments->exported && !has_cache(), &inputs, run);
  free_inputs(&inputs);
  if (!result && run->result.has_rest)
    print_note(NULL, "ops after a data-dependent size were not tuned");
  if (!result && run->result.done < run->result.total && !arguments->dry)
    print_note(NULL, is_interrupted(NULL)
                         ? "interrupted; the next clave tune continues from here"
                         : "the time limit is reached; the next clave tune continues from here");
  return result;
}

/* ---------------------------------------------------------------- output */

static void write_choices_json(const tuning_run *run, json_writer *writer) {
  emit_array(writer, "choices");
  for (size_t i = 0; i < run->n; i++) {
    const chosen *chosen = &run->items[i];
    emit_record(writer, NULL);
    emit_string(writer, "device", chosen->device);
    emit_string(writer, "family", chosen->family);
    emit_string(writer, "key", chosen->key);
    emit_string(writer, "variant", chosen->variant);
    emit_string(writer, "by_rule", chosen->by_rule);
    emit_string(writer, "how", how_names[chosen->how]);
    emit_decimal(writer, "ratio", chosen->ratio, 3);
    emit_integer(writer, "variants", chosen->n_variants);
    emit_end_object(writer);
  }
  emit_end_array(writer);
}

static void cli_tune_write_json(const model *model, const tuning_run *run, page *out) {
  json_writer writer = {.out = out};
  clave_device_info info = {.size = sizeof info};
  clave_status_free(clave_device_get_info(model->device, &info));
  emit_object(&writer, NULL);
  emit_string(&writer, "device", clave_tuning_device(model->device));
  emit_integer(&writer, "rows", info.n_tuned);
  emit_integer(&writer, "imported", run->imported);
  emit_integer(&writer, "done", run->result.done);
  emit_integer(&writer, "total", run->result.total);
  write_choices_json(run, &writer);
  emit_end_object(&writer);
}

static void cli_tune_write_text(const tuning_run *run, page *out) {
  columns table = {.n_columns = 6, .right = {[4] = true}};
  static const char *const titles[] = {"family", "variant", "by rule", "how", "ratio", "key"};
  for (size_t i = 0; i < LENGTH(titles) && run->n; i++) columns_cell(&table, "%s", titles[i]);
  for (size_t i = 0; i < run->n; i++) {
    const chosen *chosen = &run->items[i];
    columns_cell(&table, "%s", chosen->family);
    columns_cell(&table, "%s", chosen->variant);
    columns_cell(&table, "%s", chosen->by_rule);
    columns_cell(&table, "%s", how_names[chosen->how]);
    columns_cell(&table, "%.2f", chosen->ratio);
    columns_cell(&table, "%s", chosen->key);
  }
  columns_write(&table, 0, out);
  text_printf(out, "%u of %u choices\n", run->result.done, run->result.total);
}

static int export_table(const tune_arguments *arguments, const model *model) {
  page content = {0};
  int result = write_table(model, &content);
  if (!result) result = write_file(arguments->exported, &content);
  text_free(&content);
  return result;
}

static int import_first(const tune_arguments *arguments, model *model, tuning_run *run) {
  if (arguments->clear) TRY_STATUS(clave_tuning_clear(model->device));
  if (!arguments->imported) return EXIT_GOOD;
  TRY_EXIT(import_table(model, arguments->imported, arguments->force, &run->imported));
  if (!arguments->dry) TRY_STATUS(clave_tuning_save(model->device));
  return EXIT_GOOD;
}

static int do_tune(const tune_arguments *arguments, model *model, tuning_run *run, page *out) {
  TRY_EXIT(open_device(&arguments->model, model));
  TRY_EXIT(import_first(arguments, model, run));
  if (arguments->model.program) TRY_EXIT(tune_program(arguments, model, run));
  if (arguments->exported) TRY_EXIT(export_table(arguments, model));
  if (arguments->json && arguments->list) return write_table(model, out);
  if (arguments->json) cli_tune_write_json(model, run, out);
  if (!arguments->json && arguments->model.program) cli_tune_write_text(run, out);
  if (!arguments->json && arguments->list) list_table(model, out);
  if (!arguments->json && arguments->imported)
    text_printf(out, "%u rows imported\n", run->imported);
  return EXIT_GOOD;
}

/* Checks --precision and sets CLAVE_PRECISION, which sessions read. */
static int cli_tune_set_precision(const tune_arguments *arguments) {
  if (!arguments->precision) return EXIT_GOOD;
  if (strcmp(arguments->precision, "strict") != 0 && strcmp(arguments->precision, "fast") != 0)
    return fail_usage("--precision: expected strict or fast, got \"%s\"", arguments->precision);
  return setenv("CLAVE_PRECISION", arguments->precision, 1) ? fail_memory() : EXIT_GOOD;
}

static int tune(const void *given, page *out) {
  const tune_arguments *arguments = given;
  model model = {0};
  tuning_run run = {0};
  if (!arguments->model.program && !arguments->list && !arguments->clear && !arguments->exported &&
      !arguments->imported)
    return fail_usage("tune needs PROG, or --list, --export, --import or --clear");
  TRY_EXIT(cli_tune_set_precision(arguments));
  int result = do_tune(arguments, &model, &run, out);
  free_run(&run);
  close_model(&model);
  return result;
}

const command tune_command = {
    .name = "tune",
    .usage = "tune [PROG] [--device D] [--dim NAME=N]... [--budget SECONDS] [--again] [--json] ...",
    .summary = "Measures and stores the fastest kernels for a program's sizes on a device.",
    .more =
        "The fastest variants are stored in the cache folder (CLAVE_CACHE_DIR); all later runs on\n"
        "the device use them. A variant wins if its results are correct and it is faster than the\n"
        "default choice by more than noise. ratio: its time divided by that of the default\n"
        "choice. Sizes already in the table are not measured again, so an interrupted tune\n"
        "continues where it stopped.\n",
    .flags = tune_flags,
    .n_flags = LENGTH(tune_flags),
    .arguments_size = sizeof(tune_arguments),
    .run = tune,
};
