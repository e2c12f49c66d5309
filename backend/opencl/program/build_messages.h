#ifndef BACKEND_OPENCL_PROGRAM_BUILD_MESSAGES_H
#define BACKEND_OPENCL_PROGRAM_BUILD_MESSAGES_H
/* What a process and those that build kernels for it say to each other: a head, then so many bytes.
 * Both ends are of one build, which the greeting sees to, and neither trusts the other's sizes. */
#include "backend/opencl/program/program.h"

typedef enum message_kind {
  MESSAGE_GREETING = 1, /* a greeting; the folder of kernel binaries, or nothing */
  MESSAGE_ORDER,        /* an order; its kernel, options, source: each with its NUL */
  MESSAGE_SAVE,         /* keep the binaries of what was built */
  MESSAGE_READY,        /* the builder's: its own greeting */
  MESSAGE_BUILT,        /* the builder's: the order of that number was tried */
  MESSAGE_SAVED         /* the builder's: all is kept */
} message_kind;

typedef struct message {
  uint32_t kind, number, size, spare;
} message;

typedef struct greeting {
  uint64_t version[2], platform[2]; /* of this library; of the device, its driver and CPU */
  int32_t device;                   /* N of opencl:N */
  uint32_t spare;
} greeting;

enum { MAX_ORDER_BYTES = 4 << 20 };

/* A program to build, and to launch once. */
typedef struct order {
  uint32_t n_args, is_wide, compute, spare;
  uint64_t local_bytes; /* of a parameter in local memory */
  uint64_t global[3], local[3];
  uint8_t kinds[MAX_LAUNCH_ARGS]; /* (n_args) arg_kind */
} order;

void build_greeting(const cl_device *opened, int device, greeting *out);
/* left, right: one behind the other. False: the other end is gone, or does not read. */
bool message_send(int socket, message_kind kind, uint32_t number, const void *left, size_t a_size,
                  const void *right, size_t b_size);
/* *payload: owned by the caller, message->size bytes and a NUL behind them. False, and no payload:
 * nothing in time, the other end is gone, or what it says is no message. */
bool message_receive(int socket, int timeout_ms, message *message, char **payload);

#endif
