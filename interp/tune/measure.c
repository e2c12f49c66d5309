/* Measures one choice. The node is recorded with each variant, and variants with right results run
 * in turns on the session's stream. Results are right if the self-check passes. On the CPU backend,
 * results must instead have the same bits as those of the lowest-cost variant, unless the family's
 * variants round differently. */
#include "interp/tune/measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "interp/check/self_check.h"
#include "interp/tune/contest.h"

typedef struct candidate {
  recording *recording;                          /* owned; NULL: cannot run, or is wrong */
  void *state;                                   /* owned; made by the stream */
  buffer *scratch, *weights[MAX_PACKED_WEIGHTS]; /* owned */
} candidate;

typedef struct measurement {
  tuner *tuner;
  const tune_job *job;
  tune_node *node;
  backend *be;
  stream *queue;
  candidate all[MAX_VARIANTS];
  int64_t repeats;     /* runs per measurement */
  unsigned char *want; /* owned: results of the lowest-cost variant */
  size_t want_bytes;
} measurement;

/* ---------------------------------------------------------------- recordings */

static clave_status pack_candidate(measurement *measurement, candidate *candidate) {
  for (int i = 0; i < candidate->recording->n_weights; i++) {
    const packed_weight_request *request = &candidate->recording->weights[i];
    if (!request->pack) continue;
    TRY(measurement->be->vt->buffer_create(measurement->be, request->bytes,
                                           &candidate->weights[i]));
    TRY(measurement->be->vt->pack(measurement->queue, request, measurement->node->bound, false,
                                  candidate->weights[i]));
  }
  return measurement->be->vt->buffer_create(measurement->be, candidate->recording->scratch_bytes,
                                            &candidate->scratch);
}

static bool is_over(tuner *tuner) {
  bool is_late = tuner->deadline_ns && clock_ns() >= tuner->deadline_ns;
  if (is_late || (tuner->options->cancel && tuner->options->cancel(tuner->options->ctx)))
    tuner->is_stopped = true;
  return tuner->is_stopped;
}

/* A build_progress that lets callbacks and the deadline stop building, which takes seconds. */
static bool tune_measure_may_continue(void *ctx, int done, int total) {
  (void)done;
  (void)total;
  return !is_over(((measurement *)ctx)->tuner);
}

static clave_status tune_measure_build(measurement *measurement, candidate *candidate) {
  const backend_vtable *vt = measurement->be->vt;
  if (!vt->building) return NULL;
  TRY(vt->building->request(measurement->queue, candidate->recording));
  TRY(vt->building->build_all(measurement->queue, tune_measure_may_continue, measurement));
  return is_over(measurement->tuner)
             ? NULL
             : vt->building->prepare(measurement->queue, candidate->recording, &candidate->state);
}

static clave_status record_variant(measurement *measurement, const variant_choice *made, int i,
                                   candidate *candidate) {
  static uint64_t serial;
  variant_choices choices = {.n = 0};
  tuning *forced;
  node nd = measurement->node->nd;
  TRY(tuning_create(&forced));
  clave_status st = tuning_put(forced, made->family, made->key, made->names[i]);
  choices.first = forced;
  nd.choices = &choices;
  if (!st)
    st = measurement->be->vt->record(
        measurement->be, &nd, measurement->tuner->executable->options.fast, &candidate->recording);
  tuning_destroy(forced);
  if (st) return st;
  candidate->recording->serial = UINT64_MAX - __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  TRY(tune_measure_build(measurement, candidate));
  return is_over(measurement->tuner) ? NULL : pack_candidate(measurement, candidate);
}

static void free_candidate(measurement *measurement, candidate *tried) {
  const backend_vtable *vt = measurement->be->vt;
  if (tried->state) vt->state_destroy(measurement->queue, tried->state);
  for (int i = 0; i < MAX_PACKED_WEIGHTS; i++)
    vt->buffer_destroy(measurement->be, tried->weights[i]);
  vt->buffer_destroy(measurement->be, tried->scratch);
  vt->recording_destroy(measurement->be, tried->recording);
  *tried = (candidate){0};
}

