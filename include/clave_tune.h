#ifndef CLAVE_TUNE_H
#define CLAVE_TUNE_H
/* Tuning: selects the kernel variants that a device runs for given sizes. By default a rule selects
 * them. A device's tuning table, filled by measuring, overrides the rule. It is stored in the cache
 * folder (CLAVE_CACHE_DIR) and read when the device is opened; changes affect only sessions that
 * are created later. docs/howto/tune.md lists the families. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Origin of a choice. */
typedef enum clave_tune_how {
  CLAVE_TUNE_BEGINS = 0,    /* about to be measured */
  CLAVE_TUNE_MEASURED = 1,  /* measured, and now in the table */
  CLAVE_TUNE_KNOWN = 2,     /* was already in the table */
  CLAVE_TUNE_BY_RULE = 3,   /* not measured (dry) */
  CLAVE_TUNE_UNMEASURED = 4 /* not measured: the rule's variant fails or is wrong on test data */
} clave_tune_how;

/* A choice among variants for nodes of the program; texts are valid during the call. */
typedef struct clave_tune_event {
  size_t size;                   /* sizeof(clave_tune_event) */
  const char *device;            /* name of the preferred device, or of the CPU backend */
  const char *family, *key;      /* family of kernels; sizes and dtypes */
  const char *variant, *by_rule; /* the selected variant, and the rule's */
  double ratio;                  /* time of variant / time of by_rule */
  uint32_t n_variants;           /* number of variants compared */
  clave_tune_how how;
  uint32_t done, total; /* numbers of choices */
} clave_tune_event;

typedef struct clave_tune_options {
  size_t size;     /* sizeof(clave_tune_options) */
  bool again;      /* also measure choices that are in the table */
  bool dry;        /* measure and change nothing */
  bool unkept;     /* keep winners in this device object only; otherwise each is written to the
                      cache folder when found, and a missing folder is an error */
  double budget_s; /* seconds; 0: unlimited */
  bool (*report)(void *ctx, const clave_tune_event *event); /* false stops tuning; may be NULL */
  bool (*cancel)(void *ctx); /* called between measurements; true stops tuning; may be NULL */
  void *ctx;
} clave_tune_options;

typedef struct clave_tune_result {
  size_t size;          /* sizeof(clave_tune_result) */
  uint32_t total, done; /* choices; done < total if the budget or a callback stopped the tuning */
  bool has_rest;        /* true if nodes after a size that is read from data were left out */
} clave_tune_result;

/* Measures kernel variants for the method's current inputs, in separate memory: the session keeps
 * its state, results and variants. A variant wins if its results are right and it is faster than
 * the rule's by more than noise. Fails while the CPU backend runs in the device's place
 * (warm_up). */
CLAVE_API clave_status clave_session_tune(clave_session *session, const char *method,
                                          const clave_tune_options *options,
                                          clave_tune_result *result) CLAVE_CHECK;

/* ---------------------------------------------------------------- a device's table */

typedef struct clave_tuning_row {
  size_t size; /* sizeof(clave_tuning_row) */
  char family[24], key[224], variant[32];
} clave_tuning_row;

/* Returns row `index` of the preferred device's current table, below clave_device_info.n_tuned. */
CLAVE_API clave_status clave_tuning_get(const clave_device *device, uint32_t index,
                                        clave_tuning_row *row) CLAVE_CHECK;
/* Identifies the devices that a table is for: kind, name, platform, driver, version; one line,
 * borrowed. */
CLAVE_API const char *clave_tuning_device(const clave_device *device);
/* Adds a row, or replaces the row of the same family and key ("*": all keys without a row). A row
 * whose variant does not exist or cannot run has no effect. */
CLAVE_API clave_status clave_tuning_put(clave_device *device, const char *family, const char *key,
                                        const char *variant) CLAVE_CHECK;
/* Writes the rows that were put to the cache folder; fails if none exists. */
CLAVE_API clave_status clave_tuning_save(clave_device *device) CLAVE_CHECK;
/* Removes all rows and the table's file. */
CLAVE_API clave_status clave_tuning_clear(clave_device *device) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif

#endif
