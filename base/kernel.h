#ifndef BASE_KERNEL_H
#define BASE_KERNEL_H
/* Everything that a CPU kernel file may include: tensors as pointers with sizes and strides, a
 * parallel-for, and the record of data errors. A compiled executable contains the kernel files it
 * needs and this header. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alone.h"
#include "base/dtype.h"

enum { KERNEL_MAX_RANK = 8 };

/* One operand. data points at element [0, ..., 0]; strides are in elements and may be 0 or
 * negative. */
typedef struct ktensor {
  void *data;
  dtype type;
  int rank;
  int64_t dims[KERNEL_MAX_RANK];
  int64_t strides[KERNEL_MAX_RANK];
} ktensor;

/* Dimensions and strides for walking a tensor. */
typedef struct klayout {
  int rank;
  int64_t dims[KERNEL_MAX_RANK];
  int64_t strides[KERNEL_MAX_RANK]; /* in elements */
} klayout;

/* The kind of the first data error of a run: an index out of range, an integer division by zero, or
 * rows that do not fit into a cache. */
typedef enum kernel_fault_kind {
  KERNEL_FAULT_NONE = 0,
  KERNEL_FAULT_INDEX = 1,
  KERNEL_FAULT_DIVISION = 2,
  KERNEL_FAULT_ROWS = 3
} kernel_fault_kind;
typedef struct kernel_fault {
  kernel_fault_kind kind;
  int64_t value;     /* the index out of range; ROWS: the position */
  int64_t low, high; /* the valid range [low, high]; ROWS: new rows, cache rows */
} kernel_fault;

/* Runs body(ctx, begin, end) over sub-ranges of [0, n), each at least `grain` long except the last,
 * on the pool's threads; returns when all are done. */
typedef void (*kernel_body)(void *ctx, int64_t begin, int64_t end);
typedef struct kernel_context {
  void (*parallel_for)(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx);
  void *pool;
  int n_threads;
  kernel_fault *fault;                        /* the first writer wins; use kernel_fault_set */
  uint64_t seed, stretch;                     /* for random numbers: docs/reference/random.md */
  void *(*scratch)(void *pool, size_t bytes); /* returns 64-byte aligned memory, valid until the
                                                 kernel returns; NULL when memory is out */
} kernel_context;

/* A kernel as data, which a command of the CPU backend runs and a compiled executable calls. Its
 * header declares it by KERNEL(softmax, softmax_args), and its file defines it:
 *
 *   const kernel_desc kernel_softmax = {
 *       .name = "softmax",
 *       .run = run_softmax,
 *       .args_size = sizeof(softmax_args),
 *       .operands = {OPERAND(softmax_args, x), OPERAND(softmax_args, out)}};
 *
 * args holds operands by value, as ktensors or plain data pointers; an optional operand is absent
 * if its data is NULL. All other members are fixed when the command is made. */
enum { KERNEL_MAX_OPERANDS = 12 };
typedef struct kernel_desc {
  const char *name;
  bool (*run)(const kernel_context *ctx, const void *args); /* false: no scratch memory */
  /* Returns the bytes of scratch memory that run needs, whatever the operands hold: the sum of
   * kernel_scratch_size over its requests. NULL if it needs none. */
  size_t (*scratch)(const kernel_context *ctx, const void *args);
  size_t args_size;
  uint16_t operands[KERNEL_MAX_OPERANDS + 1]; /* byte offsets in args, plus 1; a 0 ends the list */
  uint16_t steps; /* byte offset in args of a short_elementwise_args, plus 1; 0 if none */
} kernel_desc;
#define KERNEL(name, args)         \
  typedef args name##_kernel_args; \
  extern const kernel_desc kernel_##name
/* The byte offset of an operand in args, plus 1. A ktensor begins with its data pointer. */
#define OPERAND(args, field) (1 + offsetof(args, field))

static inline int64_t ktensor_numel(const ktensor *ktensor) {
  int64_t n = 1;
  for (int i = 0; i < ktensor->rank; i++) n *= ktensor->dims[i];
  return n;
}

enum { KERNEL_SCRATCH_ALIGNMENT = 64 };
/* Returns the bytes of scratch memory of a request with padding; SIZE_MAX / 2 on overflow. */
static inline size_t kernel_scratch_size(size_t bytes) {
  const size_t unit = KERNEL_SCRATCH_ALIGNMENT;
  return bytes > SIZE_MAX / 2 - unit ? SIZE_MAX / 2 : (bytes + unit - 1) / unit * unit;
}

/* Sets the kind unless one is set; returns true if this call set it. */
static inline bool kernel_fault_claim(kernel_fault *fault, kernel_fault_kind kind) {
  int expected = KERNEL_FAULT_NONE;
  if (!KERNEL_ALONE)
    return __atomic_compare_exchange_n((int *)&fault->kind, &expected, (int)kind, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  const bool is_first = fault->kind == KERNEL_FAULT_NONE;
  if (is_first) fault->kind = kind;
  return is_first;
}

/* Records a fault unless one is already set (safe from several threads). */
static inline void kernel_fault_set(kernel_fault *fault, kernel_fault_kind kind, int64_t value,
                                    int64_t low, int64_t high) {
  if (kernel_fault_claim(fault, kind)) {
    fault->value = value;
    fault->low = low;
    fault->high = high;
  }
}

#endif
