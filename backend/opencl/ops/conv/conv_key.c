/* The sizes and dtypes of a convolution that decide how fast its variants are. */
#include "backend/opencl/ops/conv/conv_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sizes of the three dimensions, a field of conv_dim. */
static void add_sizes(tuning_key *k, const char *name, const conv_form *f, size_t field) {
  char value[80];
  int64_t n[3];
  for (int i = 0; i < 3; i++) memcpy(&n[i], (const char *)&f->dims[i] + field, sizeof n[i]);
  (void)snprintf(value, sizeof value, "%" PRId64 "x%" PRId64 "x%" PRId64, n[0], n[1], n[2]);
  tuning_key_text(k, name, value);
}

tuning_key conv_key(const cl_recorder *s, const conv_form *f) {
  tuning_key k = recorder_key(s);
  if (!k.is_wanted) return k;
  tuning_key_text(&k, f->transposed ? "transposed" : "x", dtype_name(f->x->t.type));
  tuning_key_text(&k, "weight", dtype_name(f->weight->t.type));
  tuning_key_encoding(&k, "encoding", &f->weight->t.encoding);
  tuning_key_int(&k, "images", f->images);
  tuning_key_int(&k, "groups", f->groups);
  tuning_key_int(&k, "channels", f->channels);
  tuning_key_int(&k, "outputs", f->outputs);
  add_sizes(&k, "in", f, offsetof(conv_dim, in));
  add_sizes(&k, "out", f, offsetof(conv_dim, out));
  add_sizes(&k, "kernel", f, offsetof(conv_dim, kernel));
  add_sizes(&k, "stride", f, offsetof(conv_dim, stride));
  add_sizes(&k, "dilation", f, offsetof(conv_dim, dilation));
  tuning_key_int(&k, "constant", f->weight->is_constant);
  return k;
}
