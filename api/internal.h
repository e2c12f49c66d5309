#ifndef API_INTERNAL_H
#define API_INTERNAL_H
/* The objects behind include/clave.h. */
#include <stdatomic.h>

#include "base/memory.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/threads.h"
#include "clave.h"
#include "clave_debug.h"
#include "interp/interp.h"

struct clave_device {
  atomic_int holds; /* owners: the caller's, sessions, placements */
  device_set set;   /* owned backends, the preferred one first */
  clave_device_info info;
  unsigned generation;          /* of the process that opened it (base/process.h) */
  char *cache_dir;              /* owned; NULL: none */
  text tuned_for[MAX_BACKENDS]; /* owned: what the backends' tuning tables are for */
  clave_message_fn message;     /* the caller's; may be NULL */
  void *message_ctx;
};

/* A program's constants on one opened device, while a session there uses them. */
typedef struct shared_store {
  constant_store *store;
  int users;
} shared_store;

/* A program on a set of devices, while a session uses it. */
typedef struct shared_executable {
  executable *executable;
  int users;
} shared_executable;

struct clave_program {
  atomic_int holds; /* the caller's and its sessions' */
  program *program;
  clave_program *base;  /* held: the program whose constants this one borrows; NULL */
  mutex *lock;          /* of what follows */
  shared_store *stores; /* owned */
  size_t n_stores;
  shared_executable *executables; /* owned */
  size_t n_executables;
  mem_pool *pool;       /* texts made on request */
  const char ***detail; /* [chain][instruction], NULL until asked for */
};

struct clave_session {
  clave_program *program; /* held */
  clave_device *device;   /* held */
  constant_store *stores[MAX_BACKENDS];
  int n_stores;
  executable *executable;
  session *session;       /* that answers */
  executable *stand_in_x; /* the CPU backend's, while the device is made ready; or NULL */
  warm_up *warm;          /* owned; NULL: s is on the device */
  const char *answered_by;
  clave_observe_fn observe; /* or edit; both NULL: nobody looks */
  clave_edit_fn edit;
  void *observe_ctx;
  peak_list peaks; /* owned */
};

/* INVALID: the process was forked after the device was opened. What was made of such a device is
 * not run, and not taken down either: its memory goes with the process. */
clave_status device_check_process(const clave_device *device) STATUS_CHECK;

/* INVALID: the CPU backend answers while the device's kernels are built. what: "... can be done".
 */
clave_status session_check_answers(const clave_session *session, const char *what) STATUS_CHECK;

/* The public object of a program, which it owns, also on failure. */
clave_status program_wrap(program *program, clave_program **out) STATUS_CHECK;
bool program_is_in_use(clave_program *program); /* true if sessions use it */
/* The store of `backend`, made if this is its first user. */
clave_status program_take_store(clave_program *program, backend *backend,
                                constant_store **out) STATUS_CHECK;
void program_release_store(clave_program *program, constant_store *store); /* takes NULL */
/* The executable of these devices and options, made if this is its first user. */
clave_status program_take_executable(clave_program *program, const device_set *devices,
                                     const executable_options *options,
                                     executable **out) STATUS_CHECK;
void program_release_executable(clave_program *program, executable *executable); /* takes NULL */
/* What of a session's options decides how its program is compiled, and CLAVE_PRECISION. */
clave_status read_executable_options(const clave_session_options *given,
                                     executable_options *out) STATUS_CHECK;
/* What of them is the session's own, and what the environment says of it. */
clave_status read_session_options(const clave_session_options *given,
                                  session_options *out) STATUS_CHECK;
/* NULL names the first method. A name that the program itself returned is found by its address, so
 * a caller that keeps it, as llm/ does, has resolved it once. */
clave_status program_find_method(const clave_program *program, const char *name,
                                 uint32_t *out) STATUS_CHECK;

/* The folder of kernel binaries: `given`, else CLAVE_CACHE_DIR, else the XDG cache. *out (owned) is
 * NULL for none, else an absolute path, unless the working folder is gone. */
clave_status cache_folder(const char *given, char **out) STATUS_CHECK;

/* ---- tuning_tables.c ---- */
/* What tables of a device are for, one line. */
clave_status tuning_identity(const backend_info *info, text *out) STATUS_CHECK;
/* Tables for all backends, with what the cache folder has. */
clave_status device_open_tables(clave_device *device) STATUS_CHECK;
void device_close_tables(clave_device *device); /* before its backends are destroyed */
/* Rows of the table that the folder has for a device, by its identity; 0: none, or it is damaged.
 */
uint32_t tuning_count_kept(const char *folder, const char *device);

tensor tensor_from_public(const clave_tensor *tensor);
void tensor_to_public(const tensor *tensor, const void *data, clave_tensor *out);

#endif
