/* A program rewritten by the passes that no device matters to. Each makes a program anew, which the
 * verifier checks; one that fails, or whose program is refused, leaves the program as it was. */
#include <stdlib.h>
#include <string.h>

#include "interp/interp.h"
#include "interp/passes/passes.h"

enum { MAX_ROUNDS = 4 };

typedef struct optimizer {
  const optimize_options *o;
  pass_env env;
  mem_pool *data; /* bytes of the constants that passes make */
  const program *given;
  program *current; /* NULL: the given one still */
  draft *d;         /* of the current program; NULL: none is made */
  optimize_report *report;
} optimizer;

static const program *current(const optimizer *z) { return z->current ? z->current : z->given; }

static bool is_chosen(const optimize_options *o, const program_pass *pass) {
  bool chosen = !o->passes && !pass->on_request;
  for (uint32_t i = 0; o->passes && i < o->n_passes && !chosen; i++)
    chosen = strcmp(o->passes[i], pass->name) == 0;
  return chosen;
}

static clave_status check_names(const optimize_options *o) {
  for (uint32_t i = 0; i < o->n_passes && o->passes; i++) {
    size_t k = 0;
    while (k < n_program_passes && strcmp(o->passes[i], program_passes[k].name) != 0) k++;
    if (k < n_program_passes) continue;
    text names = {0};
    for (k = 0; k < n_program_passes; k++)
      text_printf(&names, "%s%s", k ? ", " : "", program_passes[k].name);
    clave_status st = text_status(&names);
    if (!st) st = INVALID("there is no pass '%.60s'; there are %s", o->passes[i], names.data);
    text_free(&names);
    return st;
  }
  return NULL;
}

static uint64_t count_nodes(const program *p) {
  uint64_t n = 0;
  for (uint32_t c = 0; c < p->ir.chains.count; c++) n += p->ir.chains.items[c].instructions.count;
  return n;
}

/* The draft becomes the current program, or is given up. */
static clave_status finish_current(optimizer *z) {
  program *made;
  clave_status st = draft_finish(z->d, &made);
  draft_destroy(z->d);
  z->d = NULL;
  if (st) return st;
  program_destroy(z->current);
  z->current = made;
  return NULL;
}

static clave_status run_pass(optimizer *z, const program_pass *pass, uint32_t *applied) {
  if (!z->d) TRY(draft_create(current(z), z->data, &z->d));
  *applied = run_program_pass(pass, z->d, &z->env);
  if (z->d->no_memory) return status_no_memory();
  return *applied ? finish_current(z) : NULL;
}

/* Runs one and notes what it did. An error of memory ends it all, another leaves the program. */
static clave_status try_pass(optimizer *z, size_t k, uint32_t *applied) {
  optimize_row *row = &z->report->rows[k];
  uint64_t before = count_nodes(current(z));
  clave_status st = run_pass(z, &program_passes[k], applied);
  if (status_code_of(st) == STATUS_NO_MEMORY) return st;
  if (st) {
    *applied = 0;
    text_clear(&row->refused);
    text_puts(&row->refused, status_message(st));
    status_free(st);
    return text_status(&row->refused);
  }
  row->applied += *applied;
  row->removed += (int64_t)before - (int64_t)count_nodes(current(z));
  return NULL;
}

static clave_status run_all(optimizer *z) {
  uint32_t found = 1;
  for (int round = 0; found && round < MAX_ROUNDS; round++) {
    found = 0;
    for (size_t k = 0; k < n_program_passes; k++) {
      uint32_t applied = 0;
      if (is_chosen(z->o, &program_passes[k])) TRY(try_pass(z, k, &applied));
      found += applied;
    }
  }
  return NULL;
}

static clave_status optimize(optimizer *z) {
  TRY(check_names(z->o));
  TRY(mem_pool_create(&z->data));
  TRY(run_all(z));
  if (!z->current && !z->d) TRY(draft_create(z->given, z->data, &z->d));
  if (!z->current) TRY(finish_current(z)); /* nothing was rewritten: a copy */
  TRY(program_finish_copy(z->current, z->given));
  z->current->data = z->data;
  z->data = NULL;
  return NULL;
}

static clave_status begin_report(optimize_report *r) {
  *r = (optimize_report){.rows = calloc(n_program_passes, sizeof *r->rows)};
  if (!r->rows) return status_no_memory();
  r->n = (uint32_t)n_program_passes;
  for (uint32_t i = 0; i < r->n; i++) r->rows[i].name = program_passes[i].name;
  return NULL;
}

void optimize_report_free(optimize_report *r) {
  for (uint32_t i = 0; i < r->n; i++) text_free(&r->rows[i].refused);
  free(r->rows);
  *r = (optimize_report){0};
}

clave_status program_optimize(const program *p, const optimize_options *o, program **out,
                              optimize_report *report) {
  optimizer z = {.o = o, .env = {o->evaluate, o->ctx}, .given = p, .report = report};
  *out = NULL;
  TRY(begin_report(report));
  clave_status st = optimize(&z);
  draft_destroy(z.d);
  mem_pool_destroy(z.data);
  if (st) {
    program_destroy(z.current);
    optimize_report_free(report);
    return st;
  }
  *out = z.current;
  return NULL;
}
