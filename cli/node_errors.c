/* Errors of each node. The CPU backend runs again with the other run's values in place of its own,
 * so each node has the same operands as in the other run, and any difference arose in the node
 * itself. Runs on perturbed operands measure the effect of rounding (bounds.h): for one node, by
 * perturbing the forced values; for the whole run, by perturbing each node's result without forcing
 * any. */
#include "cli/node_errors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

enum { OF_ONE_NODE = 2, OF_ALL = 3 }; /* factors applied to the reach */

/* ---------------------------------------------------------------- terms of a sum */

typedef enum terms_rule {
  TERMS_ONE,
  TERMS_LAST,   /* the last dimension of the first operand */
  TERMS_FILTER, /* the elements of the second operand per index of its first dimension */
  TERMS_RATIO,  /* the elements of the first operand per element of the result */
  TERMS_ALL     /* the elements of the first operand */
} terms_rule;

/* Rules by op. Ops not listed here sum as many terms as the longest dimension of their operands. */
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

uint32_t find_viewed(const graph *graph, uint32_t slot) {
  for (uint32_t i = graph->n_nodes; i-- > 0;) {
    const graph_node *node = &graph->nodes[i];
    if (node->is_view && node->n_reads && node->n_writes && *node_writes(node) == slot)
      slot = node->slots[0];
  }
  return slot;
}

size_t find_written(const records *base, size_t at, uint32_t slot) {
  while (at-- > 0)
    if (base->items[at].slot == slot) return at;
  return SIZE_MAX;
}

static size_t first_output(const run_pair *pair) { return pair->base->count - pair->n_others; }

/* Returns the number of elements of a slot, and sets its dimensions, as far as they are known. */
static double count_slot(const run_pair *pair, size_t at, uint32_t slot, double *dims) {
  const clave_tensor_info *info = &pair->graph->slots[slot];
  const size_t from = find_written(pair->base, at, slot);
  double count = 1;
  for (int i = 0; i < info->rank; i++) {
    int64_t dim = info->dims[i];
    if (dim == CLAVE_DYNAMIC && from != SIZE_MAX) dim = pair->base->items[from].value.dims[i];
    if (dim == CLAVE_DYNAMIC) dim = info->max_dims[i] == INT64_MAX ? 1 : info->max_dims[i];
    dims[i] = (double)dim;
    count *= dims[i];
  }
  return count;
}

static double longest_dim(const run_pair *pair, size_t at, const graph_node *node) {
  double dims[CLAVE_MAX_RANK], longest = 1;
  for (uint32_t k = 0; k < node->n_reads; k++) {
    (void)count_slot(pair, at, node->slots[k], dims);
    for (int i = 0; i < pair->graph->slots[node->slots[k]].rank; i++)
      longest = fmax(longest, dims[i]);
  }
  return longest;
}

static double count_by(const run_pair *pair, size_t at, const graph_node *node, terms_rule rule) {
  double dims[CLAVE_MAX_RANK] = {1};
  const uint32_t operand = rule == TERMS_FILTER && node->n_reads > 1 ? 1 : 0;
  if (rule == TERMS_ONE || !node->n_reads) return 1;
  const double count = count_slot(pair, at, node->slots[operand], dims);
  const int rank = pair->graph->slots[node->slots[operand]].rank;
  if (rule == TERMS_LAST) return rank ? dims[rank - 1] : 1;
  if (rule == TERMS_FILTER) return count / fmax(dims[0], 1);
  if (rule == TERMS_RATIO)
    return count / fmax((double)count_elements(&pair->base->items[at].value), 1);
  return count;
}

/* Returns the terms of the record that wrote the output. */
static double terms_of_output(const run_pair *pair, size_t at) {
  const size_t from = find_written(pair->base, first_output(pair),
                                   find_viewed(pair->graph, pair->base->items[at].slot));
  return from == SIZE_MAX ? 1 : pair->errors[from].terms;
}

static double count_terms(const run_pair *pair, size_t at) {
  const uint32_t index = pair->base->items[at].node;
  if (index >= pair->graph->n_nodes) return terms_of_output(pair, at);
  const graph_node *node = &pair->graph->nodes[index];
  for (size_t i = 0; i < LENGTH(rules); i++)
    if (strcmp(rules[i].op, node->op) == 0) return fmax(count_by(pair, at, node, rules[i].rule), 1);
  return longest_dim(pair, at, node);
}

/* ---------------------------------------------------------------- both runs */

