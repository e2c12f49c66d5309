#ifndef INTERP_CHECKING_H
#define INTERP_CHECKING_H
/* The check of one node, shared by the files of this folder. */
#include "base/memory.h"
#include "interp/run/session.h"

/* The CPU backend and stream with which checks compute the expected results. */
struct oracle {
  backend *owner; /* owned; NULL: borrowed from the session */
  backend *cpu;
  stream *queue; /* owned */
  bool noted;    /* the user was told that a node is too large to check */
};

/* A range of a device buffer that contains operands, with its copy on the CPU backend. */
typedef struct region {
  const bound_tensor *first; /* the first operand found in the range; identifies the buffer */
  int64_t low, high;         /* bytes relative to the operand's buffer_offset, high excluded */
  dtype type;                /* dtype of the operands that are read */
  bool is_read, is_written;
  const void *constant; /* bytes in the program's file if the region is a constant; else NULL */
  void *host;           /* owned: contents before the node ran; NULL if constant or not read */
  buffer *copy;         /* owned, on the CPU backend */
} region;

/* The compared rows: [from, from + count) of the `rows` along `axis` of the results. */
typedef struct row_range {
  int axis; /* -1: the whole results are compared */
  int64_t rows, from, count;
} row_range;

typedef struct result {
  const bound_tensor *view, *copy;
  int64_t n;
  void *got, *want;    /* owned: elements in the dtype of the result */
  double *sensitivity; /* owned (n): effect of the operands' last bits; NULL: not measured */
} result;

/* Returns the bytes of a region's copy. */
static inline size_t region_bytes(const region *region) {
  return (size_t)(region->high - region->low);
}

enum { MAX_RESULTS = 8 };

typedef struct checking {
  session *session;
  int backend;
  const node *nd;
  uint32_t number;
  bool is_whole; /* all operands are copied, however large they are */
  row_range compared;
  bound_tensor *view; /* owned (n_slots + 2): the operands, or only their compared rows */
  bound_tensor *copy; /* owned (n_slots + 2): same as `view`, in the copies' memory */
  rounding rounds;    /* how the device rounds operands of a product, which the oracle must match */
  buffer *rounded[2]; /* owned, on the CPU backend: a and b, rounded; NULL if not needed */
  region *regions;    /* owned */
  uint32_t n_regions;
  size_t cap_regions;
  result results[MAX_RESULTS];
  int n_results;
  text verdict; /* describes the difference; empty if none exists */
} checking;

#endif
