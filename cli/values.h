#ifndef CLI_VALUES_H
#define CLI_VALUES_H
/* Single elements of host tensors: read, written and summarised, in every dtype. */
#include <stdbool.h>
#include <stdint.h>

#include "clave.h"

bool is_integer(clave_dtype type);                /* BOOL too */
bool fits_dtype(clave_dtype type, int64_t value); /* an integer dtype; BOOL: 0 and 1; not U64 */
/* element may be unaligned */
/* Integer dtypes and BOOL; U64: its bits. */
int64_t load_integer(clave_dtype type, const void *element);
double load_number(clave_dtype type, const void *element); /* any dtype */
/* Rounds to nearest even; integers must fit. */
void store_number(clave_dtype type, double value, void *element);

uint64_t count_elements(const clave_tensor *tensor);
bool is_contiguous(const clave_tensor *tensor);
/* Element number `flat` in row-major order. */
const void *element_at(const clave_tensor *tensor, uint64_t flat);

/* Over the elements that are numbers; all zero if there are none. */
typedef struct tensor_summary {
  double min, mean, max;
  uint64_t count, n_nan;
} tensor_summary;
tensor_summary summarise_tensor(const clave_tensor *tensor);

#endif
