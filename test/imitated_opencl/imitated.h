#ifndef TEST_IMITATED_OPENCL_IMITATED_H
#define TEST_IMITATED_OPENCL_IMITATED_H
/* A libOpenCL.so.1 with one device that does not exist. It answers queries as a profile says, keeps
 * memory, and refuses launches that exceed the profile's limits, but runs no kernel. The libraries
 * of test/stub_opencl can forward to it, to fail its calls.
 *
 * Environment:
 *
 *   CLAVE_IMITATED_PROFILE   file of lines NAME=VALUE, such as profiles/mali_g78.txt. A line
 *                            `fail.<number of a query in hexadecimal>=CODE` makes the query fail,
 *                            `works=` lists the probes of instructions that succeed: subgroups,
 *                            dots, mma or, for one unit for matrices, its option MMA=NUMBER
 *   CLAVE_IMITATED_LOG       file to which lines are appended: "build HASH", "launch ...", and
 *                            "broken ..." for each limit that a call exceeds
 *   CLAVE_IMITATED_PROGRAMS  folder that receives the text of each program as HASH.cl, with its
 *                            options in the first line */
#include "test/stub_opencl/opencl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------- profile.c */

/* Returns the profile's value of a name, or `absent`. */
const char *profile_text(const char *name, const char *absent);
uint64_t profile_number(const char *name, uint64_t absent);
/* Limits that several files need. */
uint64_t profile_max_group(void);
uint64_t profile_max_item(cl_uint dimension);

/* Appends a line to the log, if there is one. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Logs that a property of `what` (a kernel, "buffer" or "image") has a value over its limit.
 * Returns the code. */
cl_int break_limit(const char *what, const char *property, uint64_t value, uint64_t limit,
                   cl_int code);

/* Writes the answer of a query as the standard says. */
cl_int answer_bytes(const void *bytes, size_t n, size_t size, void *value, size_t *size_ret);
cl_int answer_text(const char *text, size_t size, void *value, size_t *size_ret);
cl_int answer_size(size_t number, size_t size, void *value, size_t *size_ret);

/* ---------------------------------------------------------------- answers.c */

struct _cl_device_id {
  int unused;
};
extern struct _cl_device_id imitated_device;

/* ---------------------------------------------------------------- objects.c */

typedef enum object_kind {
  OBJECT_CONTEXT = 0x434c0001,
  OBJECT_QUEUE,
  OBJECT_MEMORY,
  OBJECT_PROGRAM,
  OBJECT_KERNEL,
  OBJECT_EVENT
} object_kind;

/* The first member of every object. */
typedef struct object {
  object_kind kind;
  int references;
  struct object *parent; /* retained; NULL if none */
} object;

struct _cl_context {
  object base;
};
struct _cl_command_queue {
  object base; /* its parent is the context */
  cl_command_queue_properties properties;
};
struct _cl_mem {
  object base; /* the parent is the buffer whose bytes a sub-buffer shares */
  size_t size;
  char *data;
  bool is_owned;
  cl_mem_flags flags;
  void(CL_CALLBACK *at_end)(cl_mem, void *);
  void *at_end_data;
};
struct _cl_program {
  object base;
  char *source, *options; /* owned; options are NULL until built */
  uint64_t hash;          /* hash of both */
};
enum { MAX_ARGS = 128 };
struct _cl_kernel {
  object base; /* its parent is the program */
  char name[128];
  struct {
    size_t bytes;
    bool is_local;
  } args[MAX_ARGS];
  cl_mem first; /* the kernel's first argument, if it is a buffer */
};
struct _cl_event {
  object base;
};

/* Returns an object of `bytes` bytes with one reference, or NULL. */
void *make_object(object_kind kind, size_t bytes, object *parent);
/* Returns true if the handle is a live object of this kind. */
bool is_object(const void *handle, object_kind kind);

/* ---------------------------------------------------------------- probes.c */

/* Writes the results of a probe of clave's instructions, if the kernel is one that works. */
void answer_probe(cl_kernel kernel);

#endif
