/* Records Fft. */
#include "ops/fft.h"

#include "backend/cpu/kernels/fft.h"
#include "cpu_ops.h"

_Static_assert((int)KFFT_MAX_PASSES == FFT_MAX_PASSES, "a plan's passes fit into the arguments");

static const kfft_kind kinds[IR_FFT_KIND_COUNT] = {
    [IR_FFT_KIND_COMPLEX] = KFFT_COMPLEX,
    [IR_FFT_KIND_FROM_REAL] = KFFT_FROM_REAL,
    [IR_FFT_KIND_TO_REAL] = KFFT_TO_REAL,
};

clave_status cpu_fft(cpu_recorder *recorder, const node *node) {
  fft_desc desc;
  describe_fft(node, &desc);
  fft_args args = {.kind = kinds[desc.kind],
                   .x = cpu_view(recorder, desc.x, &desc.rows[0]),
                   .out = cpu_view(recorder, desc.out, &desc.rows[1]),
                   .x_pair = desc.pair[0],
                   .out_pair = desc.pair[1],
                   .n_rows = desc.n_rows,
                   .n = desc.n,
                   .n_in = desc.n_in,
                   .n_out = desc.n_out,
                   .length = desc.plan.length,
                   .inverse = desc.inverse,
                   .chirp = desc.chirp,
                   .scale = desc.scale};
  args.n_passes = fft_passes(&desc.plan, args.radices);
  return cpu_launch(recorder, fft, &args);
}
