#ifndef BASE_TUNING_H
#define BASE_TUNING_H
/* Which variant of a kernel a device runs for which sizes, as was measured: a tuning table has the
 * names of variants that are faster than those that variants.h takes by their cost. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/encoding.h"
#include "base/status.h"
#include "base/variants.h"

/* Bytes with the NUL; and the most rows of a table. */
enum { TUNING_FAMILY = 24, TUNING_KEY = 224, TUNING_VARIANT = 32, TUNING_MOST = 8192 };

/* Texts of printable ASCII. key: sizes and dtypes; "*": all that have no row of their own. */
typedef struct tuning_row {
  char family[TUNING_FAMILY], key[TUNING_KEY], variant[TUNING_VARIANT];
} tuning_row;

typedef struct tuning tuning; /* used by any number of threads */
clave_status tuning_create(tuning **out) STATUS_CHECK;
void tuning_destroy(tuning *tuning); /* takes NULL */
/* A row, in place of one of the same family and key. INVALID: a text that none can be, or too many
 * rows. */
clave_status tuning_put(tuning *tuning, const char *family, const char *key,
                        const char *variant) STATUS_CHECK;
/* Row i by family and key; false: there are fewer. */
bool tuning_get(const tuning *tuning, size_t i, tuning_row *out);
size_t tuning_count(const tuning *tuning);
/* Changes with each row that is put or taken away. */
uint64_t tuning_version(const tuning *tuning);
bool tuning_find(const tuning *tuning, const char *family, const char *key, tuning_row *out);
void tuning_clear(tuning *tuning);

/* ---------------------------------------------------------------- in a folder */

/* The file of a device in a folder (owned); NULL when memory is out. device: what it is known by,
 * one line. */
char *tuning_path(const char *folder, const char *device);
/* Adds the rows of a file. *why: none was added, for a reason that is worth a note (static); NULL:
 * all are there, or there is no file. */
clave_status tuning_load(tuning *tuning, const char *path, const char *device,
                         const char **why) STATUS_CHECK;
/* Writes the rows that were put, and what else the file has by now; whole, under the folder's lock.
 */
clave_status tuning_save(tuning *tuning, const char *folder, const char *device) STATUS_CHECK;
/* The files of all devices. */
void tuning_measure(const char *folder, uint64_t *bytes, uint64_t *files); /* adds to both */
uint64_t tuning_remove(const char *folder);                                /* bytes */

/* ---------------------------------------------------------------- choosing */

enum { MOST_VARIANTS = 24, MOST_CHOICES = 8 };

/* One that was made: among those that can run. */
typedef struct variant_choice {
  char family[TUNING_FAMILY], key[TUNING_KEY];
  const char *names[MOST_VARIANTS]; /* static */
  int n, by_rule, taken;
  bool rounds_apart;
} variant_choice;

/* Those of a node while it is recorded, for who measures variants. */
typedef struct variant_choices {
  const tuning *first; /* asked before the device's table; NULL */
  variant_choice items[MOST_CHOICES];
  int n;
} variant_choices;

/* Sizes as the text of a key; nothing is written where none is wanted. */
typedef struct tuning_key {
  bool is_wanted;
  size_t size;
  char text[768]; /* what is too long is told apart by its hash */
} tuning_key;
tuning_key tuning_key_begin(const tuning *tuning, const variant_choices *choices);
/* "m=64", "a=f32", behind a space. */
void tuning_key_int(tuning_key *key, const char *name, int64_t v);
void tuning_key_text(tuning_key *key, const char *name, const char *value);
/* "NAME=int4:32:zeros"; nothing of what is plain. */
void tuning_key_encoding(tuning_key *key, const char *name, const encoding *encoding);

/* The variant to record: as the tables say, else by its cost; choices takes a note of it. tuning,
 * choices: or NULL.
 */
const kernel_variant *tuning_choose(const tuning *tuning, variant_choices *choices,
                                    const variants *all, const tuning_key *key);

#endif
