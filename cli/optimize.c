/* clave optimize: rewrites a program by the passes that do not depend on a device. */
#include <inttypes.h>
#include <string.h>

#include "clave_builder.h"
#include "cli/model.h"
#include "cli/progress.h"

typedef struct optimize_arguments {
  model_arguments model;
  const char *to;
  text_list passes;
} optimize_arguments;

static const flag optimize_flags[] = {
    PROGRAM_FLAGS(optimize_arguments),
    {"-o", FLAG_RENEWED, offsetof(optimize_arguments, to), "OUT",
     "the program to write, a .clv or .json (default: writes nothing)",
     offsetof(optimize_arguments, model.program), 0},
    {"--pass", FLAG_LIST, offsetof(optimize_arguments, passes), "NAME",
     "runs only this pass; repeatable, a repeated name has no effect (default: all passes)", 0, 0},
};

/* The reports of the passes. */
typedef struct pass_report {
  columns table;
  page refused;
} pass_report;

static void cli_optimize_note_pass(void *ctx, const clave_pass_info *info) {
  pass_report *pass_report = ctx;
  if (info->refused)
    text_printf(&pass_report->refused, "the result of the pass '%s' was discarded: %s\n",
                info->name, info->refused);
  if (!info->applied) return;
  if (!pass_report->table.cells.size) {
    columns_cell(&pass_report->table, "pass");
    columns_cell(&pass_report->table, "applied");
    columns_cell(&pass_report->table, "nodes");
  }
  columns_cell(&pass_report->table, "%s", info->name);
  columns_cell(&pass_report->table, "%" PRIu32, info->applied);
  columns_cell(&pass_report->table, "%+" PRId64, -info->removed);
}

typedef struct totals {
  uint64_t nodes, constant_bytes;
} totals;

static int cli_optimize_count(const clave_program *program, totals *out) {
  clave_program_info info = {.size = sizeof info};
  TRY_STATUS(clave_program_get_info(program, &info));
  *out = (totals){.constant_bytes = info.constant_bytes};
  for (uint32_t i = 0; i < info.n_methods; i++) {
    clave_method_info method_info = {.size = sizeof method_info};
    TRY_STATUS(clave_program_method(program, i, &method_info));
    out->nodes += method_info.n_nodes;
  }
  return EXIT_GOOD;
}

static int write_report(const clave_program *before, const clave_program *after,
                        pass_report *pass_report, page *out) {
  totals old, new;
  TRY_EXIT(cli_optimize_count(before, &old));
  TRY_EXIT(cli_optimize_count(after, &new));
  columns_write(&pass_report->table, 2, out);
  text_append(out, pass_report->refused.data ? pass_report->refused.data : "",
              pass_report->refused.size);
  text_printf(out, "nodes      %" PRIu64 " -> %" PRIu64 "\nconstants  ", old.nodes, new.nodes);
  page_size(out, old.constant_bytes);
  text_puts(out, " -> ");
  page_size(out, new.constant_bytes);
  text_puts(out, "\n");
  return EXIT_GOOD;
}

static int cli_optimize(const optimize_arguments *arguments, model *model, pass_report *pass_report,
                        clave_program **made, page *out) {
  clave_optimize_options options = {
      .size = sizeof options,
      .passes = arguments->passes.count ? arguments->passes.items : NULL,
      .n_passes = arguments->passes.count,
      .report = cli_optimize_note_pass,
      .report_ctx = pass_report};
  if (arguments->to) TRY_EXIT(check_program_ending(arguments->to));
  TRY_EXIT(open_program(&arguments->model, model));
  show_progress("optimizing %s", arguments->model.program);
  clave_status st = clave_program_optimize(model->program, &options, made);
  if (!st && arguments->to) st = clave_program_save(*made, arguments->to);
  clear_progress();
  if (st) return fail_status(st);
  return write_report(model->program, *made, pass_report, out);
}

static int optimize_program(const void *arguments, page *out) {
  model model = {0};
  pass_report pass_report = {.table = {.n_columns = 3, .right = {false, true, true}}};
  clave_program *made = NULL;
  int result = cli_optimize(arguments, &model, &pass_report, &made, out);
  text_free(&pass_report.refused);
  text_free(&pass_report.table.cells);
  clave_program_destroy(made);
  close_model(&model);
  return result;
}

const command optimize_command = {
    .name = "optimize",
    .usage = "optimize PROG [-o OUT] [--pass NAME]...",
    .summary = "Optimises a program's graph, and prints what each pass changed.",
    .more =
        "Results may differ because a sum has another order or a 16-bit rounding is omitted. The\n"
        "output of each pass is verified, and discarded if it fails. clave.export already runs\n"
        "all passes.\n",
    .flags = optimize_flags,
    .n_flags = LENGTH(optimize_flags),
    .arguments_size = sizeof(optimize_arguments),
    .run = optimize_program,
};
