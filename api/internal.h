#ifndef API_INTERNAL_H
#define API_INTERNAL_H
/* The objects of the public API (include/clave.h), and the functions that its files share. */
#include <stdatomic.h>

#include "base/memory.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/threads.h"
#include "clave.h"
#include "clave_debug.h"
#include "interp/interp.h"

struct clave_device {
  atomic_int holds; /* number of owners: callers, sessions, placements */
  device_set set;   /* owns its backends; the preferred one first */
  clave_device_info info;
  unsigned generation;          /* identifies the opening process (base/process.h) */
  char *cache_dir;              /* owned; NULL: none */
  text tuned_for[MAX_BACKENDS]; /* owned; identities of the backends' tuning tables */
  clave_message_fn message;     /* set by the caller; may be NULL */
  void *message_ctx;
};

/* A program's constants on one backend; destroyed with its last user. */
typedef struct shared_store {
  constant_store *store;
  int users;
} shared_store;

/* A program's executable for a set of devices; destroyed with its last user. */
typedef struct shared_executable {
  executable *executable;
  int users;
} shared_executable;

struct clave_program {
  atomic_int holds; /* number of holders: the caller, sessions, placements, programs based on it */
  program *program;
  clave_program *base;  /* held; the program whose constants this one borrows; or NULL */
  mutex *lock;          /* guards the members below */
  shared_store *stores; /* owned */
  size_t n_stores;
  shared_executable *executables; /* owned */
  size_t n_executables;
  mem_pool *pool;       /* owned; holds the texts of `detail` */
  const char ***detail; /* [chain][instruction], each made when first requested */
};

struct clave_session {
  clave_program *program; /* held */
  clave_device *device;   /* held */
  constant_store *stores[MAX_BACKENDS];
  int n_stores;
  executable *executable;
  session *session;               /* runs the program; replaced when the warm-up ends */
  executable *warm_up_executable; /* executable of the session that runs on the CPU backend during a
                             warm-up; or NULL */
  warm_up *warm;                  /* owned; NULL: without warm-up */
  const char *answered_by;
  clave_observe_fn observe; /* at most one of this and `edit` is set */
  clave_edit_fn edit;
  void *observe_ctx;
  peak_list peaks; /* owned */
};

/* Returns a number that is higher for a better device: GPUs with memory of their own come before
 * other GPUs, accelerators, CPUs and software renderers, and within these the estimate of speed
 * decides. */
uint64_t device_rank(const backend_info *info);
bool device_outranks_cpus(const backend_info *info); /* false for CPUs and software renderers */

/* Fails with INVALID if the process was forked after the device was opened. Objects of such a
 * device are neither run nor destroyed: their memory goes with the process. */
clave_status device_check_process(const clave_device *device) STATUS_CHECK;

/* Fails with INVALID while the CPU backend runs in the device's place during a warm-up. what: "...
 * can be done", the operation, for the message. */
clave_status session_check_answers(const clave_session *session, const char *what) STATUS_CHECK;

/* Makes the public object of a program, which it owns, also on failure. */
clave_status program_wrap(program *program, clave_program **out) STATUS_CHECK;
bool program_is_in_use(clave_program *program); /* true if sessions use it */
/* Returns the program's constant store for `backend`, made for its first user. */
clave_status program_take_store(clave_program *program, backend *backend,
                                constant_store **out) STATUS_CHECK;
void program_release_store(clave_program *program, constant_store *store); /* accepts NULL */
/* Returns the executable for these devices and options, made for its first user. */
clave_status program_take_executable(clave_program *program, const device_set *devices,
                                     const executable_options *options,
                                     executable **out) STATUS_CHECK;
void program_release_executable(clave_program *program, executable *executable); /* accepts NULL */
/* Reads the options of a session that its executable depends on, and CLAVE_PRECISION. */
clave_status read_executable_options(const clave_session_options *given,
                                     executable_options *out) STATUS_CHECK;
/* Reads the other options of a session, and their environment variables. */
clave_status read_session_options(const clave_session_options *given,
                                  session_options *out) STATUS_CHECK;
/* Sets *out to the index of a method; NULL names the first. Fails with INVALID if no method has
 * that name. A name that the program itself returned, as llm/ keeps it, is found by its address
 * without comparing names. */
clave_status program_find_method(const clave_program *program, const char *name,
                                 uint32_t *out) STATUS_CHECK;

/* Sets *out (owned) to the folder of kernel binaries: `given`, else CLAVE_CACHE_DIR, else the XDG
 * cache; NULL if none exists. The path is absolute unless the working folder no longer exists. */
clave_status cache_folder(const char *given, char **out) STATUS_CHECK;

/* ---- tuning_tables.c ---- */
/* Writes one line that identifies the devices that a table applies to. */
clave_status tuning_identity(const backend_info *info, text *out) STATUS_CHECK;
/* Creates the tables of all backends and loads them from the cache folder. */
clave_status device_open_tables(clave_device *device) STATUS_CHECK;
void device_close_tables(clave_device *device); /* call before its backends are destroyed */
/* Returns the number of rows of a device's table in the folder; 0 if it is missing or damaged. */
uint32_t tuning_count_kept(const char *folder, const char *device);

tensor tensor_from_public(const clave_tensor *tensor);
void tensor_to_public(const tensor *tensor, const void *data, clave_tensor *out);

#endif
