/* What of a launch decides the path that a kernel takes: the classes of its sizes. Kernels walk
 * sizes in blocks (vectors of W, chains of BLOCK, teams of TEAM) with a loop for the rest, so a
 * size is described by where it lies among the kernel's block sizes and their products (below, at,
 * above), and by which of them divide it. Launches of one class take the same branches; a kernel
 * that was right for one launch is trusted for its class only (self_check.c). */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/program.h"
#include "base/hash.h"

enum { MAX_BLOCKS = 16, MAX_THRESHOLDS = MAX_BLOCKS + MAX_BLOCKS * MAX_BLOCKS / 2 };

typedef struct block_sizes {
  int64_t blocks[MAX_BLOCKS];         /* what a size may be a multiple of */
  int64_t thresholds[MAX_THRESHOLDS]; /* those, and where a loop over blocks ends its first turn */
  int n_blocks, n_thresholds;
} block_sizes;

/* Beyond these, sums and indices in 32 bits or in floats get close to their limits. */
static const int64_t large[] = {1 << 16, 1 << 24};

static bool has(const int64_t *items, int n, int64_t v) {
  for (int i = 0; i < n; i++)
    if (items[i] == v) return true;
  return false;
}

static void add_block(block_sizes *b, int64_t size) {
  if (size < 2 || b->n_blocks == MAX_BLOCKS || has(b->blocks, b->n_blocks, size)) return;
  b->blocks[b->n_blocks++] = size;
}

static void add_threshold(block_sizes *b, int64_t v) {
  if (v <= large[0] && !has(b->thresholds, b->n_thresholds, v))
    b->thresholds[b->n_thresholds++] = v;
}

static int defined_value(const launch *l, const block_info *b) {
  for (int i = 0; i < l->n_macros; i++)
    if (l->macros[i].kind == DEFINE_INT && strcmp(l->macros[i].name, b->name) == 0)
      return l->macros[i].value;
  return b->value;
}

static void find_blocks(block_sizes *b, const launch *l, const kernel_signature *g,
                        const size_t local[3]) {
  b->n_blocks = b->n_thresholds = 0;
  for (int i = 0; i < g->n_blocks; i++) add_block(b, defined_value(l, &g->blocks[i]));
  for (int i = 0; i < 3; i++) add_block(b, (int64_t)local[i]);
  for (int i = 0; i < b->n_blocks; i++) {
    add_threshold(b, b->blocks[i]);
    for (int j = 0; j < i; j++) add_threshold(b, b->blocks[i] * b->blocks[j]);
  }
}

static uint64_t class_of(const block_sizes *b, int64_t v) {
  if (v < 2) return v < 0 ? 0 : 1 + (uint64_t)v;
  uint64_t below = 3, at = has(b->thresholds, b->n_thresholds, v), divisors = 0;
  for (int i = 0; i < b->n_thresholds; i++) below += b->thresholds[i] <= v;
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) below += large[i] <= v;
  for (int i = 0; i < b->n_blocks; i++) divisors |= (uint64_t)(v % b->blocks[i] == 0) << i;
  return divisors << 32 | below << 1 | at;
}

/* Where a kernel only finds its way in memory: negative, none, one, more. */
static uint64_t sign_class(int64_t v) { return v < 0 ? 3 : v > 1 ? 2 : (uint64_t)v; }

static uint64_t float_class(double v) { return v == 0 ? 0 : v == 1 ? 1 : 2; }

uint64_t launch_class(const launch *l, const kernel_signature *g, const size_t global[3],
                      const size_t local[3]) {
  block_sizes b;
  uint64_t words[8 + 8 * MAX_LAUNCH_ARGS];
  size_t n = 0;
  find_blocks(&b, l, g, local);
  words[n++] = hash_bytes(l->kernel, strlen(l->kernel));
  for (int i = 0; i < 3; i++) {
    words[n++] = local[i];
    words[n++] = sign_class((int64_t)(global[i] / local[i]));
  }
  for (int i = 0; i < l->n_values; i++) {
    const launch_value *v = &l->values[i];
    bool is_offset = i > 0 && l->values[i - 1].kind <= VALUE_ABSENT;
    if (v->kind == VALUE_INT && !is_offset) words[n++] = class_of(&b, v->as.i);
    if (v->kind == VALUE_FLOAT) words[n++] = float_class(v->as.f);
    if (v->kind != VALUE_INDEX8) continue;
    words[n++] = class_of(&b, v->as.i8[0]);
    for (int k = 1; k < 8; k++) words[n++] = sign_class(v->as.i8[k]);
  }
  return hash_bytes(words, n * sizeof *words);
}

/* ---------------------------------------------------------------- sets of classes */

/* Where it is, or belongs. */
static uint32_t place_of(const proof_set *p, uint64_t class) {
  uint32_t low = 0, high = p->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (p->items[middle] < class)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool proof_set_has(const proof_set *p, uint64_t class) {
  uint32_t at = place_of(p, class);
  return at < p->count && p->items[at] == class;
}

void proof_set_add(proof_set *p, uint64_t class) {
  if (p->count == MAX_PROOFS || proof_set_has(p, class)) return;
  if (!array_reserve(&p->items, &p->capacity, (size_t)p->count + 1, sizeof *p->items)) return;
  uint32_t at = place_of(p, class);
  memmove(&p->items[at + 1], &p->items[at], sizeof *p->items * (p->count - at));
  p->items[at] = class;
  p->count++;
}
