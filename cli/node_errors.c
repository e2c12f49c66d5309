/* Errors node by node. The CPU backend runs once more with the other run's values in the place of
 * its own, so that each node computes from the same operands as the other run's: what differs then
 * was made there. Runs on moved operands measure what rounding may do (bounds.h): to one node, with
 * those values moved, and to the whole, where each node moves what it gives and nothing is forced.
 */
#include "cli/node_errors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

enum { OF_ONE_NODE = 2, OF_ALL = 3 }; /* factors of the reach */

/* ---------------------------------------------------------------- terms of a sum */

typedef enum terms_rule {
  TERMS_ONE,
  TERMS_LAST,   /* the last dimension of the first operand */
  TERMS_FILTER, /* the elements of the second, over its first dimension */
  TERMS_RATIO,  /* the elements of the first, over those of the result */
  TERMS_ALL     /* the elements of the first */
} terms_rule;

/* Of others: the longest dimension of what they read. */
static const struct {
  const char *op;
  terms_rule rule;
} rules[] = {
    {"elementwise", TERMS_ONE},
    {"copy", TERMS_ONE},
    {"cat", TERMS_ONE},
    {"pad", TERMS_ONE},
    {"triangle", TERMS_ONE},
    {"arange", TERMS_ONE},
    {"full", TERMS_ONE},
    {"batch_norm", TERMS_ONE},
    {"rope", TERMS_ONE},
    {"index_select", TERMS_ONE},
    {"gather", TERMS_ONE},
    {"index", TERMS_ONE},
    {"slice_update", TERMS_ONE},
    {"index_copy", TERMS_ONE},
    {"bitcast", TERMS_ONE},
    {"dequantize", TERMS_ONE},
    {"matmul", TERMS_LAST},
    {"grouped_matmul", TERMS_LAST},
    {"conv", TERMS_FILTER},
    {"reduce", TERMS_RATIO},
    {"adaptive_pool", TERMS_RATIO},
    {"conv_transpose", TERMS_ALL},
    {"group_norm", TERMS_ALL},
    {"linalg", TERMS_ALL},
};

uint32_t find_viewed(const graph *g, uint32_t slot) {
  for (uint32_t i = g->n_nodes; i-- > 0;) {
    const graph_node *n = &g->nodes[i];
    if (n->is_view && n->n_reads && n->n_writes && *node_writes(n) == slot) slot = n->slots[0];
  }
  return slot;
}

size_t find_written(const records *base, size_t at, uint32_t slot) {
  while (at-- > 0)
    if (base->items[at].slot == slot) return at;
  return SIZE_MAX;
}

static size_t first_output(const run_pair *p) { return p->base->count - p->n_others; }

/* The elements of a slot and its dimensions, as far as they are known. */
static double count_slot(const run_pair *p, size_t at, uint32_t slot, double *dims) {
  const clave_tensor_info *info = &p->g->slots[slot];
  const size_t from = find_written(p->base, at, slot);
  double count = 1;
  for (int i = 0; i < info->rank; i++) {
    int64_t dim = info->dims[i];
    if (dim == CLAVE_DYNAMIC && from != SIZE_MAX) dim = p->base->items[from].value.dims[i];
    if (dim == CLAVE_DYNAMIC) dim = info->max_dims[i] == INT64_MAX ? 1 : info->max_dims[i];
    dims[i] = (double)dim;
    count *= dims[i];
  }
  return count;
}

static double longest_dim(const run_pair *p, size_t at, const graph_node *n) {
  double dims[CLAVE_MAX_RANK], longest = 1;
  for (uint32_t k = 0; k < n->n_reads; k++) {
    (void)count_slot(p, at, n->slots[k], dims);
    for (int i = 0; i < p->g->slots[n->slots[k]].rank; i++) longest = fmax(longest, dims[i]);
  }
  return longest;
}

static double count_by(const run_pair *p, size_t at, const graph_node *n, terms_rule rule) {
  double dims[CLAVE_MAX_RANK] = {1};
  const uint32_t operand = rule == TERMS_FILTER && n->n_reads > 1 ? 1 : 0;
  if (rule == TERMS_ONE || !n->n_reads) return 1;
  const double count = count_slot(p, at, n->slots[operand], dims);
  const int rank = p->g->slots[n->slots[operand]].rank;
  if (rule == TERMS_LAST) return rank ? dims[rank - 1] : 1;
  if (rule == TERMS_FILTER) return count / fmax(dims[0], 1);
  if (rule == TERMS_RATIO)
    return count / fmax((double)count_elements(&p->base->items[at].value), 1);
  return count;
}

