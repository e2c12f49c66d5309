/* A row of an image with zeros around it, in private memory. */
#ifndef COPY
#define COPY 16 /* floats at once; room for so many lies behind a copied row */
#endif

/* to[0, width): `left` zeros, n floats from `from` on, where `there` may be read, and zeros. */
static inline void copy_row(float *to, const __global float *from, int left, int n, index_t there,
                            int width) {
  for (int k = 0; k < left; k += COPY) vstore16((float16)0, 0, to + k);
  to += left;
  for (int k = 0; k < n; k += COPY) {
    if (there - k >= COPY)
      vstore16(vload16(0, from + k), 0, to + k);
    else
      for (int l = k; l < n; l++) to[l] = from[l];
  }
  for (int k = n; k < width - left; k += COPY) vstore16((float16)0, 0, to + k);
}
