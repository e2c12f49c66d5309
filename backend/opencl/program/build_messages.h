#ifndef BACKEND_OPENCL_PROGRAM_BUILD_MESSAGES_H
#define BACKEND_OPENCL_PROGRAM_BUILD_MESSAGES_H
/* Messages between a process and its kernel builders: a head, then a payload. The greeting ensures
 * that both ends are of one build. Neither end trusts the sizes that the other sends. */
#include "backend/opencl/program/program.h"

typedef enum message_kind {
  MESSAGE_GREETING = 1, /* payload: a greeting, then the folder of kernel binaries or nothing */
  MESSAGE_ORDER, /* payload: an order, then its kernel, options and source, each NUL-terminated */
  MESSAGE_SAVE,  /* save the binaries of all built programs */
  MESSAGE_READY, /* from the builder; number: the task; payload: its own greeting if it builds */
  MESSAGE_BUILT, /* from the builder: the order of this number was tried; payload: the binary of a
                    trial if no folder keeps it, else nothing */
  MESSAGE_SAVED, /* from the builder: all binaries are saved */
  MESSAGE_TRIAL  /* an order for a trial: its binary is saved at once, or sent if no folder keeps
                    it */
} message_kind;

typedef struct message {
  uint32_t kind, number, size, spare;
} message;

typedef struct greeting {
  uint64_t version[2],
      platform[2]; /* hashes of this library; of the device, its driver and the CPU */
  int32_t device;  /* N of opencl:N */
  uint32_t task;   /* child_task */
} greeting;
/* Builds programs, or answers MESSAGE_BUILT once it has listed the devices or multiplied matrices
 * by CLBlast. */
typedef enum child_task { TASK_BUILD, TASK_LIST, TASK_CLBLAST, N_TASKS } child_task;

enum { MAX_ORDER_BYTES = 4 << 20 };

/* A program to build, and the sizes of the one launch that follows. */
typedef struct order {
  uint32_t n_args, is_wide, compute;
  uint32_t instruction; /* 1 + the instruction that a trial launches; 0: none */
  uint64_t local_bytes; /* size of a parameter in local memory */
  uint64_t global[3], local[3];
  uint8_t kinds[MAX_LAUNCH_ARGS]; /* (n_args) arg_kind */
} order;

void build_greeting(const cl_device *opened, int device, greeting *out);
/* Sends first, then second, as one payload. False if the other end is gone or does not read. */
bool message_send(int socket, message_kind kind, uint32_t number, const void *first,
                  size_t first_size, const void *second, size_t second_size);
/* Receives a message. *payload is owned by the caller: note->size bytes and a terminating NUL.
 * Returns false and no payload on a timeout, a closed socket or an invalid message. */
bool message_receive(int socket, int timeout_ms, message *note, char **payload);

/* ---------------------------------------------------------------- child_trial.c */

/* UNTRIED: no child could do it. HARMED: the driver ended the child, or did not return in time. */
typedef enum child_outcome { CHILD_GOOD, CHILD_UNTRIED, CHILD_HARMED } child_outcome;
/* Has a child process do a task other than TASK_BUILD. reason (size bytes): set if HARMED. */
child_outcome child_try(const greeting *task, int seconds, char *reason, size_t size);
/* True unless the system or the user ended the child. ended: as returned by child_end. */
bool is_crash(int ended);
/* Describes the end of a child that tried a driver. late_s: seconds in which it did not answer, or
 * 0. */
void describe_trial_end(int late_s, int ended, char *out, size_t size);

#endif
