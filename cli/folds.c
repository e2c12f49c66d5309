/* Finds blocks of nodes that repeat: for each period, the longest run of nodes that equal the node
 * one period later. Selects the repeat that hides the most nodes, then searches the nodes before
 * and after it. */
#include "cli/folds.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
  FEWEST_HIDDEN = 8,
  MAX_COMPARISONS = 150000000 /* per node, and in total (for 20,000 nodes) */
};

static bool is_same_tensor(const clave_tensor_info *left, const clave_tensor_info *right) {
  return left->dtype == right->dtype && left->rank == right->rank &&
         left->is_scalar == right->is_scalar &&
         memcmp(left->dims, right->dims,
                sizeof *left->dims * (size_t)(left->rank > 0 ? left->rank : 0)) == 0;
}

static bool is_same_node(const graph *graph, const graph_node *left, const graph_node *right) {
  if (left->n_reads != right->n_reads || left->n_writes != right->n_writes ||
      strcmp(left->op, right->op) != 0 || strcmp(left->detail, right->detail) != 0)
    return false;
  for (uint32_t k = 0; k < left->n_writes; k++) {
    if (!is_same_tensor(&graph->slots[node_writes(left)[k]], &graph->slots[node_writes(right)[k]]))
      return false;
  }
  return true;
}

/* Returns kinds[i]: the index of the first node equal to node i. *left: comparisons that may still
 * be made; a node that would need more counts as different from all others. */
static uint32_t *number_kinds(const graph *graph, uint64_t *left) {
  uint32_t *kinds = calloc((size_t)graph->n_nodes + 1, sizeof *kinds);
  uint32_t *distinct = calloc((size_t)graph->n_nodes + 1, sizeof *distinct), n = 0;
  for (uint32_t i = 0; kinds && distinct && i < graph->n_nodes; i++) {
    uint32_t k = 0;
    const bool searches = *left >= n;
    *left -= searches ? n : 0;
    while (searches && k < n && !is_same_node(graph, &graph->nodes[distinct[k]], &graph->nodes[i]))
      k++;
    if (k == n) distinct[n++] = i;
    kinds[i] = searches ? distinct[k] : i;
  }
  if (!distinct) {
    free(kinds);
    kinds = NULL;
  }
  free(distinct);
  return kinds;
}

static uint32_t count_hidden(const graph_fold *fold) { return (fold->count - 1) * fold->period; }

/* Returns the repeat within [begin, end) that hides most nodes; on a tie, that of the shortest
 * period. */
static graph_fold folds_find_largest(const uint32_t *kinds, uint32_t begin, uint32_t end) {
  graph_fold best = {.count = 1};
  for (uint32_t period = 1; period <= (end - begin) / 2; period++) {
    uint32_t run = 0;
    for (uint32_t i = begin; i + period < end; i++) {
      run = kinds[i] == kinds[i + period] ? run + 1 : 0;
      const graph_fold found = {.first = i + 1 - run, .period = period, .count = run / period + 1};
      if (count_hidden(&found) > count_hidden(&best)) best = found;
    }
  }
  return best;
}

/* *left: comparisons that may still be made; a range that would need more is not searched. */
static bool add_folds(const uint32_t *kinds, uint32_t begin, uint32_t end, uint64_t *left,
                      graph_folds *out) {
  const uint64_t n = end - begin, comparisons = n * n * 3 / 8; /* for all periods up to n / 2 */
  if (comparisons > *left) return true;
  *left -= comparisons;
  const graph_fold best = folds_find_largest(kinds, begin, end);
  if (count_hidden(&best) < FEWEST_HIDDEN) return true;
  return add_folds(kinds, begin, best.first, left, out) &&
         array_reserve(&out->items, &out->capacity, (size_t)out->n + 1, sizeof *out->items) &&
         (out->items[out->n++] = best, true) &&
         add_folds(kinds, best.first + best.period * best.count, end, left, out);
}

int find_folds(const graph *graph, graph_folds *folds) {
  uint64_t left_kinds = MAX_COMPARISONS, left = MAX_COMPARISONS;
  uint32_t *kinds = number_kinds(graph, &left_kinds);
  const bool good = kinds && add_folds(kinds, 0, graph->n_nodes, &left, folds);
  free(kinds);
  return good ? EXIT_GOOD : fail_memory();
}

void free_folds(graph_folds *folds) {
  for (uint32_t i = 0; i < folds->n; i++) free(folds->items[i].note);
  free(folds->items);
  *folds = (graph_folds){0};
}

graph_fold *fold_of_node(const graph_folds *folds, uint32_t node) {
  for (uint32_t i = 0; folds && i < folds->n; i++) {
    graph_fold *fold = &folds->items[i];
    if (node >= fold->first + fold->period && node < fold->first + fold->period * fold->count)
      return fold;
  }
  return NULL;
}
