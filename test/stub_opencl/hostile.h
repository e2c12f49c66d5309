/* Simulates a driver with untrue answers, drawn from a seed (CLAVE_STUB_HOSTILE=SEED, or
 * stub_seed), for stub.c: calls that do nothing and report success or any error, objects that are
 * NULL without an error, lists that are shorter or longer than they say, strings without end, wrong
 * sizes, and numbers from 0 to the largest. A call may be answered in another way the next time. */
#include <stdint.h>

static uint64_t hostile_state; /* 0: all answers are true */
static uint32_t hostile_every; /* one in so many answers is untrue */

/* splitmix64 */
static uint64_t hostile_draw(void) {
  uint64_t z = __atomic_add_fetch(&hostile_state, UINT64_C(0x9e3779b97f4a7c15), __ATOMIC_RELAXED);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static bool hostile_now(void) { return hostile_state && hostile_draw() % hostile_every == 0; }

void stub_seed(uint64_t seed);
void stub_seed(uint64_t seed) {
  hostile_state = seed * 2 + 1;
  hostile_every = 1u << (3 + hostile_draw() % 6);
}

/* True if a call does nothing and returns *code, which may be success. */
static bool hostile_takes(cl_int *code) {
  static const cl_int codes[] = {CL_SUCCESS, CL_SUCCESS, CL_SUCCESS, -1,  -4,    -5,
                                 -6,         -30,        -34,        -36, -9999, 1};
  if (!hostile_now()) return false;
  *code = codes[hostile_draw() % (sizeof codes / sizeof *codes)];
  return true;
}

static size_t hostile_size(size_t size) {
  const size_t sizes[] = {
      0, 1, size - 1, size + 1, size * 2, SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 36, (size_t)1 << 32};
  return sizes[hostile_draw() % (sizeof sizes / sizeof *sizes)];
}

/* Changes the answer of a query after the fact. */
static cl_int hostile_query(cl_int code, size_t size, void *value, size_t *size_ret) {
  if (code != CL_SUCCESS || !hostile_now()) return code;
  if (size_ret) *size_ret = hostile_size(*size_ret);
  if (!value || size == 0) return code;
  unsigned char *bytes = value;
  const uint64_t how = hostile_draw() % 6;
  if (how == 0) memset(value, 0, size);
  if (how == 1) memset(value, 0xff, size);
  if (how == 2) memset(value, 'A', size); /* a string without a terminator */
  if (how == 3) memset(value, 0xff, size - size / 2);
  if (how == 4) bytes[hostile_draw() % size] = (unsigned char)hostile_draw();
  if (how == 5 && size <= 8)
    for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)hostile_draw();
  return code;
}

/* Changes how many items a list says that it has, or what its first item is. */
static cl_int hostile_list(cl_int code, cl_uint n, void *items, cl_uint *count) {
  static const cl_uint counts[] = {0, 2, 63, 65, 1000, UINT32_MAX};
  if (code != CL_SUCCESS || !hostile_now()) return code;
  if (count) *count = counts[hostile_draw() % (sizeof counts / sizeof *counts)];
  if (items && n && hostile_draw() % 4 == 0) memset(items, 0, sizeof(void *));
  return code;
}