/* Those of what wrote it. */
static double terms_of_output(const run_pair *p, size_t at) {
  const size_t from =
      find_written(p->base, first_output(p), find_viewed(p->g, p->base->items[at].slot));
  return from == SIZE_MAX ? 1 : p->errors[from].terms;
}

static double count_terms(const run_pair *p, size_t at) {
  const uint32_t node = p->base->items[at].node;
  if (node >= p->g->n_nodes) return terms_of_output(p, at);
  const graph_node *n = &p->g->nodes[node];
  for (size_t i = 0; i < LENGTH(rules); i++)
    if (strcmp(rules[i].op, n->op) == 0) return fmax(count_by(p, at, n, rules[i].rule), 1);
  return longest_dim(p, at, n);
}

/* ---------------------------------------------------------------- both runs */

static difference compare_pair(const run_pair *p, size_t i, const clave_tensor *base,
                               const reach *r, double terms, double factor) {
  return p->subject_is_right ? compare_tensors(base, p->subject[i], r, terms, factor)
                             : compare_tensors(p->subject[i], base, r, terms, factor);
}

/* reaches: by record, or NULL. */
static void compare_runs(run_pair *p, const reach *reaches) {
  for (size_t i = 0; i < p->base->count; i++) {
    if (p->errors[i].verdict != NODE_UNMATCHED && p->errors[i].verdict != NODE_OTHER_FORM)
      p->errors[i].total = compare_pair(p, i, &p->base->items[i].value,
                                        reaches ? &reaches[i] : NULL, p->errors[i].terms, OF_ALL);
  }
  for (uint32_t k = 0; k < p->n_others; k++) {
    const size_t i = first_output(p) + k;
    const clave_tensor *right = p->subject_is_right ? p->subject[i] : &p->base->items[i].value;
    if (right && p->others[k].data && same_form(&p->others[k], right))
      p->other_errors[k] = compare_tensors(&p->others[k], right, reaches ? &reaches[i] : NULL,
                                           p->errors[i].terms, OF_ALL);
  }
}

static bool all_alike(const run_pair *p) {
  bool alike = true;
  for (size_t i = 0; i < p->base->count; i++) alike = alike && p->errors[i].total.largest == 0;
  for (uint32_t k = 0; k < p->n_others; k++) alike = alike && p->other_errors[k].largest == 0;
  return alike;
}

static void find_inputs_error(run_pair *p, size_t at) {
  const record *r = &p->base->items[at];
  if (r->node >= p->g->n_nodes) return;
  const graph_node *n = &p->g->nodes[r->node];
  for (uint32_t k = 0; k < n->n_reads; k++) {
    const size_t from = find_written(p->base, at, find_viewed(p->g, n->slots[k]));
    if (from == SIZE_MAX) continue;
    const double by = p->errors[from].total.largest;
    if (by > p->errors[at].inputs_error) p->errors[at].inputs_error = by;
  }
}

/* ---------------------------------------------------------------- what rounding does */

/* Runs twice on moved values; how far each record is from where `from` has it. */
static int measure_reach(const run_pair *p, run_edit e, const records *from, reach *reaches) {
  for (int opposite = 0; opposite < 2; opposite++) {
    records moved = {0};
    size_t apart;
    e.opposite = opposite != 0;
    int result = run_nodes(p->cpu, p->inputs, &e, &moved, &apart);
    for (size_t i = 0; !result && i < from->count && i < moved.count && i < apart; i++) {
      if (p->subject[i] && !widen_reach(&reaches[i], &from->items[i].value, &moved.items[i].value))
        result = fail_memory();
    }
    free_records(&moved);
    TRY_EXIT(result);
  }
  return EXIT_GOOD;
}

static void free_reaches(reach *reaches, size_t n) {
  for (size_t i = 0; reaches && i < n; i++) free_reach(&reaches[i]);
  free(reaches);
}

/* places: of the dtype alone, or of the terms, too. */
static double *list_places(const run_pair *p, bool of_terms) {
  double *places = calloc(p->base->count + 1, sizeof *places);
  for (size_t i = 0; places && i < p->base->count; i++)
    places[i] = places_of(p->base->items[i].value.dtype, of_terms ? p->errors[i].terms : 0);
  return places;
}

static int measure_nodes(run_pair *p, const records *forced) {
  const size_t n = p->base->count;
  double *places = list_places(p, false);
  reach *reaches = calloc(n + 1, sizeof *reaches);
  const run_edit e = {
      .base = p->base, .forced = p->subject, .places = places, .moves_inputs = true};
  int result = places && reaches ? measure_reach(p, e, forced, reaches) : fail_memory();
  for (size_t i = 0; i < n && !result; i++) {
    if (p->errors[i].verdict == NODE_GOOD)
      p->errors[i].own =
          compare_pair(p, i, &forced->items[i].value, &reaches[i], p->errors[i].terms, OF_ONE_NODE);
  }
  free_reaches(reaches, n);
  free(places);
  return result;
}

