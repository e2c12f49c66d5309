/* clave optimize: a program rewritten by the passes that no device matters to. */
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
     "the program to write, a .clv or .json; without it nothing is written",
     offsetof(optimize_arguments, model.program), 0},
    {"--pass", FLAG_LIST, offsetof(optimize_arguments, passes), "NAME",
     "runs this pass; repeatable, also with the same name, which changes nothing (default: all)", 0,
     0},
};

/* What the passes did, as they tell it. */
typedef struct told {
  columns table;
  page refused;
} told;

static void tell(void *ctx, const clave_pass_info *info) {
  told *t = ctx;
  if (info->refused)
    text_printf(&t->refused, "the result of '%s' was not taken: %s\n", info->name, info->refused);
  if (!info->applied) return;
  if (!t->table.cells.size) {
    columns_cell(&t->table, "pass");
    columns_cell(&t->table, "applied");
    columns_cell(&t->table, "nodes");
  }
  columns_cell(&t->table, "%s", info->name);
  columns_cell(&t->table, "%" PRIu32, info->applied);
  columns_cell(&t->table, "%+" PRId64, -info->removed);
}

typedef struct totals {
  uint64_t nodes, constant_bytes;
} totals;

static int count(const clave_program *p, totals *out) {
  clave_program_info info = {.size = sizeof info};
  TRY_STATUS(clave_program_get_info(p, &info));
  *out = (totals){.constant_bytes = info.constant_bytes};
  for (uint32_t i = 0; i < info.n_methods; i++) {
    clave_method_info m = {.size = sizeof m};
    TRY_STATUS(clave_program_method(p, i, &m));
    out->nodes += m.n_nodes;
  }
  return EXIT_GOOD;
}

static int write_report(const clave_program *before, const clave_program *after, told *t,
                        page *out) {
  totals a, b;
  TRY_EXIT(count(before, &a));
  TRY_EXIT(count(after, &b));
  columns_write(&t->table, 2, out);
  text_append(out, t->refused.data ? t->refused.data : "", t->refused.size);
  text_printf(out, "nodes      %" PRIu64 " -> %" PRIu64 "\nconstants  ", a.nodes, b.nodes);
  page_size(out, a.constant_bytes);
  text_puts(out, " -> ");
  page_size(out, b.constant_bytes);
  text_puts(out, "\n");
  return EXIT_GOOD;
}

static int optimize(const optimize_arguments *a, model *m, told *t, clave_program **made,
                    page *out) {
  clave_optimize_options o = {.size = sizeof o,
                              .passes = a->passes.count ? a->passes.items : NULL,
                              .n_passes = a->passes.count,
                              .report = tell,
                              .report_ctx = t};
  if (a->to) TRY_EXIT(check_program_ending(a->to));
  TRY_EXIT(open_program(&a->model, m));
  show_progress("optimizing %s", a->model.program);
  clave_status st = clave_program_optimize(m->program, &o, made);
  if (!st && a->to) st = clave_program_save(*made, a->to);
  clear_progress();
  if (st) return fail_status(st);
  return write_report(m->program, *made, t, out);
}

static int optimize_program(const void *arguments, page *out) {
  model m = {0};
  told t = {.table = {.n_columns = 3, .right = {false, true, true}}};
  clave_program *made = NULL;
  int result = optimize(arguments, &m, &t, &made, out);
  text_free(&t.refused);
  text_free(&t.table.cells);
  clave_program_destroy(made);
  close_model(&m);
  return result;
}

const command optimize_command = {
    .name = "optimize",
    .usage = "optimize PROG [-o OUT] [--pass NAME]...",
    .summary = "Rewrites a program in fewer instructions; prints what each pass did.",
    .more =
        "A result may differ by the order of a sum, or by a 16-bit rounding that is left "
        "out. What a pass\n"
        "gives is verified; what is refused is not taken. clave.export has run all passes.\n",
    .flags = optimize_flags,
    .n_flags = LENGTH(optimize_flags),
    .arguments_size = sizeof(optimize_arguments),
    .run = optimize_program,
};
