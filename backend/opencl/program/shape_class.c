/* The class of a launch: the path that a kernel takes for its sizes. Kernels process a size in
 * blocks (vectors of W, chains of BLOCK, teams of TEAM) and finish the remainder in a loop. A size
 * is classified by its position (below, at, above) among the kernel's block sizes and their
 * products, and by which of these divide it. Launches of one class take the same branches. A kernel
 * with right results for one launch is trusted only for its class (self_check.c). */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/program.h"
#include "base/hash.h"

enum { MAX_BLOCKS = 16, MAX_THRESHOLDS = MAX_BLOCKS + MAX_BLOCKS * MAX_BLOCKS / 2 };

typedef struct block_sizes {
  int64_t blocks[MAX_BLOCKS];         /* the block sizes, which may divide a size */
  int64_t thresholds[MAX_THRESHOLDS]; /* the block sizes and their products */
  int n_blocks, n_thresholds;
} block_sizes;

/* Beyond these sizes, 32-bit indices or float sums approach their limits. */
static const int64_t large[] = {1 << 16, 1 << 24};

static bool has(const int64_t *items, int n, int64_t v) {
  for (int i = 0; i < n; i++)
    if (items[i] == v) return true;
  return false;
}

static void shape_class_add_block(block_sizes *sizes, int64_t size) {
  if (size < 2 || sizes->n_blocks == MAX_BLOCKS || has(sizes->blocks, sizes->n_blocks, size))
    return;
  sizes->blocks[sizes->n_blocks++] = size;
}

static void add_threshold(block_sizes *sizes, int64_t v) {
  if (v <= large[0] && !has(sizes->thresholds, sizes->n_thresholds, v))
    sizes->thresholds[sizes->n_thresholds++] = v;
}

static int defined_value(const launch *launch, const block_info *info) {
  for (int i = 0; i < launch->n_macros; i++)
    if (launch->macros[i].kind == DEFINE_INT && strcmp(launch->macros[i].name, info->name) == 0)
      return launch->macros[i].value;
  return info->value;
}

static void find_blocks(block_sizes *sizes, const launch *launch, const kernel_signature *signature,
                        const size_t local[3]) {
  sizes->n_blocks = sizes->n_thresholds = 0;
  for (int i = 0; i < signature->n_blocks; i++)
    shape_class_add_block(sizes, defined_value(launch, &signature->blocks[i]));
  for (int i = 0; i < 3; i++) shape_class_add_block(sizes, (int64_t)local[i]);
  for (int i = 0; i < sizes->n_blocks; i++) {
    add_threshold(sizes, sizes->blocks[i]);
    for (int j = 0; j < i; j++) add_threshold(sizes, sizes->blocks[i] * sizes->blocks[j]);
  }
}

static uint64_t shape_class_of(const block_sizes *sizes, int64_t v) {
  if (v < 2) return v < 0 ? 0 : 1 + (uint64_t)v;
  uint64_t below = 3, at = has(sizes->thresholds, sizes->n_thresholds, v), divisors = 0;
  for (int i = 0; i < sizes->n_thresholds; i++) below += sizes->thresholds[i] <= v;
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) below += large[i] <= v;
  for (int i = 0; i < sizes->n_blocks; i++) divisors |= (uint64_t)(v % sizes->blocks[i] == 0) << i;
  return divisors << 32 | below << 1 | at;
}

/* Classifies a value that only affects addressing: negative, zero, one, or more. */
static uint64_t sign_class(int64_t v) { return v < 0 ? 3 : v > 1 ? 2 : (uint64_t)v; }

/* Classifies a factor: 0, 1 or any other number. */
static uint64_t float_class(double v) { return v == 0 ? 0 : v == 1 ? 1 : 2; }

uint64_t launch_class(const launch *launch, const kernel_signature *signature,
                      const size_t global[3], const size_t local[3]) {
  block_sizes sizes;
  uint64_t words[8 + 8 * MAX_LAUNCH_ARGS];
  size_t n = 0;
  find_blocks(&sizes, launch, signature, local);
  words[n++] = hash_bytes(launch->kernel, strlen(launch->kernel));
  for (int i = 0; i < 3; i++) {
    words[n++] = local[i];
    words[n++] = sign_class((int64_t)(global[i] / local[i]));
  }
  for (int i = 0; i < launch->n_values; i++) {
    const launch_value *value = &launch->values[i];
    bool is_offset = i > 0 && launch->values[i - 1].kind <= VALUE_ABSENT;
    if (value->kind == VALUE_INT && !is_offset) words[n++] = shape_class_of(&sizes, value->as.i);
    if (value->kind == VALUE_FLOAT) words[n++] = float_class(value->as.f);
    if (value->kind != VALUE_INDEX8) continue;
    words[n++] = shape_class_of(&sizes, value->as.i8[0]);
    for (int k = 1; k < 8; k++) words[n++] = sign_class(value->as.i8[k]);
  }
  return hash_bytes(words, n * sizeof *words);
}

/* ---------------------------------------------------------------- sets of classes */

/* Returns the index of the class, or where to insert it. */
static uint32_t shape_class_place_of(const proof_set *set, uint64_t class) {
  uint32_t low = 0, high = set->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (set->items[middle] < class)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool proof_set_has(const proof_set *set, uint64_t class) {
  uint32_t at = shape_class_place_of(set, class);
  return at < set->count && set->items[at] == class;
}

void proof_set_add(proof_set *set, uint64_t class) {
  if (set->count == MAX_PROOFS || proof_set_has(set, class)) return;
  if (!array_reserve(&set->items, &set->capacity, (size_t)set->count + 1, sizeof *set->items))
    return;
  uint32_t at = shape_class_place_of(set, class);
  memmove(&set->items[at + 1], &set->items[at], sizeof *set->items * (set->count - at));
  set->items[at] = class;
  set->count++;
}
