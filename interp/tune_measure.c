/* Measuring one choice: the node is recorded with each variant; those whose results are right are
 * run in turns, on the session's own stream. On the CPU backend, whose variants promise it, right
 * means the same bits as by rule; elsewhere what the self-check takes. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "interp/self_check.h"
#include "interp/tune.h"

typedef struct candidate {
  recording *r;                       /* owned; NULL: it cannot run, or is wrong */
  void *state;                        /* owned: the stream's */
  buffer *scratch, *forms[MAX_FORMS]; /* owned */
} candidate;

typedef struct heat {
  tuner *t;
  const tune_job *j;
  tune_node *n;
  backend *be;
  stream *queue;
  candidate all[MOST_VARIANTS];
  int64_t repeats;     /* runs of one measurement */
  unsigned char *want; /* owned: results by rule */
  size_t want_bytes;
} heat;

/* ---------------------------------------------------------------- recordings */

static clave_status fill_form(heat *h, const recording *fill, buffer *to) {
  const run_operands o = {.tensors = h->n->bound, .scratch = to};
  void *state = NULL;
  clave_status st = h->be->vt->run(h->queue, fill, &state, &o, 0);
  device_fault fault;
  if (!st) st = h->be->vt->finish(h->queue, &fault);
  if (state && h->be->vt->state_destroy) h->be->vt->state_destroy(h->queue, state);
  return st;
}

static clave_status make_forms(heat *h, candidate *c) {
  for (int i = 0; i < c->r->n_forms; i++) {
    TRY(h->be->vt->buffer_create(h->be, c->r->forms[i].bytes, &c->forms[i]));
    TRY(fill_form(h, c->r->forms[i].fill, c->forms[i]));
  }
  return h->be->vt->buffer_create(h->be, c->r->scratch_bytes, &c->scratch);
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
  return !is_over(((heat *)ctx)->t);
}

static clave_status build(heat *h, candidate *c) {
  const backend_vtable *vt = h->be->vt;
  if (vt->request) TRY(vt->request(h->queue, c->r));
  if (vt->build_all) TRY(vt->build_all(h->queue, goes_on, h));
  return vt->prepare && !is_over(h->t) ? vt->prepare(h->queue, c->r, &c->state) : NULL;
}

static clave_status record_variant(heat *h, const variant_choice *made, int i, candidate *c) {
  static uint64_t serial;
  variant_choices choices = {.n = 0};
  tuning *forced;
  node nd = h->n->nd;
  TRY(tuning_create(&forced));
  clave_status st = tuning_put(forced, made->family, made->key, made->names[i]);
  choices.first = forced;
  nd.choices = &choices;
  if (!st) st = h->be->vt->record(h->be, &nd, h->t->x->options.fast, &c->r);
  tuning_destroy(forced);
  if (st) return st;
  c->r->serial = UINT64_MAX - __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  TRY(build(h, c));
  return is_over(h->t) ? NULL : make_forms(h, c);
}

static void free_candidate(heat *h, candidate *c) {
  const backend_vtable *vt = h->be->vt;
  if (c->state && vt->state_destroy) vt->state_destroy(h->queue, c->state);
  for (int i = 0; i < MAX_FORMS; i++) vt->buffer_destroy(h->be, c->forms[i]);
  vt->buffer_destroy(h->be, c->scratch);
  vt->recording_destroy(h->be, c->r);
  *c = (candidate){0};
}

static run_operands operands_of_run(const heat *h, const candidate *c) {
  return (run_operands){h->n->bound, c->scratch, c->forms, h->t->s->random};
}

static clave_status run_once(heat *h, candidate *c) {
  const run_operands o = operands_of_run(h, c);
  return h->be->vt->run(h->queue, c->r, &c->state, &o, 0);
}

static clave_status finish(heat *h) {
  device_fault fault = {0};
  TRY(h->be->vt->finish(h->queue, &fault));
  return fault.present ? fault_status(&fault.fault) : NULL;
}

/* ---------------------------------------------------------------- results */

static size_t result_bytes(const bound_tensor *b) {
  return tensor_is_contiguous(&b->t) ? (size_t)tensor_numel(&b->t) * dtype_size(b->t.type) : 0;
}

/* The node's results behind each other; NULL: no memory. */
static clave_status read_results(heat *h, unsigned char **out, size_t *bytes) {
  size_t at = 0;
  *bytes = 0;
  for (operand_iter i = operands_of(h->j->instruction); next_operand(&i);)
    if (i.o.flags & IR_OUT) *bytes += result_bytes(&h->n->tensors[i.o.tid]);
  *out = malloc(*bytes + 1);
  if (!*out) return status_no_memory();
  for (operand_iter i = operands_of(h->j->instruction); next_operand(&i);) {
    const bound_tensor *b = &h->n->tensors[i.o.tid];
    size_t n = i.o.flags & IR_OUT ? result_bytes(b) : 0, first = (size_t)b->t.offset;
    if (n) TRY(h->be->vt->read(h->queue, b->buf, first * dtype_size(b->t.type), *out + at, n));
    at += n;
  }
  return NULL;
}

