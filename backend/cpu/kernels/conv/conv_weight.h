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
void conv_weight_load(const conv_weight *w, int64_t row, int64_t at, int64_t n, float *to);

static inline int64_t conv_weight_rows(const conv_args *p) {
  return p->groups * (p->transposed ? p->channels : p->outputs);
}
static inline int64_t conv_weight_row(const conv_args *p) {
  return (p->transposed ? p->outputs : p->channels) * kernel_size(p);
}

/* Of codes that are not in panels all are made floats in each run: conv_decoded is the convolution
 * by what conv_decode writes to `to`, of conv_decoded_bytes. */
bool conv_decodes(const conv_args *p);
size_t conv_decoded_bytes(const conv_args *p); /* 0: it does not */
void conv_decode(const kernel_context *ctx, const conv_args *p, void *to);
conv_args conv_decoded(const conv_args *p, char *to);

#endif
