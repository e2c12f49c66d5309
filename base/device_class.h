#ifndef BASE_DEVICE_CLASS_H
#define BASE_DEVICE_CLASS_H
/* CLAVE_DEVICE_CLASS: words that make a device run the kernels of another class, for tests. */
#include <stdbool.h>

#include "base/status.h"

typedef struct device_class {
  bool cpu, gpu; /* an OpenCL device runs the kernels of this class; the last word wins */
  bool wide;     /* OpenCL kernels use 64-bit indices everywhere */
  bool slow;     /* OpenCL launches are split as if the device were slow */
  /* The CPU backend uses at most AVX-512, at most AVX2, or only what every processor has. */
  bool avx512, avx2, portable;
} device_class;

/* Reads the environment variable. Fails with INVALID on an unknown word. */
clave_status device_class_read(device_class *out) STATUS_CHECK;

#endif