static clave_status compare_bits(heat *h, candidate *c, bool is_base, bool *good) {
  unsigned char *got = NULL;
  size_t bytes = 0;
  clave_status st = run_once(h, c);
  if (!st) st = finish(h);
  if (!st) st = read_results(h, &got, &bytes);
  if (!st && is_base) {
    h->want = got;
    h->want_bytes = bytes;
    *good = true;
    return NULL;
  }
  *good = !st && h->want && bytes == h->want_bytes && memcmp(got, h->want, bytes) == 0;
  free(got);
  return st;
}

static clave_status compare_with_oracle(heat *h, candidate *c, bool *good) {
  const run_operands o = operands_of_run(h, c);
  text verdict = {0};
  node bound = h->n->nd;
  bound.tensors = h->n->bound;
  clave_status st = check_recording(h->t->s, h->j->backend, &bound, c->r, &c->state, &o, &verdict);
  *good = !st && verdict.size == 0;
  text_free(&verdict);
  return st;
}

/* Custom ops have one variant, and are never here. */
static clave_status check(heat *h, candidate *c, bool is_base, bool *good) {
  TRY(tune_node_fill(h->t, h->j, h->n));
  return h->be->vt->is_unproven ? compare_with_oracle(h, c, good)
                                : compare_bits(h, c, is_base, good);
}

/* What a device cannot build or run is no variant of its; what it gets wrong is none either. If
 * that is what the rule takes, perhaps since the data is none for the op, nothing is measured. */
static clave_status enter(heat *h, const variant_choice *made, int i, bool *good) {
  candidate *c = &h->all[i];
  *good = false;
  clave_status st = record_variant(h, made, i, c);
  if (!st && !h->t->is_stopped) st = check(h, c, i == made->by_rule, good);
  if (!*good) free_candidate(h, c);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

static clave_status enter_all(heat *h, const variant_choice *made, contest *c, int *good) {
  bool is_good;
  TRY(enter(h, made, made->by_rule, &is_good));
  *good = is_good;
  for (int i = 0; i < made->n && *good && !h->t->is_stopped; i++) {
    if (i == made->by_rule) continue;
    TRY(enter(h, made, i, &is_good));
    c->is_out[i] = !is_good;
    *good += is_good;
  }
  return NULL;
}

/* ---------------------------------------------------------------- times */

static clave_status time_runs(heat *h, candidate *c, double *ns) {
  int64_t begin = clock_ns();
  for (int64_t i = 0; i < h->repeats; i++) TRY(run_once(h, c));
  TRY(finish(h));
  *ns = (double)(clock_ns() - begin);
  return NULL;
}

/* As many runs as take about a millisecond, so that a clock and a wait are little beside them. */
static clave_status choose_repeats(heat *h, candidate *c) {
  enum { NS = 1000000, MOST = 256 };
  double ns;
  h->repeats = 1;
  TRY(time_runs(h, c, &ns)); /* warms up */
  TRY(time_runs(h, c, &ns));
  h->repeats = ns < NS ? (int64_t)(NS / (ns + 1)) + 1 : 1;
  if (h->repeats > MOST) h->repeats = MOST;
  return NULL;
}

/* One of each, another one first each time. */
static clave_status run_round(heat *h, contest *c) {
  for (int k = 0; k < c->n; k++) {
    int i = (k + c->rounds) % c->n;
    if (!c->is_out[i]) TRY(time_runs(h, &h->all[i], &c->times[i][c->rounds]));
  }
  contest_end_round(c);
  return NULL;
}

static clave_status hold(heat *h, contest *c) {
  while (!is_over(h->t) && !contest_is_decided(c)) TRY(run_round(h, c));
  return NULL;
}

/* The fastest of many was lucky, too: it has to win again, alone. */
static clave_status hold_both(heat *h, contest *c, int *winner, double *ratio) {
  int base = c->base;
  TRY(hold(h, c));
  *winner = contest_winner(c, ratio);
  if (h->t->is_stopped || *winner == base) return NULL;
  int first = *winner, n = c->n;
  contest_begin(c, n, base);
  for (int i = 0; i < n; i++) c->is_out[i] = i != base && i != first;
  TRY(hold(h, c));
  *winner = contest_winner(c, ratio);
  return NULL;
}

clave_status tune_measure(tuner *t, const tune_job *j, tune_node *n, const variant_choice *made,
                          int *winner, double *ratio, int *good) {
  heat *h = calloc(1, sizeof *h);
  contest *c = malloc(sizeof *c);
  *winner = made->by_rule;
  *ratio = 1;
  *good = 0;
  if (!h || !c) {
    free(h);
    free(c);
    return status_no_memory();
  }
  h->t = t;
  h->j = j;
  h->n = n;
  h->be = t->s->devices.backends[j->backend];
  h->queue = t->s->streams[j->backend];
  contest_begin(c, made->n, made->by_rule);
  clave_status st = enter_all(h, made, c, good);
  if (!st && *good > 1 && !t->is_stopped) st = choose_repeats(h, &h->all[made->by_rule]);
  if (!st && *good > 1 && !t->is_stopped) st = hold_both(h, c, winner, ratio);
  for (int i = 0; i < made->n; i++) free_candidate(h, &h->all[i]);
  free(h->want);
  free(h);
  free(c);
  return st;
}
