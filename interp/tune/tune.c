/* Tunes a method: for each choice of its nodes, measures the variants and stores the winner in the
 * device's table. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "interp/tune/measure.h"
#include "interp/tune/plan.h"

static tuning *tuning_table_of(const tuner *tuner, const tune_job *job) {
  return tuner->session->devices.backends[job->backend]->tuning;
}

static bool choice_is_known(const tuner *tuner, const tune_job *job, const variant_choice *choice) {
  tuning_row row;
  return tuning_table_of(tuner, job) &&
         tuning_find(tuning_table_of(tuner, job), choice->family, choice->key, &row) &&
         strcmp(row.key, choice->key) == 0;
}

static bool report_choice(tuner *tuner, const tune_job *job, const variant_choice *choice,
                          tune_event event) {
  event.device = &tuner->session->devices.backends[job->backend]->info;
  event.family = choice->family;
  event.key = choice->key;
  event.by_rule = choice->names[choice->by_rule];
  event.done = tuner->n_done;
  event.total = tuner->n_seen;
  if (tuner->options->report && !tuner->options->report(tuner->options->ctx, &event))
    tuner->is_stopped = true;
  return !tuner->is_stopped;
}

/* Reports a choice that is not measured because the table has it, or in a dry run. */
static void report_accepted(tuner *tuner, const tune_job *job, const variant_choice *choice,
                            tune_how how) {
  tuner->n_done++;
  (void)report_choice(
      tuner, job, choice,
      (tune_event){
          .variant = choice->names[choice->chosen], .ratio = 1, .how = how, .n = choice->n});
}

static clave_status measure_choice(tuner *tuner, const tune_job *job, tune_node *node,
                                   const variant_choice *choice) {
  int winner, good;
  double ratio;
  tune_event event = {
      .how = TUNE_BEGINS, .variant = choice->names[choice->chosen], .ratio = 1, .n = choice->n};
  if (!report_choice(tuner, job, choice, event)) return NULL;
  TRY(tune_measure(tuner, job, node, choice, &winner, &ratio, &good));
  if (tuner->is_stopped) return NULL;
  event = (tune_event){.how = good ? TUNE_MEASURED : TUNE_UNMEASURED,
                       .variant = choice->names[winner],
                       .ratio = ratio,
                       .n = good};
  tuner->n_done++;
  if (good)
    TRY(tuning_put(tuning_table_of(tuner, job), choice->family, choice->key,
                   choice->names[winner]));
  if (good && tuner->options->keep)
    TRY(tuner->options->keep(tuner->options->ctx, tuner->session->devices.backends[job->backend]));
  (void)report_choice(tuner, job, choice, event);
  return NULL;
}

/* ---------------------------------------------------------------- the choices of a node */

/* Lists the choices of the node as it would be recorded now. */
static clave_status list_choices(tuner *tuner, const tune_job *job, const tune_node *tuned,
                                 variant_choices *out) {
  backend *be = tuner->session->devices.backends[job->backend];
  node nd = tuned->nd;
  recording *recording;
  out->n = 0;
  nd.choices = out;
  TRY(be->vt->record(be, &nd, tuner->executable->options.fast, &recording));
  be->vt->recording_destroy(be, recording);
  return NULL;
}

/* Sets *out to the first choice that is not settled, or -1. Adds choices that earlier ones made. */
static clave_status find_open(tuner *tuner, const variant_choices *choices, int *out) {
  *out = -1;
  for (int i = 0; i < choices->n && *out < 0; i++) {
    if (choices->items[i].n < 2) continue;
    if (!tune_find_seen(tuner, &choices->items[i])) TRY(tune_add_seen(tuner, &choices->items[i]));
    if (!tune_find_seen(tuner, &choices->items[i])->is_settled) *out = i;
  }
  return NULL;
}

static clave_status settle_choice(tuner *tuner, const tune_job *job, tune_node *node,
                                  const variant_choice *choice) {
  if (choice_is_known(tuner, job, choice) && !tuner->options->again) {
    report_accepted(tuner, job, choice, TUNE_KNOWN);
    return NULL;
  }
  if (tuner->options->dry) {
    report_accepted(tuner, job, choice, TUNE_BY_RULE);
    return NULL;
  }
  return measure_choice(tuner, job, node, choice);
}

/* Settles one choice after the other: earlier choices determine which later ones exist. */
static clave_status settle_all(tuner *tuner, const tune_job *job, tune_node *node) {
  variant_choices *choices = calloc(1, sizeof *choices);
  if (!choices) return status_no_memory();
  clave_status st = NULL;
  int i = 0;
  while (!st && i >= 0 && !tuner->is_stopped) {
    st = list_choices(tuner, job, node, choices);
    if (!st) st = find_open(tuner, choices, &i);
    if (st || i < 0) break;
    tune_find_seen(tuner, &choices->items[i])->is_settled = true;
    st = settle_choice(tuner, job, node, &choices->items[i]);
    if (tuner->deadline_ns && clock_ns() >= tuner->deadline_ns) tuner->is_stopped = true;
  }
  free(choices);
  return st;
}

static clave_status settle_job(tuner *tuner, const tune_job *job) {
  tune_node node;
  clave_status st = tune_node_create(tuner, job, &node);
  if (!st) st = settle_all(tuner, job, &node);
  tune_node_destroy(tuner, job, &node);
  return status_while(st, "measuring '%s'", job->instruction->name ? job->instruction->name : "");
}

clave_status session_tune(session *session, uint32_t index, const tune_options *options,
                          tune_result *out) {
  tuner tuner = {.session = session, .options = options};
  *out = (tune_result){0};
  if (options->budget_s > 0) tuner.deadline_ns = clock_ns() + (int64_t)(options->budget_s * 1e9);
  clave_status st = tune_collect(&tuner, index);
  for (const tune_job *j = tuner.jobs; j && !st && !tuner.is_stopped; j = j->next)
    st = settle_job(&tuner, j);
  /* If an earlier choice changes, later choices may no longer exist. These are not counted. */
  *out = (tune_result){.total = tuner.is_stopped ? tuner.n_seen : tuner.n_done,
                       .done = tuner.n_done,
                       .has_rest = tuner.has_rest};
  tune_free(&tuner);
  return status_while(st, "method '%s'", session->prog->ir.methods.items[index].name);
}
