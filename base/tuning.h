#ifndef BASE_TUNING_H
#define BASE_TUNING_H
/* Measured choices of kernel variants for a device. A tuning table names the variants that are
 * faster for certain sizes than those that variants.h selects by cost. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/encoding.h"
#include "base/status.h"
#include "base/variants.h"

/* Capacities of a row's texts in bytes, with the NUL, and the maximum number of rows of a table. */
enum { TUNING_FAMILY = 24, TUNING_KEY = 224, TUNING_VARIANT = 32, TUNING_MAX = 8192 };

/* All texts are printable ASCII. key: sizes and dtypes, or "*" for all keys of the family without a
 * row of their own. */
typedef struct tuning_row {
  char family[TUNING_FAMILY], key[TUNING_KEY], variant[TUNING_VARIANT];
} tuning_row;

typedef struct tuning tuning; /* safe for any number of threads */
clave_status tuning_create(tuning **out) STATUS_CHECK;
void tuning_destroy(tuning *tuning); /* accepts NULL */
/* Adds a row, or replaces the row of the same family and key. Fails with INVALID on an invalid text
 * or too many rows. */
clave_status tuning_put(tuning *tuning, const char *family, const char *key,
                        const char *variant) STATUS_CHECK;
/* Sets *out to row i in the order of family and key. Returns false if there are fewer rows. */
bool tuning_get(const tuning *tuning, size_t i, tuning_row *out);
size_t tuning_count(const tuning *tuning);
/* Changes with each row that is added or removed. */
uint64_t tuning_version(const tuning *tuning);
bool tuning_find(const tuning *tuning, const char *family, const char *key, tuning_row *out);
void tuning_clear(tuning *tuning);

/* ---------------------------------------------------------------- in a folder */

/* Returns the path of a device's file in a folder; the caller frees it; NULL when memory is out.
 * device: one line that identifies the device. */
char *tuning_path(const char *folder, const char *device);
/* Adds the rows of a file. If the file exists but cannot be used, sets *why to the reason, a static
 * text, else to NULL. Such a file leaves the table unchanged. */
clave_status tuning_load(tuning *tuning, const char *path, const char *device,
                         const char **why) STATUS_CHECK;
/* Writes the new rows, merged with the file's current ones, under the folder's lock. */
clave_status tuning_save(tuning *tuning, const char *folder, const char *device) STATUS_CHECK;
/* Measure and remove the tuning files of all devices in a folder. */
void tuning_measure(const char *folder, uint64_t *bytes, uint64_t *files); /* adds to both */
uint64_t tuning_remove(const char *folder); /* returns the bytes removed */

/* ---------------------------------------------------------------- choosing */

enum { MAX_VARIANTS = 24, MAX_CHOICES = 8 };

/* A choice among the usable variants. by_rule, chosen: indices in `names` of the variant with the
 * lowest cost and of the chosen one. */
typedef struct variant_choice {
  char family[TUNING_FAMILY], key[TUNING_KEY];
  const char *names[MAX_VARIANTS]; /* static strings */
  int n, by_rule, chosen;
  bool changes_rounding;
} variant_choice;

/* The choices made while a node is recorded, for the tuner. */
typedef struct variant_choices {
  const tuning *first; /* looked up before the device's table; may be NULL */
  variant_choice items[MAX_CHOICES];
  int n;
} variant_choices;

/* A key that is being written, from sizes and dtypes. Nothing is written if neither a table nor the
 * tuner will read it. */
typedef struct tuning_key {
  bool is_wanted;
  size_t size;
  char text[768]; /* longer keys are abbreviated by a hash */
} tuning_key;
tuning_key tuning_key_begin(const tuning *tuning, const variant_choices *choices);
/* Append " m=64" or " a=f32". */
void tuning_key_int(tuning_key *key, const char *name, int64_t v);
void tuning_key_text(tuning_key *key, const char *name, const char *value);
/* Appends " NAME=int4:32:zeros"; appends nothing if the encoding is plain. */
void tuning_key_encoding(tuning_key *key, const char *name, const encoding *encoding);

/* Returns the variant to record: the one that a table names, else the usable one of the lowest
 * cost. Adds the choice to `choices`. tuning and choices may be NULL. */
const kernel_variant *tuning_choose(const tuning *tuning, variant_choices *choices,
                                    const variants *all, const tuning_key *key);

#endif
