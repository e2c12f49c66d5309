#ifndef CLI_VALUES_H
#define CLI_VALUES_H
/* Reads, writes and summarises single elements of host tensors in every dtype. */
#include <stdbool.h>
#include <stdint.h>

#include "clave.h"

bool is_integer(clave_dtype type); /* true for BOOL, too */
/* True if the dtype, an integer dtype except U64 or BOOL (0 and 1), can hold the value. */
bool fits_dtype(clave_dtype type, int64_t value);
/* Pointers to elements may be unaligned. */
/* Loads an element of an integer dtype or BOOL. For U64, returns its bits. */
int64_t load_integer(clave_dtype type, const void *element);
double load_number(clave_dtype type, const void *element); /* any dtype */
/* Rounds to nearest even; an integer dtype must be able to hold the value. */
void store_number(clave_dtype type, double value, void *element);

uint64_t count_elements(const clave_tensor *tensor);
bool is_contiguous(const clave_tensor *tensor);
/* Returns element `flat` in row-major order. */
const void *values_element_at(const clave_tensor *tensor, uint64_t flat);

/* Summary of the elements that are not NaN; all zero if there are none. */
typedef struct tensor_summary {
  double min, mean, max;
  uint64_t count, n_nan;
} tensor_summary;
tensor_summary summarise_tensor(const clave_tensor *tensor);

#endif
