/* Rewrites a program with the device-independent passes. Each pass makes a new program, which the
 * verifier checks. If that fails, the previous program is kept. */
#include <stdlib.h>
#include <string.h>

#include "interp/interp.h"
#include "interp/passes/passes.h"

enum { MAX_ROUNDS = 4 };

typedef struct optimizer {
  const optimize_options *options;
  pass_env env;
  mem_pool *data; /* holds the bytes of constants that passes add */
  const program *given;
  program *current; /* NULL while it is still the given program */
  draft *draft;     /* a draft of the current program; NULL if none exists */
  optimize_report *report;
} optimizer;

static const program *current(const optimizer *optimizer) {
  return optimizer->current ? optimizer->current : optimizer->given;
}

static bool is_chosen(const optimize_options *options, const program_pass *pass) {
  bool chosen = !options->passes && !pass->on_request;
  for (uint32_t i = 0; options->passes && i < options->n_passes && !chosen; i++)
    chosen = strcmp(options->passes[i], pass->name) == 0;
  return chosen;
}

static clave_status interp_optimize_check_names(const optimize_options *options) {
  for (uint32_t i = 0; i < options->n_passes && options->passes; i++) {
    size_t k = 0;
    while (k < n_program_passes && strcmp(options->passes[i], program_passes[k].name) != 0) k++;
    if (k < n_program_passes) continue;
    text names = {0};
    for (k = 0; k < n_program_passes; k++)
      text_printf(&names, "%s%s", k ? ", " : "", program_passes[k].name);
    clave_status st = text_status(&names);
    if (!st)
      st = INVALID("unknown pass '%.60s'; the passes are %s", options->passes[i], names.data);
    text_free(&names);
    return st;
  }
  return NULL;
}

static uint64_t interp_optimize_count_nodes(const program *program) {
  uint64_t n = 0;
  for (uint32_t c = 0; c < program->ir.chains.count; c++)
    n += program->ir.chains.items[c].instructions.count;
  return n;
}

/* Makes a program from the draft. It replaces the current program if the verifier accepts it.
 * Always destroys the draft. */
static clave_status finish_current(optimizer *optimizer) {
  program *made;
  clave_status st = draft_finish(optimizer->draft, &made);
  draft_destroy(optimizer->draft);
  optimizer->draft = NULL;
  if (st) return st;
  program_destroy(optimizer->current);
  optimizer->current = made;
  return NULL;
}

static clave_status interp_optimize_run_pass(optimizer *optimizer, const program_pass *pass,
                                             uint32_t *applied) {
  if (!optimizer->draft) TRY(draft_create(current(optimizer), optimizer->data, &optimizer->draft));
  *applied = run_program_pass(pass, optimizer->draft, &optimizer->env);
  if (optimizer->draft->no_memory) return status_no_memory();
  return *applied ? finish_current(optimizer) : NULL;
}

/* Runs one pass and records in the report how often it applied, or why its result was rejected.
 * Fails only if memory runs out. */
static clave_status try_pass(optimizer *optimizer, size_t k, uint32_t *applied) {
  optimize_row *row = &optimizer->report->rows[k];
  uint64_t before = interp_optimize_count_nodes(current(optimizer));
  clave_status st = interp_optimize_run_pass(optimizer, &program_passes[k], applied);
  if (status_code_of(st) == STATUS_NO_MEMORY) return st;
  if (st) {
    *applied = 0;
    text_clear(&row->refused);
    text_puts(&row->refused, status_message(st));
    status_free(st);
    return text_status(&row->refused);
  }
  row->applied += *applied;
  row->removed += (int64_t)before - (int64_t)interp_optimize_count_nodes(current(optimizer));
  return NULL;
}

static clave_status run_chosen_passes(optimizer *optimizer) {
  uint32_t found = 1;
  for (int round = 0; found && round < MAX_ROUNDS; round++) {
    found = 0;
    for (size_t k = 0; k < n_program_passes; k++) {
      uint32_t applied = 0;
      if (is_chosen(optimizer->options, &program_passes[k])) TRY(try_pass(optimizer, k, &applied));
      found += applied;
    }
  }
  return NULL;
}

static clave_status run_optimizer(optimizer *optimizer) {
  TRY(interp_optimize_check_names(optimizer->options));
  TRY(mem_pool_create(&optimizer->data));
  TRY(run_chosen_passes(optimizer));
  if (!optimizer->current && !optimizer->draft)
    TRY(draft_create(optimizer->given, optimizer->data, &optimizer->draft));
  if (!optimizer->current) TRY(finish_current(optimizer)); /* no pass applied: make a copy */
  TRY(program_finish_copy(optimizer->current, optimizer->given));
  optimizer->current->data = optimizer->data;
  optimizer->data = NULL;
  return NULL;
}

static clave_status begin_report(optimize_report *report) {
  *report = (optimize_report){.rows = calloc(n_program_passes, sizeof *report->rows)};
  if (!report->rows) return status_no_memory();
  report->n = (uint32_t)n_program_passes;
  for (uint32_t i = 0; i < report->n; i++) report->rows[i].name = program_passes[i].name;
  return NULL;
}

void optimize_report_free(optimize_report *report) {
  for (uint32_t i = 0; i < report->n; i++) text_free(&report->rows[i].refused);
  free(report->rows);
  *report = (optimize_report){0};
}

clave_status program_optimize(const program *given, const optimize_options *options, program **out,
                              optimize_report *report) {
  optimizer optimizer = {.options = options,
                         .env = {options->evaluate, options->ctx},
                         .given = given,
                         .report = report};
  *out = NULL;
  TRY(begin_report(report));
  clave_status st = run_optimizer(&optimizer);
  draft_destroy(optimizer.draft);
  mem_pool_destroy(optimizer.data);
  if (st) {
    program_destroy(optimizer.current);
    optimize_report_free(report);
    return st;
  }
  *out = optimizer.current;
  return NULL;
}