static difference compare_pair(const run_pair *pair, size_t i, const clave_tensor *base,
                               const reach *reach, double terms, double factor) {
  return pair->subject_is_right ? compare_tensors(base, pair->subject[i], reach, terms, factor)
                                : compare_tensors(pair->subject[i], base, reach, terms, factor);
}

/* reaches: indexed by record, or NULL. */
static void compare_runs(run_pair *pair, const reach *reaches) {
  for (size_t i = 0; i < pair->base->count; i++) {
    if (pair->errors[i].verdict != NODE_UNMATCHED && pair->errors[i].verdict != NODE_OTHER_SHAPE)
      pair->errors[i].total =
          compare_pair(pair, i, &pair->base->items[i].value, reaches ? &reaches[i] : NULL,
                       pair->errors[i].terms, OF_ALL);
  }
  for (uint32_t k = 0; k < pair->n_others; k++) {
    const size_t i = first_output(pair) + k;
    const clave_tensor *right =
        pair->subject_is_right ? pair->subject[i] : &pair->base->items[i].value;
    if (right && pair->others[k].data && same_shape(&pair->others[k], right))
      pair->other_errors[k] = compare_tensors(&pair->others[k], right, reaches ? &reaches[i] : NULL,
                                              pair->errors[i].terms, OF_ALL);
  }
}

static bool all_alike(const run_pair *pair) {
  bool alike = true;
  for (size_t i = 0; i < pair->base->count; i++)
    alike = alike && pair->errors[i].total.largest == 0;
  for (uint32_t k = 0; k < pair->n_others; k++) alike = alike && pair->other_errors[k].largest == 0;
  return alike;
}

static void find_inputs_error(run_pair *pair, size_t at) {
  const record *record = &pair->base->items[at];
  if (record->node >= pair->graph->n_nodes) return;
  const graph_node *node = &pair->graph->nodes[record->node];
  for (uint32_t k = 0; k < node->n_reads; k++) {
    const size_t from = find_written(pair->base, at, find_viewed(pair->graph, node->slots[k]));
    if (from == SIZE_MAX) continue;
    const double by = pair->errors[from].total.largest;
    if (by > pair->errors[at].inputs_error) pair->errors[at].inputs_error = by;
  }
}

/* ---------------------------------------------------------------- effects of rounding */

/* Runs twice on perturbed values and measures how far each record moved from its value in `from`.
 */