static run_operands operands_of_run(const measurement *measurement, const candidate *candidate) {
  return (run_operands){measurement->node->bound, candidate->scratch, candidate->weights,
                        measurement->tuner->session->random};
}

static clave_status tune_measure_run_once(measurement *measurement, candidate *candidate) {
  const run_operands operands = operands_of_run(measurement, candidate);
  return measurement->be->vt->run(measurement->queue, candidate->recording, &candidate->state,
                                  &operands, 0);
}

static clave_status tune_measure_finish(measurement *measurement) {
  device_fault fault = {0};
  TRY(measurement->be->vt->finish(measurement->queue, &fault));
  return fault.present ? fault_status(&fault.fault) : NULL;
}

/* ---------------------------------------------------------------- results */

static size_t result_bytes(const bound_tensor *tensor) {
  return (size_t)tune_span(&tensor->tensor) * dtype_size(tensor->tensor.type);
}

/* Reads the node's results, one after the other, including gaps between elements. */
static clave_status read_results(measurement *measurement, unsigned char **out, size_t *bytes) {
  size_t at = 0;
  *bytes = 0;
  for (operand_iter i = operands_of(measurement->job->instruction); next_operand(&i);)
    if (i.operand.flags & IR_OUT)
      *bytes += result_bytes(&measurement->node->tensors[i.operand.tid]);
  *out = malloc(*bytes + 1);
  if (!*out) return status_no_memory();
  for (operand_iter i = operands_of(measurement->job->instruction); next_operand(&i);) {
    const bound_tensor *tensor = &measurement->node->tensors[i.operand.tid];
    size_t n = i.operand.flags & IR_OUT ? result_bytes(tensor) : 0;
    if (n) TRY(measurement->be->vt->read(measurement->queue, tensor->buf, 0, *out + at, n));
    at += n;
  }
  return NULL;
}

static clave_status compare_bits(measurement *measurement, candidate *candidate, bool is_base,
                                 bool *good) {
  unsigned char *got = NULL;
  size_t bytes = 0;
  clave_status st = tune_measure_run_once(measurement, candidate);
  if (!st) st = tune_measure_finish(measurement);
  if (!st) st = read_results(measurement, &got, &bytes);
  if (!st && is_base) {
    measurement->want = got;
    measurement->want_bytes = bytes;
    *good = true;
    return NULL;
  }
  *good = !st && measurement->want && bytes == measurement->want_bytes &&
          memcmp(got, measurement->want, bytes) == 0;
  free(got);
  return st;
}

static clave_status compare_with_oracle(measurement *measurement, candidate *candidate,
                                        bool *good) {
  const run_operands operands = operands_of_run(measurement, candidate);
  text verdict = {0};
  node bound = measurement->node->nd;
  bound.tensors = measurement->node->bound;
  clave_status st = check_recording(measurement->tuner->session, measurement->job->backend, &bound,
                                    candidate->recording, &candidate->state, &operands, &verdict);
  *good = !st && verdict.size == 0;
  text_free(&verdict);
  return st;
}

/* Sets *good if the candidate computes right results. Custom ops have only one variant and are not
 * measured. */
static clave_status check(measurement *measurement, candidate *candidate,
                          const variant_choice *made, bool is_base, bool *good) {
  TRY(tune_node_fill(measurement->tuner, measurement->job, measurement->node));
  return measurement->be->vt->proof || made->changes_rounding
             ? compare_with_oracle(measurement, candidate, good)
             : compare_bits(measurement, candidate, is_base, good);
}

/* Adds a variant unless the device cannot build or run it, or it computes wrong results. Nothing is
 * measured if the lowest-cost variant is not added, perhaps because the data are invalid. */
