#ifndef INTERP_CHECKING_H
#define INTERP_CHECKING_H
/* The check of one node, shared by the files of this folder. */
#include "base/memory.h"
#include "interp/run/session.h"

/* The CPU backend that checks use. */
struct oracle {
  backend *owner; /* owned; NULL: borrowed from the session */
  backend *cpu;
  stream *queue;      /* owned */
  bool noted;         /* a message has said that a node was too large */
  bool noted_refusal; /* a message has said that the device refused a kernel */
};

/* A range of a device buffer that contains operands, and its copy. */
typedef struct region {
  const bound_tensor *first; /* the first operand found in it; identifies the buffer */
  int64_t low, high;         /* bytes relative to the operand's buffer_offset, high excluded */
  dtype type;                /* dtype of the operands that are read */
  bool is_read, is_written;
  const void *constant; /* its bytes in the program's file; NULL if it is not a constant */
  void *host;           /* owned: contents before the node ran; NULL if constant or not read */
  buffer *copy;         /* owned, on the CPU backend */
} region;

/* The compared rows: `count` of the `rows` along `axis` of the results, starting at `from`. */
typedef struct part {
  int axis; /* -1: all */
  int64_t rows, from, count;
} part;

typedef struct result {
  const bound_tensor *view, *copy;
  int64_t n;
  void *got, *want; /* owned: elements in the dtype of the result */
  double *reach;    /* owned (n): effect of the operands' last bits; NULL: not measured */
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
  part part;
  bound_tensor *view; /* owned (n_slots + 2): the operands, or the compared part of them */
  bound_tensor *copy; /* owned (n_slots + 2): `view` over the copies */
  rounding rounds;    /* how the device rounds operands of a product, which the oracle must match */
  buffer *rounded[2]; /* owned, on the CPU backend: a and b, rounded; NULL if not needed */
  region *regions;    /* owned */
  uint32_t n_regions;
  size_t cap_regions;
  result results[MAX_RESULTS];
  int n_results;
  text verdict; /* describes the difference; empty if there is none */
} checking;

#endif
