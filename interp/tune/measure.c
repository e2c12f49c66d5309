/* Measuring one choice: the node is recorded with each variant; those whose results are right are
 * run in turns, on the session's own stream. On the CPU backend right means the same bits as by
 * rule, where the family promises that; elsewhere what the self-check takes. */
#include "interp/tune/measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "interp/check/self_check.h"
#include "interp/tune/contest.h"

typedef struct candidate {
  recording *r;                                  /* owned; NULL: it cannot run, or is wrong */
  void *state;                                   /* owned: the stream's */
  buffer *scratch, *weights[MAX_PACKED_WEIGHTS]; /* owned */
} candidate;

typedef struct measurement {
  tuner *t;
  const tune_job *j;
  tune_node *n;
  backend *be;
  stream *queue;
  candidate all[MOST_VARIANTS];
  int64_t repeats;     /* runs of one measurement */
  unsigned char *want; /* owned: results by rule */
  size_t want_bytes;
} measurement;

/* ---------------------------------------------------------------- recordings */

static clave_status pack_candidate(measurement *m, candidate *c) {
  for (int i = 0; i < c->r->n_weights; i++) {
    const packed_weight_request *request = &c->r->weights[i];
    if (!request->pack) continue;
    TRY(m->be->vt->buffer_create(m->be, request->bytes, &c->weights[i]));
    TRY(m->be->vt->pack(m->queue, request, m->n->bound, false, c->weights[i]));
  }
  return m->be->vt->buffer_create(m->be, c->r->scratch_bytes, &c->scratch);
}

static bool is_over(tuner *t) {
  bool is_late = t->deadline_ns && clock_ns() >= t->deadline_ns;
  if (is_late || (t->o->cancel && t->o->cancel(t->o->ctx))) t->is_stopped = true;
  return t->is_stopped;
}

/* A build_progress: kernels take seconds. */
static bool goes_on(void *ctx, int done, int total) {
  (void)done;
  (void)total;
  return !is_over(((measurement *)ctx)->t);
}

static clave_status build(measurement *m, candidate *c) {
  const backend_vtable *vt = m->be->vt;
  if (!vt->building) return NULL;
  TRY(vt->building->request(m->queue, c->r));
  TRY(vt->building->build_all(m->queue, goes_on, m));
  return is_over(m->t) ? NULL : vt->building->prepare(m->queue, c->r, &c->state);
}

static clave_status record_variant(measurement *m, const variant_choice *made, int i,
                                   candidate *c) {
  static uint64_t serial;
  variant_choices choices = {.n = 0};
  tuning *forced;
  node nd = m->n->nd;
  TRY(tuning_create(&forced));
  clave_status st = tuning_put(forced, made->family, made->key, made->names[i]);
  choices.first = forced;
  nd.choices = &choices;
  if (!st) st = m->be->vt->record(m->be, &nd, m->t->x->options.fast, &c->r);
  tuning_destroy(forced);
  if (st) return st;
  c->r->serial = UINT64_MAX - __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  TRY(build(m, c));
  return is_over(m->t) ? NULL : pack_candidate(m, c);
}

static void free_candidate(measurement *m, candidate *c) {
  const backend_vtable *vt = m->be->vt;
  if (c->state) vt->state_destroy(m->queue, c->state);
  for (int i = 0; i < MAX_PACKED_WEIGHTS; i++) vt->buffer_destroy(m->be, c->weights[i]);
  vt->buffer_destroy(m->be, c->scratch);
  vt->recording_destroy(m->be, c->r);
  *c = (candidate){0};
}

static run_operands operands_of_run(const measurement *m, const candidate *c) {
  return (run_operands){m->n->bound, c->scratch, c->weights, m->t->s->random};
}

static clave_status run_once(measurement *m, candidate *c) {
  const run_operands o = operands_of_run(m, c);
  return m->be->vt->run(m->queue, c->r, &c->state, &o, 0);
}

static clave_status finish(measurement *m) {
  device_fault fault = {0};
  TRY(m->be->vt->finish(m->queue, &fault));
  return fault.present ? fault_status(&fault.fault) : NULL;
}

/* ---------------------------------------------------------------- results */

static size_t result_bytes(const bound_tensor *b) {
  return (size_t)tune_reach(&b->t) * dtype_size(b->t.type);
}

/* The node's results behind each other, with what lies between their elements. */
static clave_status read_results(measurement *m, unsigned char **out, size_t *bytes) {
  size_t at = 0;
  *bytes = 0;
  for (operand_iter i = operands_of(m->j->instruction); next_operand(&i);)
    if (i.o.flags & IR_OUT) *bytes += result_bytes(&m->n->tensors[i.o.tid]);
  *out = malloc(*bytes + 1);
  if (!*out) return status_no_memory();
  for (operand_iter i = operands_of(m->j->instruction); next_operand(&i);) {
    const bound_tensor *b = &m->n->tensors[i.o.tid];
    size_t n = i.o.flags & IR_OUT ? result_bytes(b) : 0;
    if (n) TRY(m->be->vt->read(m->queue, b->buf, 0, *out + at, n));
    at += n;
  }
  return NULL;
}

