#ifndef BACKEND_OPENCL_PROGRAM_KERNEL_PROGRAM_H
#define BACKEND_OPENCL_PROGRAM_KERNEL_PROGRAM_H
/* A program of a device, shared by the files that build and save programs. */
#include "backend/opencl/program/build_messages.h"
#include "backend/opencl/program/cache.h"
#include "backend/opencl/program/program.h"

struct kernel_program {
  const char *stem, *kernel; /* string literals, or `name` */
  char *name;                /* owned; set for orders, else NULL */
  char *arg_names;           /* owned: argument names of a generated program, each NUL-terminated */
  char *options;             /* owned */
  char *source; /* owned; the full text of a generated program, else NULL except during a build */
  bool generated;
  kernel_signature signature; /* args are owned if generated */
  launch_variant variant;     /* variant of its launches */
  uint64_t identity[2];       /* hash of stem, kernel, options, generated source and variant */
  mutex *lock;                /* protects the following members */
  cl_program handle;          /* NULL until built */
  char *refusal;              /* owned: why the driver refused the source with refused_key */
  uint64_t refused_key[2];
  /* Work-items of the smallest group that the driver refused, in a launch or by its limits; 1: it
   * refused the build or the kernel; 0: it refused nothing. Atomic */
  size_t refused_items;
  size_t launched_items; /* work-items of the largest group launched in this process. Atomic */
  bool is_replaced;      /* a note has said that another kernel replaces it */
  uint64_t key[2];       /* key in the cache on disk: the hash of the origin */
  cache_origin origin;
  unsigned char
      *child_binary; /* owned: the binary that a child built, until it is loaded; or NULL */
  size_t child_binary_size;
  bool has_run;          /* it was launched, so PoCL's binary contains code. Atomic */
  bool is_saved;         /* the cache has the binary, or saving it failed */
  bool was_launched;     /* launched in this process. Atomic */
  proof_set proven;      /* launch classes with right results */
  uint32_t saved_proven; /* number of proven classes in the cache */
  order wanted;          /* the order for builders; its launch is the first to prepare */
  bool is_accepted;      /* the driver has accepted it, here or in a child. Atomic */
  bool is_marked;        /* a mark on disk says that this process is trying it */
  bool was_retried;      /* a second child has tried it. Under the lock of builders */
};

#endif
