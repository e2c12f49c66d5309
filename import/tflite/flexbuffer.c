/* FlexBuffers: a buffer ends with its root, the root's type and the root's width. A map is a vector
 * of values with the offset of a sorted vector of keys before it; offsets count backwards. */
#include "import/tflite/flexbuffer.h"

#include <string.h>

enum { FLEX_INT = 1, FLEX_UINT = 2, FLEX_FLOAT = 3, FLEX_MAP = 9, FLEX_BOOL = 26 };

/* A place in the buffer, and the bytes of the numbers there. */
typedef struct flex_place {
  size_t at, width;
} flex_place;

static bool flex_is_within(span buffer, size_t at, size_t size) {
  return at <= buffer.size && size <= buffer.size - at;
}

/* Reads an unsigned number of 1, 2, 4 or 8 bytes. */
static bool flex_unsigned(span buffer, flex_place place, uint64_t *out) {
  *out = 0;
  if ((place.width & (place.width - 1)) || !place.width || place.width > sizeof *out ||
      !flex_is_within(buffer, place.at, place.width))
    return false;
  for (size_t i = place.width; i-- > 0;)
    *out = *out << 8 | (unsigned char)buffer.data[place.at + i];
  return true;
}

/* Follows the offset at a place; what is there has numbers of this width. */
static bool flex_follow(span buffer, flex_place from, size_t width, flex_place *out) {
  uint64_t offset;
  if (!flex_unsigned(buffer, from, &offset) || offset > from.at) return false;
  *out = (flex_place){from.at - (size_t)offset, width};
  return true;
}

static bool flex_read(span buffer, flex_place place, int type, double *out) {
  uint64_t bits;
  double wide;
  float narrow;
  if (!flex_unsigned(buffer, place, &bits)) return false;
  const int shift = (int)(64 - 8 * place.width);
  const uint32_t low = (uint32_t)bits;
  memcpy(&wide, &bits, sizeof wide);
  memcpy(&narrow, &low, sizeof narrow);
  if (type == FLEX_FLOAT && place.width < sizeof narrow) return false;
  *out = type == FLEX_INT     ? (double)((int64_t)(bits << shift) >> shift)
         : type != FLEX_FLOAT ? (double)bits
         : place.width == 8   ? wide
                              : (double)narrow;
  return type == FLEX_INT || type == FLEX_UINT || type == FLEX_FLOAT || type == FLEX_BOOL;
}

/* Finds the map that is the root. */
static bool flex_root(span buffer, flex_place *map) {
  if (buffer.size < 3) return false;
  const size_t width = (unsigned char)buffer.data[buffer.size - 1];
  const unsigned type = (unsigned char)buffer.data[buffer.size - 2];
  if (type >> 2 != FLEX_MAP || width > buffer.size - 2) return false;
  return flex_follow(buffer, (flex_place){buffer.size - 2 - width, width}, (size_t)1 << (type & 3),
                     map);
}

static bool flex_key_is(span buffer, flex_place key, const char *name) {
  const size_t n = strlen(name) + 1;
  return flex_is_within(buffer, key.at, n) && memcmp(buffer.data + key.at, name, n) == 0;
}

bool flex_number(span buffer, const char *name, double *out) {
  flex_place map, keys, key;
  uint64_t count, key_width;
  if (!flex_root(buffer, &map) || map.at < 3 * map.width) return false;
  if (!flex_unsigned(buffer, (flex_place){map.at - map.width, map.width}, &count) ||
      !flex_unsigned(buffer, (flex_place){map.at - 2 * map.width, map.width}, &key_width) ||
      !flex_follow(buffer, (flex_place){map.at - 3 * map.width, map.width}, (size_t)key_width,
                   &keys) ||
      count > buffer.size / (map.width + 1) ||
      !flex_is_within(buffer, map.at, (size_t)count * (map.width + 1)))
    return false;
  for (size_t i = 0; i < (size_t)count; i++) {
    const flex_place at = {keys.at + i * keys.width, keys.width};
    if (!flex_follow(buffer, at, 1, &key)) return false;
    if (!flex_key_is(buffer, key, name)) continue;
    const int type = (unsigned char)buffer.data[map.at + (size_t)count * map.width + i] >> 2;
    return flex_read(buffer, (flex_place){map.at + i * map.width, map.width}, type, out);
  }
  return false;
}