static clave_status compare_bits(measurement *m, candidate *c, bool is_base, bool *good) {
  unsigned char *got = NULL;
  size_t bytes = 0;
  clave_status st = run_once(m, c);
  if (!st) st = finish(m);
  if (!st) st = read_results(m, &got, &bytes);
  if (!st && is_base) {
    m->want = got;
    m->want_bytes = bytes;
    *good = true;
    return NULL;
  }
  *good = !st && m->want && bytes == m->want_bytes && memcmp(got, m->want, bytes) == 0;
  free(got);
  return st;
}

static clave_status compare_with_oracle(measurement *m, candidate *c, bool *good) {
  const run_operands o = operands_of_run(m, c);
  text verdict = {0};
  node bound = m->n->nd;
  bound.tensors = m->n->bound;
  clave_status st = check_recording(m->t->s, m->j->backend, &bound, c->r, &c->state, &o, &verdict);
  *good = !st && verdict.size == 0;
  text_free(&verdict);
  return st;
}

/* Custom ops have one variant, and are never here. */
static clave_status check(measurement *m, candidate *c, const variant_choice *made, bool is_base,
                          bool *good) {
  TRY(tune_node_fill(m->t, m->j, m->n));
  return m->be->vt->proof || made->rounds_apart ? compare_with_oracle(m, c, good)
                                                : compare_bits(m, c, is_base, good);
}

/* What a device cannot build or run is no variant of its; what it gets wrong is none either. If
 * that is what the rule takes, perhaps since the data is none for the op, nothing is measured. */
static clave_status add_candidate(measurement *m, const variant_choice *made, int i, bool *good) {
  candidate *c = &m->all[i];
  *good = false;
  clave_status st = record_variant(m, made, i, c);
  if (!st && !m->t->is_stopped) st = check(m, c, made, i == made->by_rule, good);
  if (!*good) free_candidate(m, c);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

static clave_status add_candidates(measurement *m, const variant_choice *made, contest *c,
                                   int *good) {
  bool is_good;
  TRY(add_candidate(m, made, made->by_rule, &is_good));
  *good = is_good;
  for (int i = 0; i < made->n && *good && !m->t->is_stopped; i++) {
    if (i == made->by_rule) continue;
    TRY(add_candidate(m, made, i, &is_good));
    c->is_out[i] = !is_good;
    *good += is_good;
  }
  return NULL;
}

/* ---------------------------------------------------------------- times */

static clave_status time_runs(measurement *m, candidate *c, double *ns) {
  int64_t begin = clock_ns();
  for (int64_t i = 0; i < m->repeats; i++) TRY(run_once(m, c));
  TRY(finish(m));
  *ns = (double)(clock_ns() - begin);
  return NULL;
}

/* As many runs as take about a millisecond, so that a clock and a wait are little beside them. */
static clave_status choose_repeats(measurement *m, candidate *c) {
  enum { NS = 1000000, MOST = 256 };
  double ns;
  m->repeats = 1;
  TRY(time_runs(m, c, &ns)); /* warms up */
  TRY(time_runs(m, c, &ns));
  m->repeats = ns < NS ? (int64_t)(NS / (ns + 1)) + 1 : 1;
  if (m->repeats > MOST) m->repeats = MOST;
  return NULL;
}

/* One of each, another one first each time. */
static clave_status run_round(measurement *m, contest *c) {
  for (int k = 0; k < c->n; k++) {
    int i = (k + c->rounds) % c->n;
    if (!c->is_out[i]) TRY(time_runs(m, &m->all[i], &c->times[i][c->rounds]));
  }
  contest_end_round(c);
  return NULL;
}

static clave_status run_rounds(measurement *m, contest *c) {
  while (!is_over(m->t) && !contest_is_decided(c)) TRY(run_round(m, c));
  return NULL;
}

/* The fastest of many was lucky, too: it has to win again, alone. */
static clave_status find_winner(measurement *m, contest *c, int *winner, double *ratio) {
  int base = c->base;
  TRY(run_rounds(m, c));
  *winner = contest_winner(c, ratio);
  if (m->t->is_stopped || *winner == base) return NULL;
  int first = *winner, n = c->n;
  contest_begin(c, n, base);
  for (int i = 0; i < n; i++) c->is_out[i] = i != base && i != first;
  TRY(run_rounds(m, c));
  *winner = contest_winner(c, ratio);
  return NULL;
}

clave_status tune_measure(tuner *t, const tune_job *j, tune_node *n, const variant_choice *made,
                          int *winner, double *ratio, int *good) {
  measurement *m = calloc(1, sizeof *m);
  contest *c = malloc(sizeof *c);
  *winner = made->by_rule;
  *ratio = 1;
  *good = 0;
  if (!m || !c) {
    free(m);
    free(c);
    return status_no_memory();
  }
  m->t = t;
  m->j = j;
  m->n = n;
  m->be = t->s->devices.backends[j->backend];
  m->queue = t->s->streams[j->backend];
  contest_begin(c, made->n, made->by_rule);
  clave_status st = add_candidates(m, made, c, good);
  if (!st && *good > 1 && !t->is_stopped) st = choose_repeats(m, &m->all[made->by_rule]);
  if (!st && *good > 1 && !t->is_stopped) st = find_winner(m, c, winner, ratio);
  for (int i = 0; i < made->n; i++) free_candidate(m, &m->all[i]);
  free(m->want);
  free(m);
  free(c);
  return st;
}
