#ifndef IMPORT_TFLITE_FLEXBUFFER_H
#define IMPORT_TFLITE_FLEXBUFFER_H
/* Reads maps of numbers in FlexBuffers, the options of some custom ops. */
#include <stdbool.h>

#include "base/memory.h"

/* Sets *out to the number, or 0 or 1 for a bool, with this key in the map that is the buffer's
 * root. Returns false if the map has no such number, or the buffer is damaged. */
bool flex_number(span buffer, const char *key, double *out);

#endif