static int node_errors_measure_reach(const run_pair *pair, run_edit edit, const records *from,
                                     reach *reaches) {
  for (int opposite = 0; opposite < 2; opposite++) {
    records moved = {0};
    size_t diverged_at;
    edit.opposite = opposite != 0;
    int result = run_nodes(pair->cpu, pair->inputs, &edit, &moved, &diverged_at);
    for (size_t i = 0; !result && i < from->count && i < moved.count && i < diverged_at; i++) {
      if (pair->subject[i] &&
          !widen_reach(&reaches[i], &from->items[i].value, &moved.items[i].value))
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

/* Returns the last places by which each record is perturbed. of_terms: includes the share for its
 * number of terms. */
static double *list_places(const run_pair *pair, bool of_terms) {
  double *places = calloc(pair->base->count + 1, sizeof *places);
  for (size_t i = 0; places && i < pair->base->count; i++)
    places[i] = places_of(pair->base->items[i].value.dtype, of_terms ? pair->errors[i].terms : 0);
  return places;
}

static int measure_nodes(run_pair *pair, const records *forced) {
  const size_t n = pair->base->count;
  double *places = list_places(pair, false);
  reach *reaches = calloc(n + 1, sizeof *reaches);
  const run_edit edit = {
      .base = pair->base, .forced = pair->subject, .places = places, .moves_inputs = true};
  int result =
      places && reaches ? node_errors_measure_reach(pair, edit, forced, reaches) : fail_memory();
  for (size_t i = 0; i < n && !result; i++) {
    if (pair->errors[i].verdict == NODE_GOOD)
      pair->errors[i].own = compare_pair(pair, i, &forced->items[i].value, &reaches[i],
                                         pair->errors[i].terms, OF_ONE_NODE);
  }
  free_reaches(reaches, n);
  free(places);
  return result;
}

static int measure_all(run_pair *pair) {
  const size_t n = pair->base->count;
  double *places = list_places(pair, true);
  reach *reaches = calloc(n + 1, sizeof *reaches);
  const run_edit edit = {.base = pair->base, .places = places, .moves_inputs = true};
  int result = places && reaches ? node_errors_measure_reach(pair, edit, pair->base, reaches)
                                 : fail_memory();
  if (!result) compare_runs(pair, reaches);
  free_reaches(reaches, n);
  free(places);
  return result;
}

/* ---------------------------------------------------------------- all nodes */

static int force_subject(run_pair *pair) {
  const run_edit edit = {.base = pair->base, .forced = pair->subject};
  records forced = {0};
  size_t diverged_at;
  int result = run_nodes(pair->cpu, pair->inputs, &edit, &forced, &diverged_at);
  /* once control flow has diverged, nodes cannot be compared one by one */
  for (size_t i = diverged_at; i < pair->base->count; i++)
    if (pair->errors[i].verdict == NODE_GOOD) pair->errors[i].verdict = NODE_UNMATCHED;
  if (!result) result = measure_nodes(pair, &forced);
  free_records(&forced);
  return result;
}

static int prepare_errors(run_pair *pair) {
  pair->errors = calloc(pair->base->count + 1, sizeof *pair->errors);
  pair->other_errors = calloc((size_t)pair->n_others + 1, sizeof *pair->other_errors);
  if (!pair->errors || !pair->other_errors) return fail_memory();
  for (size_t i = 0; i < pair->base->count; i++) {
    node_error *error = &pair->errors[i];
    error->terms = count_terms(pair, i);
    if (!pair->subject[i]) continue;
    const bool comparable = same_shape(pair->subject[i], &pair->base->items[i].value);
    error->verdict = comparable ? NODE_GOOD : NODE_OTHER_SHAPE;
    if (!comparable) pair->subject[i] = NULL;
  }
  return EXIT_GOOD;
}

/* Returns the record that computed the bytes of record i: for outputs an earlier record, otherwise
 * i itself. */
static size_t find_shown(const run_pair *pair, size_t i) {
  if (pair->base->items[i].node < pair->graph->n_nodes) return i;
  return find_written(pair->base, first_output(pair),
                      find_viewed(pair->graph, pair->base->items[i].slot));
}

/* A reference may sort equal elements in another order. If the sorted values are bit-identical,
 * differing indices are accepted. */
static bool may_be_reordered(const run_pair *pair, size_t i) {
  const size_t at = find_shown(pair, i);
  if (!pair->subject_is_right || at == SIZE_MAX) return false;
  const record *entry = &pair->base->items[at];
  if (!is_integer(entry->value.dtype) || strcmp(pair->graph->nodes[entry->node].op, "sort") != 0 ||
      !at)
    return false;
  const record *values = entry - 1; /* a sort writes its values before its indices */
  return values->node == entry->node && pair->subject[at - 1] &&
         pair->errors[at - 1].own.largest == 0;
}

static void node_errors_judge(const run_pair *pair, size_t i) {
  node_error *error = &pair->errors[i];
  if (error->verdict != NODE_GOOD || may_be_reordered(pair, i)) return;
  if (error->own.found || (pair->has_only_outputs && error->total.found)) {
    error->verdict = NODE_WRONG;
  } else if (error->total.found) {
    error->verdict = NODE_AMPLIFIES;
  }
}

int find_errors(run_pair *pair) {
  TRY_EXIT(prepare_errors(pair));
  compare_runs(pair, NULL);
  if (all_alike(pair)) return EXIT_GOOD;
  show_progress("comparing node by node");
  int result = pair->has_only_outputs ? EXIT_GOOD : force_subject(pair);
  if (!result) result = measure_all(pair);
  clear_progress();
  for (size_t i = 0; !result && i < pair->base->count; i++) {
    find_inputs_error(pair, i);
    node_errors_judge(pair, i);
  }
  for (uint32_t k = 0; !result && k < pair->n_others; k++)
    if (may_be_reordered(pair, first_output(pair) + k)) pair->other_errors[k].found = false;
  return result;
}

void free_errors(run_pair *pair) {
  free(pair->errors);
  free(pair->other_errors);
  pair->errors = NULL;
  pair->other_errors = NULL;
}

size_t first_beyond(const run_pair *pair) {
  for (size_t i = 0; i < pair->base->count; i++)
    if (pair->errors[i].verdict == NODE_WRONG || pair->errors[i].verdict == NODE_OTHER_SHAPE)
      return i;
  for (size_t i = 0; i < pair->base->count; i++)
    if (pair->errors[i].verdict == NODE_AMPLIFIES) return i;
  return pair->base->count;
}
