#ifndef INTERP_CHECKING_H
#define INTERP_CHECKING_H
/* One node under the self-check, shared by the files of this folder. */
#include "base/memory.h"
#include "interp/run/running.h"

/* The CPU backend of a session that needs one for checks only. */
struct oracle {
  backend *owner; /* owned; NULL: borrowed from the session */
  backend *cpu;
  stream *queue; /* owned */
  bool noted;    /* that a node was too large has been said */
};

/* A stretch of a device buffer that operands lie in, and its copy; of F32 that are kept as BF16
 * here (tensor.is_narrow) the copy has floats. */
typedef struct region {
  const bound_tensor *first; /* of the operands here: says which buffer, and where it begins */
  int64_t low, high;         /* bytes from there, high excluded */
  dtype type;                /* of the operands that are read */
  bool is_read, is_written, is_narrow;
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
static inline size_t region_bytes(const region *r) {
  return (size_t)(r->high - r->low) * (r->is_narrow ? sizeof(float) / sizeof(uint16_t) : 1);
}

enum { MAX_RESULTS = 8 };

typedef struct checking {
  session *s;
  int backend;
  const node *nd;
  uint32_t number;
  part part;
  bound_tensor *view; /* owned (n_slots + 2): the operands, or the part of them */
  bound_tensor *copy; /* owned (n_slots + 2): the same, copied */
  rounding rounds;    /* of a product: what the device does, and so must the oracle; of attention
                         also its weights, which the oracle does not */
  buffer *rounded[2]; /* owned, of the CPU backend: a and b, rounded; or NULL */
  region *regions;    /* owned */
  uint32_t n_regions;
  size_t cap_regions;
  result results[MAX_RESULTS];
  int n_results;
  text verdict; /* what differs; empty: nothing */
} checking;

/* ---- operands.c ---- */
/* Copies what the node reads, all or a part that results can be made of. *fits: false if that is
 * too much. With c->part.count set: that part. */
clave_status copy_operands(checking *c, bool *fits) STATUS_CHECK;
/* The operands' copies as they were before the node ran. */
clave_status restore_copies(checking *c) STATUS_CHECK;
/* Runs the node on the copies. *faulty: it found bad data. */
clave_status run_oracle(checking *c, bool *faulty) STATUS_CHECK;
void free_copies(checking *c);

/* ---- reference.c ---- */
/* Runs a custom op's reference on the copies, as run_oracle does. */
clave_status run_reference(const checking *c, bool *faulty) STATUS_CHECK;
/* ---- bounds.c ---- */
/* Runs a custom op's kernel on the device; an error where it writes beside its results. */
clave_status run_guarded(const checking *c, const recording *r, void **state,
                         const run_operands *o) STATUS_CHECK;

/* ---- rounded.c ---- */
/* The elements of an operand's copy, rounded as c->rounds says once they are multiplied by `scale`,
 * as floats of type `to`, in *made, which is created unless it is there. */
clave_status bind_rounded(checking *c, const bound_tensor *x, dtype to, double scale, buffer **made,
                          bound_tensor *out) STATUS_CHECK;

/* ---- results.c ---- */
clave_status compare_results(checking *c) STATUS_CHECK; /* fills in the verdict */
void free_results(checking *c);

#endif
