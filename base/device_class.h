#ifndef BASE_DEVICE_CLASS_H
#define BASE_DEVICE_CLASS_H
/* CLAVE_DEVICE_CLASS: a list of words by which tests give a device other kernels than its own. */
#include <stdbool.h>

#include "base/status.h"

typedef struct device_class {
  bool cpu, gpu; /* an OpenCL device has the kernels of that class; the last of both counts */
  bool wide;     /* they have 64-bit indices everywhere */
  /* The CPU backend uses AVX-512 at most, AVX2 at most, or what any processor has. */
  bool avx512, avx2, portable;
} device_class;

/* Of the environment. INVALID: a word that is none of these. */
clave_status device_class_read(device_class *out) STATUS_CHECK;

#endif
