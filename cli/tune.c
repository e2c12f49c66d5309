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
     "a .clv or .json program; may be left out with --list, --export, --import, --clear", 0, 0},
    {"--consts", FLAG_PATH, FIELD(model.consts), "FILE",
     "constants of a .json program (default: consts.safetensors beside it)", 0, 0},
    METHOD_FLAG(tune_arguments),
    DEVICE_FLAGS(tune_arguments),
    {"--dim", FLAG_LIST, FIELD(dims), "NAME=N",
     "an open size of the inputs (default: the smallest legal one); repeatable", 0, 0},
    {"--inputs", FLAG_PATH, FIELD(inputs), "I.safetensors", "inputs, for their sizes", 0, 0},
    {"--input", FLAG_INPUTS, FIELD(input), "NAME=F.npy", "one input, or its numbers; repeatable", 0,
     0},
    {"--precision", FLAG_TEXT, FIELD(precision), "P", "strict or fast (default: CLAVE_PRECISION)",
     0, 0},
    {"--budget", FLAG_NUMBER, FIELD(budget), "SECONDS",
     "ends after so long; the next tune goes on (default: until all is measured)", 0, 1000000},
    {"--again", FLAG_SWITCH, FIELD(again), NULL, "measures what is in the table, too", 0, 0},
    {"--dry-run", FLAG_SWITCH, FIELD(dry), NULL, "shows what is chosen, and measures nothing", 0,
     0},
    {"--list", FLAG_SWITCH, FIELD(list), NULL, "shows the device's table", 0, 0},
    {"--clear", FLAG_SWITCH, FIELD(clear), NULL, "removes it first", 0, 0},
    {"--import", FLAG_PATH, FIELD(imported), "FILE", "adds the rows of a table first", 0, 0},
    {"--export", FLAG_RENEWED, FIELD(exported), "FILE", "writes the table as JSON at the end",
     FIELD(imported), 0},
    {"--force", FLAG_SWITCH, FIELD(force), NULL, "imports another device's, too", 0, 0},
    {"--json", FLAG_SWITCH, FIELD(json), NULL, "for programs", 0, 0},
};

/* What was chosen, for the answer. */
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

static bool keep_event(tuning_run *r, const clave_tune_event *e) {
  if (!array_reserve(&r->items, &r->capacity, r->n + 1, sizeof *r->items)) return false;
  chosen *c = &r->items[r->n++];
  *c = (chosen){.device = strdup(e->device),
                .family = strdup(e->family),
                .key = strdup(e->key),
                .variant = strdup(e->variant),
                .by_rule = strdup(e->by_rule),
                .ratio = e->ratio,
                .n_variants = e->n_variants,
                .how = e->how};
  return c->device && c->family && c->key && c->variant && c->by_rule;
}

static bool take_event(void *ctx, const clave_tune_event *e) {
  tuning_run *r = ctx;
  if (e->how == CLAVE_TUNE_BEGINS) {
    show_progress("tuning %u/%u: %s %.80s", e->done + 1, e->total, e->family, e->key);
    return true;
  }
  r->no_memory = !keep_event(r, e);
  return !r->no_memory;
}

static void free_run(tuning_run *r) {
  for (size_t i = 0; i < r->n; i++) {
    free(r->items[i].device);
    free(r->items[i].family);
    free(r->items[i].key);
    free(r->items[i].variant);
    free(r->items[i].by_rule);
  }
  free(r->items);
}

/* ---------------------------------------------------------------- measuring */

static int tune_session(const tune_arguments *a, model *m, bool unkept, input_set *inputs,
                        tuning_run *r) {
  const clave_tune_options o = {.size = sizeof o,
                                .again = a->again,
                                .dry = a->dry,
                                .unkept = unkept,
                                .budget_s = a->budget,
                                .report = take_event,
                                .cancel = is_interrupted,
                                .ctx = r};
  r->result.size = sizeof r->result;
  TRY_EXIT(open_session(m, SESSION_PLAIN));
  TRY_EXIT(prepare_inputs(m, a->inputs, &a->input, &a->dims, inputs));
  TRY_EXIT(set_inputs(inputs, m));
  catch_interrupts();
  clave_status st = clave_session_tune(m->session, m->method.name, &o, &r->result);
  clear_progress();
  if (st) return fail_status(st);
  return r->no_memory ? fail_memory() : EXIT_GOOD;
}

int tune_quietly(model *m, const tune_request *q) {
  input_set inputs = {0};
  tuning_run r = {0};
  const tune_arguments a = {.dims = *q->dims, .budget = q->budget};
  int result = tune_session(&a, m, q->unkept, &inputs, &r);
  free_run(&r);
  free_inputs(&inputs);
  return result;
}

static int tune_program(const tune_arguments *a, model *m, tuning_run *r) {
  input_set inputs = {0};
  int result = open_program(&a->model, m);
  if (!result) result = tune_session(a, m, a->exported && !has_cache(), &inputs, r);
  free_inputs(&inputs);
  if (!result && r->result.has_rest)
    print_note(NULL, "what comes behind a size that is read from data was not tuned");
  if (!result && r->result.done < r->result.total && !a->dry)
    print_note(NULL, is_interrupted(NULL) ? "interrupted; the next tune goes on"
                                          : "the budget is spent; the next tune goes on");
  return result;
}

