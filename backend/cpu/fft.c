/* Fft. */
#include "ops/fft.h"

#include "backend/cpu/kernels/fft.h"
#include "cpu_ops.h"

_Static_assert((int)KFFT_MAX_PASSES == FFT_MAX_PASSES, "a plan's passes fit into the arguments");

static const kfft_kind kinds[IR_FFT_KIND_COUNT] = {
    [IR_FFT_KIND_COMPLEX] = KFFT_COMPLEX,
    [IR_FFT_KIND_FROM_REAL] = KFFT_FROM_REAL,
    [IR_FFT_KIND_TO_REAL] = KFFT_TO_REAL,
};

clave_status cpu_fft(cpu_recorder *r, const node *n) {
  fft_form f;
  describe_fft(n, &f);
  fft_args args = {.kind = kinds[f.kind],
                   .x = cpu_view(r, f.x, &f.rows[0]),
                   .out = cpu_view(r, f.out, &f.rows[1]),
                   .x_pair = f.pair[0],
                   .out_pair = f.pair[1],
                   .n_rows = f.n_rows,
                   .n = f.n,
                   .n_in = f.n_in,
                   .n_out = f.n_out,
                   .length = f.plan.length,
                   .inverse = f.inverse,
                   .chirp = f.chirp,
                   .scale = f.scale};
  args.n_passes = fft_passes(&f.plan, args.radices);
  return cpu_launch(r, fft, &args);
}
