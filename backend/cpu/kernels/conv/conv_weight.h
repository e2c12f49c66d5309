#ifndef BACKEND_CPU_KERNELS_CONV_CONV_WEIGHT_H
#define BACKEND_CPU_KERNELS_CONV_CONV_WEIGHT_H
/* Reads weights of convolutions as floats. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "base/encoding.h"
#include "base/kernel.h"

/* The weight as rows along axis 0: the weights of one output, or of one input channel if the
 * convolution is transposed. */
typedef struct conv_weight {
  const void *data; /* (rows, row) */
  dtype type;
  encoding encoding; /* encoding of rows, unless plain */
  int64_t row;       /* elements of a row */
} conv_weight;
/* Loads elements [at, at + n) of a row. */
void conv_weight_load(const conv_weight *weight, int64_t row, int64_t at, int64_t n, float *to);

/* The number of rows of a weight, and of elements of a row. */
static inline int64_t conv_weight_rows(const conv_args *args) {
  return args->groups * (args->transposed ? args->channels : args->outputs);
}
static inline int64_t conv_weight_row(const conv_args *args) {
  return (args->transposed ? args->outputs : args->channels) * kernel_size(args);
}

/* An encoded weight that is not packed is decoded to floats in each run. conv_decode writes
 * conv_decoded_bytes to `to`; conv_decoded returns the convolution that reads them. */
bool conv_decodes(const conv_args *args);
size_t conv_decoded_bytes(const conv_args *args); /* 0 if !conv_decodes */
void conv_decode(const kernel_context *ctx, const conv_args *args, void *to);
conv_args conv_decoded(const conv_args *args, char *to);

#endif
