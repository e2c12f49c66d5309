/* Winograd's method on a tile of TILE x TILE outputs of a 3x3 kernel, N = TILE + 2. The N x N
 * inputs are transformed to factors. Each factor is multiplied by the same factor of the weight and
 * summed over channels. The N x N sums are transformed to outputs. A transform handles rows first,
 * then columns. The points are 0, 1, -1 and infinity, or 0, +-POINT_A, +-POINT_B and infinity.
 * Products and quotients of these stay near 1, so that few digits are lost. */
#ifndef TILE
#define TILE 4 /* or 2 */
#endif
#ifndef LANES
#define LANES 1 /* tiles, or outputs, side by side */
#endif
#define N (TILE + 2)
#define FACTORS (N * N)
#define SIDE 3
#define POINT_A 0.625f
#define POINT_B 1.5f
#define POINT_A2 (POINT_A * POINT_A)
#define POINT_B2 (POINT_B * POINT_B)

#if LANES == 1
typedef float lanes;
#else
typedef PASTE(float, LANES) lanes;
#endif

/* Transforms N inputs of a row or column to factors. */
static inline void factors_of(const lanes d[N], lanes f[N]) {
#if TILE == 2
  f[0] = d[0] - d[2];
  f[1] = d[1] + d[2];
  f[2] = d[2] - d[1];
  f[3] = d[3] - d[1];
#else
  const lanes even_a = FMA((lanes)-POINT_B2, d[2], d[4]),
              odd_a = POINT_A * FMA((lanes)-POINT_B2, d[1], d[3]);
  const lanes even_b = FMA((lanes)-POINT_A2, d[2], d[4]),
              odd_b = POINT_B * FMA((lanes)-POINT_A2, d[1], d[3]);
  f[0] = FMA((lanes)(POINT_A2 * POINT_B2), d[0], FMA((lanes)(-POINT_A2 - POINT_B2), d[2], d[4]));
  f[1] = even_a + odd_a;
  f[2] = even_a - odd_a;
  f[3] = even_b + odd_b;
  f[4] = even_b - odd_b;
  f[5] = FMA((lanes)(POINT_A2 * POINT_B2), d[1], FMA((lanes)(-POINT_A2 - POINT_B2), d[3], d[5]));
#endif
}

/* Transforms N sums of a row or column to TILE outputs. */
static inline void outputs_of(const lanes s[N], lanes y[TILE]) {
#if TILE == 2
  y[0] = s[0] + s[1] + s[2];
  y[1] = s[1] - s[2] + s[3];
#else
  const lanes even_a = s[1] + s[2], odd_a = s[1] - s[2], even_b = s[3] + s[4], odd_b = s[3] - s[4];
  y[0] = s[0] + even_a + even_b;
  y[1] = FMA((lanes)POINT_B, odd_b, POINT_A * odd_a);
  y[2] = FMA((lanes)POINT_B2, even_b, POINT_A2 * even_a);
  y[3] = FMA((lanes)(POINT_B2 * POINT_B), odd_b, FMA((lanes)(POINT_A2 * POINT_A), odd_a, s[5]));
#endif
}

/* Parameters of the tiles of x, which are the rows of tiles from first_row on, counted over all
 * images. pitch: floats per channel of a factor. */
#define TILES_PARAMS                                                                          \
  const int channels, const int in_rows, const int in_columns, const int top, const int left, \
      const int tile_rows, const int tile_columns, const int first_row, const index_t pitch
/* Additional parameters of kernels that write outputs. Weight and bias have the model's layout and
 * are those of all groups. */
#define IMAGES_PARAMS                                                                    \
  const __global float *x, const long x_offset, const __global float *weight,            \
      const long weight_offset, const __global float *bias, const long bias_offset,      \
      __global float *out, const long out_offset, const int groups, const int n_outputs, \
      const int out_rows, const int out_columns

/* Sizes of the images that tiles belong to. */
typedef struct image {
  int channels, outputs; /* per group */
  int in_rows, in_columns, out_rows, out_columns;
  int top, left; /* padding */
} image;

/* Position of a tile: its image, and its row and column among the tiles of the image. */
typedef struct place {
  int image, row, column;
} place;

/* Returns the position of a tile of row `row`, counted over all images. */
static inline place place_of(int row, int column, int tile_rows) {
  return (place){row / tile_rows, row % tile_rows, column};
}

/* True if the outputs of a tile that were stored in a plane are finite. */
static inline int tile_is_finite(const __global float *plane, const image *s, const place *p) {
  for (int y = p->row * TILE; y < min((p->row + 1) * TILE, s->out_rows); y++)
    for (int x = p->column * TILE; x < min((p->column + 1) * TILE, s->out_columns); x++)
      if (!is_finite(plane[(index_t)y * s->out_columns + x])) return 0;
  return 1;
}

/* Recomputes a tile whose sums are infinite or NaN by the formula of convolution, because an output
 * must depend on its own inputs only. x: the planes of the group's channels, weight: of the output,
 * plane: of the output. */
static inline void make_directly(const __global float *x, const __global float *weight, float bias,
                                 __global float *plane, const image *s, const place *p) {
  for (int y = p->row * TILE; y < min((p->row + 1) * TILE, s->out_rows); y++)
    for (int column = p->column * TILE; column < min((p->column + 1) * TILE, s->out_columns);
         column++) {
      float total = 0;
      for (int c = 0; c < s->channels; c++) {
        float sum = 0;
        for (int tap = 0; tap < SIDE * SIDE; tap++) {
          const int row = y + tap / SIDE - s->top, at = column + tap % SIDE - s->left;
          const int inside = row >= 0 && row < s->in_rows && at >= 0 && at < s->in_columns;
          const float in = inside ? x[((index_t)c * s->in_rows + row) * s->in_columns + at] : 0.0f;
          sum = FMA(weight[c * SIDE * SIDE + tap], in, sum);
        }
        total += sum;
      }
      plane[(index_t)y * s->out_columns + column] = total + bias;
    }
}
