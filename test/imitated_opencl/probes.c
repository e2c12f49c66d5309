/* Results of the probes by which clave tries instructions (backend/opencl/launch/instructions.c),
 * so that the kernels that use them are built. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/imitated_opencl/imitated.h"

enum { MEMBERS = 64, LANES = 16, TURNS = 16 };

/* Writes the sum of the input to each result. */
static void answer_subgroups(int32_t *words, const char *options) {
  (void)options;
  int32_t sum = 0;
  for (int i = 0; i < MEMBERS; i++) sum += words[MEMBERS + i];
  for (int i = 0; i < MEMBERS; i++) words[i] = sum;
}

/* Same values as in kernels_cl/support/dots_probe.cl. */
static uint32_t dots_word(uint32_t turn, uint32_t lane) {
  return (turn * LANES + lane) * UINT32_C(2654435761) ^ (turn == 0 ? UINT32_MAX : 0);
}

static void answer_dots(int32_t *words, const char *options) {
  (void)options;
  for (uint32_t lane = 0; lane < LANES; lane++) {
    int32_t sum = 0;
    for (uint32_t turn = 0; turn < TURNS; turn++)
      for (int j = 0; j < 4; j++)
        sum += (int32_t)(dots_word(turn, lane) >> 8 * j & 255) *
               (int8_t)((uint32_t)words[LANES + turn] >> 8 * j);
    words[lane] = sum;
  }
}

enum { SIDE = 16, ROW_WORDS = 8 };

/* Returns factor k of row `row` of a, or, from SIDE on, of a column of b. */
static int32_t mma_factor(const int32_t *input, int row, int k) {
  const int32_t bits = input[row * ROW_WORDS + k / 2] >> (k % 2 ? 8 : 0) & 15;
  return bits - (bits >= 8 ? 16 : 0);
}

/* Multiplies in F16 and BF16, or in F16 alone on Turing, whose unit is MMA=3. */
static void answer_mma(int32_t *words, const char *options) {
  const int products = strstr(options, "MMA=3") ? 1 : 2, size = SIDE * SIDE;
  for (int i = 0; i < products * size; i++) {
    const int row = i % size / SIDE, column = i % SIDE;
    int32_t sum = row + 3 * column;
    for (int k = 0; k < 2 * ROW_WORDS; k++)
      sum += mma_factor(words + products * size, row, k) *
             mma_factor(words + products * size, SIDE + column, k);
    words[i] = sum;
  }
}

/* Multiplies signed by unsigned bytes, four in a word. */
static void answer_mma_codes(int32_t *words, const char *options) {
  const uint8_t *bytes = (const uint8_t *)(words + SIDE * SIDE);
  enum { DEPTH = 4 * ROW_WORDS };
  (void)options;
  for (int i = 0; i < SIDE * SIDE; i++) {
    const int row = i / SIDE, column = i % SIDE;
    words[i] = row + 3 * column;
    for (int k = 0; k < DEPTH; k++)
      words[i] += (int8_t)bytes[row * DEPTH + k] * bytes[(SIDE + column) * DEPTH + k];
  }
}

enum { CHAIN = 16, TEXEL = 8 };

/* Returns half i of the input, an integer. */
static int32_t halves_input(const int32_t *input, int i) {
  const int32_t half = input[i / 2] >> 16 * (i % 2) & 0xffff, exponent = (half >> 10 & 31) - 15;
  const int32_t size = half & 0x7fff ? (1024 | (half & 1023)) << 5 >> (15 - exponent) : 0;
  return half & 0x8000 ? -size : size;
}

/* Rounds to 11 bits, ties to even. */
static int32_t round_sum(int32_t sum) {
  int32_t step = 1;
  while (abs(sum) > 2048 * step) step *= 2;
  const int32_t rest = sum & (step - 1), low = sum - rest;
  return 2 * rest > step || (2 * rest == step && low / step % 2) ? low + step : low;
}

static void answer_halves(int32_t *words, const char *options) {
  (void)options;
  for (int i = 0; i < TEXEL; i++) {
    int32_t sum = 0;
    for (int k = 0; k < CHAIN; k++)
      sum = round_sum(sum + halves_input(words + TEXEL, k * TEXEL + i) *
                                halves_input(words + TEXEL, CHAIN * TEXEL + k));
    words[i] = sum;
  }
}

/* True if the profile lists the probe, by its name or by the unit that its options select. */
static bool is_working(const char *name, const char *options) {
  const char *works = profile_text("works", "subgroups dots mma halves");
  const char *unit = strstr(works, "MMA=");
  char one[16] = "";
  if (unit && strcmp(name, "mma") == 0) (void)snprintf(one, sizeof one, "%.6s", unit);
  one[strcspn(one, " ")] = 0;
  return *one ? strstr(options, one) != NULL : strstr(works, name) != NULL;
}

void answer_probe(cl_kernel kernel) {
  static const struct {
    const char *kernel, *name;
    void (*answer)(int32_t *words, const char *options);
  } probes[] = {{"subgroups_probe", "subgroups", answer_subgroups},
                {"dots_probe", "dots", answer_dots},
                {"mma_probe", "mma", answer_mma},
                {"mma_codes_probe", "mma", answer_mma_codes},
                {"halves_probe", "halves", answer_halves}};
  const cl_program program = (cl_program)(void *)kernel->base.parent;
  const char *options = program->options ? program->options : "";
  for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
    if (strcmp(kernel->name, probes[i].kernel) == 0 && is_object(kernel->first, OBJECT_MEMORY) &&
        is_working(probes[i].name, options))
      probes[i].answer((int32_t *)(void *)kernel->first->data, options);
}
