#ifndef INTERP_CHECKING_H
#define INTERP_CHECKING_H
/* One node under the self-check, shared by the files of this folder. */
#include "base/memory.h"
#include "interp/run/session.h"

/* The CPU backend of a session that needs one for checks only. */
struct oracle {
  backend *owner; /* owned; NULL: borrowed from the session */
  backend *cpu;
  stream *queue; /* owned */
  bool noted;    /* that a node was too large has been said */
};

/* A stretch of a device buffer that operands lie in, and its copy. */
typedef struct region {
  const bound_tensor *first; /* of the operands here: says which buffer, and where it begins */
  int64_t low, high;         /* bytes from there, high excluded */
  dtype type;                /* of the operands that are read */
  bool is_read, is_written;
  const void *constant; /* its bytes in the program's file; NULL: not a constant */
  void *host;           /* owned: the copy before the node ran; NULL: constant or not read */
  buffer *copy;         /* owned, of the CPU backend */
} region;

/* What is compared: `count` rows, from `from` on, of the `rows` along `axis` of the results. */
typedef struct part {
  int axis; /* -1: all */
  int64_t rows, from, count;
} part;

typedef struct result {
  const bound_tensor *view, *copy;
  int64_t n;
  void *got, *want; /* owned: of the dtype that the program has */
  double *reach; /* owned (n): how far it moves with its operands' last bits; NULL: not measured */
} result;

/* Bytes of the copy. */
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
  bound_tensor *view; /* owned (n_slots + 2): the operands, or the part of them */
  bound_tensor *copy; /* owned (n_slots + 2): the same, copied */
  rounding rounds;    /* of a product: what the device does, and so must the oracle */
  buffer *rounded[2]; /* owned, of the CPU backend: a and b, rounded; or NULL */
  region *regions;    /* owned */
  uint32_t n_regions;
  size_t cap_regions;
  result results[MAX_RESULTS];
  int n_results;
  text verdict; /* what differs; empty: nothing */
} checking;

#endif