static clave_status add_candidate(measurement *measurement, const variant_choice *made, int i,
                                  bool *good) {
  candidate *candidate = &measurement->all[i];
  *good = false;
  clave_status st = record_variant(measurement, made, i, candidate);
  if (!st && !measurement->tuner->is_stopped)
    st = check(measurement, candidate, made, i == made->by_rule, good);
  if (!*good) free_candidate(measurement, candidate);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

static clave_status add_candidates(measurement *measurement, const variant_choice *made,
                                   contest *contest, int *good) {
  bool is_good;
  TRY(add_candidate(measurement, made, made->by_rule, &is_good));
  *good = is_good;
  for (int i = 0; i < made->n && *good && !measurement->tuner->is_stopped; i++) {
    if (i == made->by_rule) continue;
    TRY(add_candidate(measurement, made, i, &is_good));
    contest->is_out[i] = !is_good;
    *good += is_good;
  }
  return NULL;
}

/* ---------------------------------------------------------------- times */

static clave_status tune_measure_time_runs(measurement *measurement, candidate *candidate,
                                           double *ns) {
  int64_t begin = clock_ns();
  for (int64_t i = 0; i < measurement->repeats; i++)
    TRY(tune_measure_run_once(measurement, candidate));
  TRY(tune_measure_finish(measurement));
  *ns = (double)(clock_ns() - begin);
  return NULL;
}

/* Chooses the runs per measurement so that they take about a millisecond, because reading the clock
 * and waiting take time, too. */
static clave_status choose_repeats(measurement *measurement, candidate *candidate) {
  enum { NS = 1000000, MOST = 256 };
  double ns;
  measurement->repeats = 1;
  TRY(tune_measure_time_runs(measurement, candidate, &ns)); /* warm-up */
  TRY(tune_measure_time_runs(measurement, candidate, &ns));
  measurement->repeats = ns < NS ? (int64_t)(NS / (ns + 1)) + 1 : 1;
  if (measurement->repeats > MOST) measurement->repeats = MOST;
  return NULL;
}

/* Measures each variant once; every round starts with a different variant. */
static clave_status run_round(measurement *measurement, contest *contest) {
  for (int k = 0; k < contest->n; k++) {
    int i = (k + contest->rounds) % contest->n;
    if (!contest->is_out[i])
      TRY(tune_measure_time_runs(measurement, &measurement->all[i],
                                 &contest->times[i][contest->rounds]));
  }
  contest_end_round(contest);
  return NULL;
}

static clave_status run_rounds(measurement *measurement, contest *contest) {
  while (!is_over(measurement->tuner) && !contest_is_decided(contest))
    TRY(run_round(measurement, contest));
  return NULL;
}

/* Finds the winner, and compares it with the base once more, because it may have won by chance. */
static clave_status find_winner(measurement *measurement, contest *contest, int *winner,
                                double *ratio) {
  int base = contest->base;
  TRY(run_rounds(measurement, contest));
  *winner = contest_winner(contest, ratio);
  if (measurement->tuner->is_stopped || *winner == base) return NULL;
  int first = *winner, n = contest->n;
  contest_begin(contest, n, base);
  for (int i = 0; i < n; i++) contest->is_out[i] = i != base && i != first;
  TRY(run_rounds(measurement, contest));
  *winner = contest_winner(contest, ratio);
  return NULL;
}

clave_status tune_measure(tuner *tuner, const tune_job *job, tune_node *node,
                          const variant_choice *made, int *winner, double *ratio, int *good) {
  measurement *measurement = calloc(1, sizeof *measurement);
  contest *contest = malloc(sizeof *contest);
  *winner = made->by_rule;
  *ratio = 1;
  *good = 0;
  if (!measurement || !contest) {
    free(measurement);
    free(contest);
    return status_no_memory();
  }
  measurement->tuner = tuner;
  measurement->job = job;
  measurement->node = node;
  measurement->be = tuner->session->devices.backends[job->backend];
  measurement->queue = tuner->session->streams[job->backend];
  contest_begin(contest, made->n, made->by_rule);
  clave_status st = add_candidates(measurement, made, contest, good);
  if (!st && *good > 1 && !tuner->is_stopped)
    st = choose_repeats(measurement, &measurement->all[made->by_rule]);
  if (!st && *good > 1 && !tuner->is_stopped) st = find_winner(measurement, contest, winner, ratio);
  for (int i = 0; i < made->n; i++) free_candidate(measurement, &measurement->all[i]);
  free(measurement->want);
  free(measurement);
  free(contest);
  return st;
}
