#ifndef BASE_TUNING_ROWS_H
#define BASE_TUNING_ROWS_H
/* The internals of a tuning table, shared by tuning_rows.c and tuning_file.c. */
#include "base/threads.h"
#include "base/tuning.h"

typedef struct table_row {
  tuning_row row;
  bool is_new; /* added in this process, not yet in the file */
} table_row;

struct tuning {
  mutex *lock;     /* protects the following members */
  table_row *rows; /* owned; sorted by family and key */
  size_t n, capacity;
  uint64_t version;
};

clave_status tuning_check(const char *family, const char *key, const char *variant) STATUS_CHECK;
/* Returns the index of the row, or where to insert it. The caller holds the lock. */
size_t tuning_place_of(const tuning *tuning, const char *family, const char *key, bool *found);
/* Adds or replaces a row that was checked. The caller holds the lock. */
clave_status tuning_set(tuning *tuning, const tuning_row *row, bool is_new) STATUS_CHECK;

#endif
