#ifndef CLAVE_TUNE_H
#define CLAVE_TUNE_H
/* Tuning: which variants of kernels a device runs for which sizes. A rule takes one where nothing
 * else is known; a device's tuning table, which measuring fills, knows better. It lies in the cache
 * folder (CLAVE_CACHE_DIR), is read when the device is opened, and counts for sessions that are
 * created from then on. docs/tuning.md has the families. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a choice came about. */
typedef enum clave_tune_how {
  CLAVE_TUNE_BEGINS = 0,    /* it is about to be measured */
  CLAVE_TUNE_MEASURED = 1,  /* and is in the table now */
  CLAVE_TUNE_KNOWN = 2,     /* it was in the table before */
  CLAVE_TUNE_BY_RULE = 3,   /* nothing was measured (dry) */
  CLAVE_TUNE_UNMEASURED = 4 /* what the rule takes fails, or gives wrong results, on data made up */
} clave_tune_how;

/* A choice among variants that nodes of the program make; texts live for the call. */
typedef struct clave_tune_event {
  size_t size;                   /* sizeof(clave_tune_event) */
  const char *device;            /* its name: of the preferred one, or the CPU backend */
  const char *family, *key;      /* what is chosen, and for which sizes and dtypes */
  const char *variant, *by_rule; /* what is taken, and what the rule takes */
  double ratio;                  /* the variant's time to that of by_rule */
  uint32_t n_variants;           /* that were compared */
  clave_tune_how how;
  uint32_t done, total; /* choices */
} clave_tune_event;

typedef struct clave_tune_options {
  size_t size;     /* sizeof(clave_tune_options) */
  bool again;      /* what is in the table is measured, too */
  bool dry;        /* nothing is measured or changed */
  bool unkept;     /* winners count for this device object alone; else they go to the cache folder
                      as they are found, and without one it is an error */
  double budget_s; /* 0: none */
  bool (*report)(void *ctx, const clave_tune_event *event); /* false stops; may be NULL */
  bool (*cancel)(void *ctx); /* asked between measurements; true stops; may be NULL */
  void *ctx;
} clave_tune_options;

typedef struct clave_tune_result {
  size_t size; /* sizeof(clave_tune_result) */
  uint32_t total,
      done;      /* choices: fewer are done where the budget was spent or a callback stopped */
  bool has_rest; /* what comes behind a size that is read from data is not among them */
} clave_tune_result;

/* Measures the variants for the method's inputs as they are set, on memory of its own: the
 * session's state and results stay, and so do its own variants. A variant wins if its results are
 * right and it is faster than the rule's by more than noise. An error while the CPU backend answers
 * for the device (warm_up). */
CLAVE_API clave_status clave_session_tune(clave_session *session, const char *method,
                                          const clave_tune_options *options,
                                          clave_tune_result *result) CLAVE_CHECK;

/* ---------------------------------------------------------------- a device's table */

typedef struct clave_tuning_row {
  size_t size; /* sizeof(clave_tuning_row) */
  char family[24], key[224], variant[32];
} clave_tuning_row;

/* Of the preferred device, as it is now: rows 0 to clave_device_info.n_tuned - 1. */
CLAVE_API clave_status clave_tuning_get(const clave_device *device, uint32_t index,
                                        clave_tuning_row *row) CLAVE_CHECK;
/* What tables of the device are for: kind, name, platform, driver, version; one line, borrowed. */
CLAVE_API const char *clave_tuning_device(const clave_device *device);
/* A row, in place of one of the same family and key ("*": all keys that have no row). What names
 * no variant that can run has no effect. */
CLAVE_API clave_status clave_tuning_put(clave_device *device, const char *family, const char *key,
                                        const char *variant) CLAVE_CHECK;
/* Writes what was put to the cache folder; an error if there is none. */
CLAVE_API clave_status clave_tuning_save(clave_device *device) CLAVE_CHECK;
/* Forgets the table, and its file. */
CLAVE_API clave_status clave_tuning_clear(clave_device *device) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif

#endif
