#ifndef BACKEND_CPU_KERNELS_CONV_CONV_WEIGHT_H
#define BACKEND_CPU_KERNELS_CONV_CONV_WEIGHT_H
/* Weights of convolutions as floats. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "base/encoding.h"
#include "base/kernel.h"

/* A row is all that an output is multiplied with. */
typedef struct conv_weight {
  const void *data; /* (rows, row) */
  dtype type;
  encoding encoding; /* unless plain, of rows from axis 1 on */
  int64_t row;
} conv_weight;
/* Elements [at, at + n) of a row. */
void conv_weight_load(const conv_weight *weight, int64_t row, int64_t at, int64_t n, float *to);

static inline int64_t conv_weight_rows(const conv_args *args) {
  return args->groups * (args->transposed ? args->channels : args->outputs);
}
static inline int64_t conv_weight_row(const conv_args *args) {
  return (args->transposed ? args->outputs : args->channels) * kernel_size(args);
}

/* Of codes that are not in panels all are made floats in each run: conv_decoded is the convolution
 * by what conv_decode writes to `to`, of conv_decoded_bytes. */
bool conv_decodes(const conv_args *args);
size_t conv_decoded_bytes(const conv_args *args); /* 0: it does not */
void conv_decode(const kernel_context *ctx, const conv_args *args, void *to);
conv_args conv_decoded(const conv_args *args, char *to);

#endif