/* ---------------------------------------------------------------- the answer */

static void write_choices_json(const tuning_run *r, json_writer *j) {
  emit_array(j, "choices");
  for (size_t i = 0; i < r->n; i++) {
    const chosen *c = &r->items[i];
    emit_record(j, NULL);
    emit_string(j, "device", c->device);
    emit_string(j, "family", c->family);
    emit_string(j, "key", c->key);
    emit_string(j, "variant", c->variant);
    emit_string(j, "by_rule", c->by_rule);
    emit_string(j, "how", how_names[c->how]);
    emit_decimal(j, "ratio", c->ratio, 3);
    emit_integer(j, "variants", c->n_variants);
    emit_end_object(j);
  }
  emit_end_array(j);
}

static void write_json(const model *m, const tuning_run *r, page *out) {
  json_writer j = {.out = out};
  clave_device_info info = {.size = sizeof info};
  clave_status_free(clave_device_get_info(m->device, &info));
  emit_object(&j, NULL);
  emit_string(&j, "device", clave_tuning_device(m->device));
  emit_integer(&j, "rows", info.n_tuned);
  emit_integer(&j, "imported", r->imported);
  emit_integer(&j, "done", r->result.done);
  emit_integer(&j, "total", r->result.total);
  write_choices_json(r, &j);
  emit_end_object(&j);
}

static void write_text(const tuning_run *r, page *out) {
  columns table = {.n_columns = 6, .right = {[4] = true}};
  static const char *const titles[] = {"family", "variant", "by rule", "how", "ratio", "key"};
  for (size_t i = 0; i < LENGTH(titles) && r->n; i++) columns_cell(&table, "%s", titles[i]);
  for (size_t i = 0; i < r->n; i++) {
    const chosen *c = &r->items[i];
    columns_cell(&table, "%s", c->family);
    columns_cell(&table, "%s", c->variant);
    columns_cell(&table, "%s", c->by_rule);
    columns_cell(&table, "%s", how_names[c->how]);
    columns_cell(&table, "%.2f", c->ratio);
    columns_cell(&table, "%s", c->key);
  }
  columns_write(&table, 0, out);
  text_printf(out, "%u of %u choices\n", r->result.done, r->result.total);
}

static int export_table(const tune_arguments *a, const model *m) {
  page content = {0};
  int result = write_table(m, &content);
  if (!result) result = write_file(a->exported, &content);
  text_free(&content);
  return result;
}

static int import_first(const tune_arguments *a, model *m, tuning_run *r) {
  if (a->clear) TRY_STATUS(clave_tuning_clear(m->device));
  if (!a->imported) return EXIT_GOOD;
  TRY_EXIT(import_table(m, a->imported, a->force, &r->imported));
  if (!a->dry) TRY_STATUS(clave_tuning_save(m->device));
  return EXIT_GOOD;
}

static int do_tune(const tune_arguments *a, model *m, tuning_run *r, page *out) {
  TRY_EXIT(open_device(&a->model, m));
  TRY_EXIT(import_first(a, m, r));
  if (a->model.program) TRY_EXIT(tune_program(a, m, r));
  if (a->exported) TRY_EXIT(export_table(a, m));
  if (a->json && a->list) return write_table(m, out);
  if (a->json) write_json(m, r, out);
  if (!a->json && a->model.program) write_text(r, out);
  if (!a->json && a->list) list_table(m, out);
  if (!a->json && a->imported) text_printf(out, "%u rows imported\n", r->imported);
  return EXIT_GOOD;
}

/* As if the environment said so: sessions look there. */
static int read_precision(const tune_arguments *a) {
  if (!a->precision) return EXIT_GOOD;
  if (strcmp(a->precision, "strict") != 0 && strcmp(a->precision, "fast") != 0)
    return fail_usage("--precision takes strict or fast, not \"%s\"", a->precision);
  return setenv("CLAVE_PRECISION", a->precision, 1) ? fail_memory() : EXIT_GOOD;
}

static int tune(const void *arguments, page *out) {
  const tune_arguments *a = arguments;
  model m = {0};
  tuning_run r = {0};
  if (!a->model.program && !a->list && !a->clear && !a->exported && !a->imported)
    return fail_usage("tune needs PROG, or --list, --export, --import or --clear");
  TRY_EXIT(read_precision(a));
  int result = do_tune(a, &m, &r, out);
  free_run(&r);
  close_model(&m);
  return result;
}

const command tune_command = {
    .name = "tune",
    .usage = "tune [PROG] [--device D] [--dim NAME=N]... [--budget SECONDS] [--again] [--json] ...",
    .summary = "Measures which kernels are fastest for a program's sizes on a device.",
    .more =
        "Winners lie in the cache folder (CLAVE_CACHE_DIR) and are used by all runs on the device "
        "from then on.\nA variant wins if its results are right and it is faster than the rule's "
        "by more than noise; ratio: its\ntime to that of the rule's. What is in the table is not "
        "measured again: a tune that was ended goes on.\n",
    .flags = tune_flags,
    .n_flags = LENGTH(tune_flags),
    .arguments_size = sizeof(tune_arguments),
    .run = tune,
};
