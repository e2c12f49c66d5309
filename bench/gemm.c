/* gemm PROGRAM DEVICE M N K ROUNDS [fast]: compares our GEMM, in strict or fast precision, with
 * OpenBLAS's f32 GEMM, alternating in one process. PROGRAM has two methods, "one" and "five", which
 * multiply one and five matrices (M, K) by one constant (K, N). The difference of their times is
 * the time of four products, without a run's overhead. Prints GFLOP/s of both and their ratio. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common.h"

static double time_blas(int m, int n, int k, const float *left, const float *right, float *counts) {
  double begin = now_s();
  for (int i = 0; i < 4; i++)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, left, k, right, n, 0.0f,
                counts, n);
  return now_s() - begin;
}

int main(int argc, char **argv) {
  clave_session_options options = {.size = sizeof options};
  options.fast = argc == 8 && !strcmp(argv[7], "fast");
  if (argc != 7 && !options.fast) {
    fprintf(stderr, "usage: gemm PROGRAM DEVICE M N K ROUNDS [fast]\n");
    return 2;
  }
  int m = atoi(argv[3]), n = atoi(argv[4]), k = atoi(argv[5]), rounds = atoi(argv[6]);
  if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
  float *left = calloc((size_t)m * (size_t)k, sizeof *left),
        *right = calloc((size_t)k * (size_t)n, sizeof *right);
  float *counts = calloc((size_t)m * (size_t)n, sizeof *counts);
  bench_session session;
  open_session_as(&session, argv[1], argv[2], &options);
  double ours[MAX_ROUNDS], theirs[MAX_ROUNDS];
  for (int r = -2; r < rounds; r++) { /* two rounds of warm-up */
    double one = time_run(&session, "one"), five = time_run(&session, "five"),
           blas = time_blas(m, n, k, left, right, counts);
    if (r >= 0) ours[r] = five - one, theirs[r] = blas;
  }
  double work = 4 * 2e-9 * m * n * (double)k, x = work / median(ours, rounds),
         y = work / median(theirs, rounds);
  clave_device_info device = {.size = sizeof device};
  check(clave_device_get_info(session.device, &device));
  printf("{\"clave\": %.1f, \"openblas\": %.1f, \"ratio\": %.3f, \"device\": \"%s\"}\n", x, y,
         x / y, device.name);
  close_session(&session);
  free(left);
  free(right);
  free(counts);
  return 0;
}