static int measure_all(run_pair *p) {
  const size_t n = p->base->count;
  double *places = list_places(p, true);
  reach *reaches = calloc(n + 1, sizeof *reaches);
  const run_edit e = {.base = p->base, .places = places, .moves_inputs = true};
  int result = places && reaches ? measure_reach(p, e, p->base, reaches) : fail_memory();
  if (!result) compare_runs(p, reaches);
  free_reaches(reaches, n);
  free(places);
  return result;
}

/* ---------------------------------------------------------------- all of it */

static int force_subject(run_pair *p) {
  const run_edit e = {.base = p->base, .forced = p->subject};
  records forced = {0};
  size_t apart;
  int result = run_nodes(p->cpu, p->inputs, &e, &forced, &apart);
  /* what is behind a point where control flow parts cannot be compared node by node */
  for (size_t i = apart; i < p->base->count; i++)
    if (p->errors[i].verdict == NODE_GOOD) p->errors[i].verdict = NODE_UNMATCHED;
  if (!result) result = measure_nodes(p, &forced);
  free_records(&forced);
  return result;
}

static int prepare_errors(run_pair *p) {
  p->errors = calloc(p->base->count + 1, sizeof *p->errors);
  p->other_errors = calloc((size_t)p->n_others + 1, sizeof *p->other_errors);
  if (!p->errors || !p->other_errors) return fail_memory();
  for (size_t i = 0; i < p->base->count; i++) {
    node_error *e = &p->errors[i];
    e->terms = count_terms(p, i);
    if (!p->subject[i]) continue;
    const bool comparable = same_form(p->subject[i], &p->base->items[i].value);
    e->verdict = comparable ? NODE_GOOD : NODE_OTHER_FORM;
    if (!comparable) p->subject[i] = NULL;
  }
  return EXIT_GOOD;
}

/* Of the record that wrote what record i shows: i itself, but for outputs. */
static size_t find_shown(const run_pair *p, size_t i) {
  if (p->base->items[i].node < p->g->n_nodes) return i;
  return find_written(p->base, first_output(p), find_viewed(p->g, p->base->items[i].slot));
}

/* A reference may sort equal elements in another order: where the sorted values are its own to the
 * bit, so may the indices be. */
static bool may_be_reordered(const run_pair *p, size_t i) {
  const size_t at = find_shown(p, i);
  if (!p->subject_is_right || at == SIZE_MAX) return false;
  const record *r = &p->base->items[at];
  if (!is_integer(r->value.dtype) || strcmp(p->g->nodes[r->node].op, "sort") != 0 || !at)
    return false;
  const record *values = r - 1; /* which are written first */
  return values->node == r->node && p->subject[at - 1] && p->errors[at - 1].own.largest == 0;
}

static void judge(const run_pair *p, size_t i) {
  node_error *e = &p->errors[i];
  if (e->verdict != NODE_GOOD || may_be_reordered(p, i)) return;
  if (e->own.found || (p->has_outputs_alone && e->total.found)) {
    e->verdict = NODE_WRONG;
  } else if (e->total.found) {
    e->verdict = NODE_AMPLIFIES;
  }
}

int find_errors(run_pair *p) {
  TRY_EXIT(prepare_errors(p));
  compare_runs(p, NULL);
  if (all_alike(p)) return EXIT_GOOD;
  show_progress("comparing node by node");
  int result = p->has_outputs_alone ? EXIT_GOOD : force_subject(p);
  if (!result) result = measure_all(p);
  clear_progress();
  for (size_t i = 0; !result && i < p->base->count; i++) {
    find_inputs_error(p, i);
    judge(p, i);
  }
  for (uint32_t k = 0; !result && k < p->n_others; k++)
    if (may_be_reordered(p, first_output(p) + k)) p->other_errors[k].found = false;
  return result;
}

void free_errors(run_pair *p) {
  free(p->errors);
  free(p->other_errors);
  p->errors = NULL;
  p->other_errors = NULL;
}

size_t first_beyond(const run_pair *p) {
  for (size_t i = 0; i < p->base->count; i++)
    if (p->errors[i].verdict == NODE_WRONG || p->errors[i].verdict == NODE_OTHER_FORM) return i;
  for (size_t i = 0; i < p->base->count; i++)
    if (p->errors[i].verdict == NODE_AMPLIFIES) return i;
  return p->base->count;
}
