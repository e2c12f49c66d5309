/* Unicode with utf8proc: categories, case, normal forms. No other file uses utf8proc. */
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/checked.h"
#include "base/utf8.h"

uint32_t unicode_before(const char *text, size_t end) {
  uint32_t c = 0;
  if (end == 0) return 0;
  size_t begin = end - 1;
  while (begin > 0 && ((uint8_t)text[begin] & 0xC0) == 0x80) begin--;
  (void)utf8_read(text + begin, &c);
  return c;
}

void unicode_append(text *out, uint32_t c) {
  char bytes[4];
  text_append(out, bytes, utf8_write(c, bytes));
}

/* ---------------------------------------------------------------- categories */

bool unicode_is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t unicode_skip_space(span in, size_t at) {
  uint32_t c;
  for (size_t n; at < in.size; at += n) {
    n = utf8_read(in.data + at, &c);
    if (!unicode_is_space(c)) break;
  }
  return at;
}

size_t unicode_skip_space_before(span in, size_t end, size_t least) {
  while (end > least) {
    uint32_t c = unicode_before(in.data, end);
    if (!unicode_is_space(c)) break;
    end -= utf8_size(c);
  }
  return end;
}

enum { /* sets of general categories */
       SET_L = 1 << UTF8PROC_CATEGORY_LU | 1 << UTF8PROC_CATEGORY_LL | 1 << UTF8PROC_CATEGORY_LT |
               1 << UTF8PROC_CATEGORY_LM | 1 << UTF8PROC_CATEGORY_LO,
       SET_M = 1 << UTF8PROC_CATEGORY_MN | 1 << UTF8PROC_CATEGORY_MC | 1 << UTF8PROC_CATEGORY_ME,
       SET_N = 1 << UTF8PROC_CATEGORY_ND | 1 << UTF8PROC_CATEGORY_NL | 1 << UTF8PROC_CATEGORY_NO,
       SET_P = 1 << UTF8PROC_CATEGORY_PC | 1 << UTF8PROC_CATEGORY_PD | 1 << UTF8PROC_CATEGORY_PS |
               1 << UTF8PROC_CATEGORY_PE | 1 << UTF8PROC_CATEGORY_PI | 1 << UTF8PROC_CATEGORY_PF |
               1 << UTF8PROC_CATEGORY_PO,
       SET_C = 1 << UTF8PROC_CATEGORY_CC | 1 << UTF8PROC_CATEGORY_CF | 1 << UTF8PROC_CATEGORY_CS |
               1 << UTF8PROC_CATEGORY_CO
};

static bool in_set(uint32_t c, unsigned set) {
  return set >> utf8proc_category((utf8proc_int32_t)c) & 1;
}

bool unicode_is_punctuation(uint32_t c) { return in_set(c, SET_P); }
bool unicode_is_nonspacing(uint32_t c) { return in_set(c, 1 << UTF8PROC_CATEGORY_MN); }
bool unicode_is_mark(uint32_t c) { return in_set(c, SET_M); }
bool unicode_is_other(uint32_t c) { return in_set(c, SET_C); }
bool unicode_is_numeric(uint32_t c) { return in_set(c, SET_N); }

bool unicode_is_word(uint32_t c) {
  /* Alphabetic is L, Nl, marks, and the circled and squared letters of the symbols. */
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189)) {
    return true;
  }
  return c == 0x200C || c == 0x200D ||
         in_set(c, SET_L | SET_M | 1 << UTF8PROC_CATEGORY_ND | 1 << UTF8PROC_CATEGORY_NL |
                       1 << UTF8PROC_CATEGORY_PC);
}

size_t unicode_grapheme(span in) {
  uint32_t c, next;
  size_t at = utf8_read(in.data, &c);
  for (utf8proc_int32_t state = 0; at < in.size; c = next) {
    size_t n = utf8_read(in.data + at, &next);
    if (c < 0x80 && next < 0x80 && c != '\r' && state == 0)
      break; /* an ASCII character is a cluster of its own */
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)c, (utf8proc_int32_t)next, &state)) {
      break;
    }
    at += n;
  }
  return at;
}

void unicode_append_lower(text *out, uint32_t c) {
  if (c == 0x130) { /* the only character with a lower case of two characters in every context */
    text_append(out, "i\xCC\x87", 3);
  } else {
    unicode_append(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
  }
}

/* ---------------------------------------------------------------- normal forms */

typedef struct code_points {
  int32_t *items; /* owned */
  size_t count, capacity;
} code_points;

static bool reserve(code_points *points, size_t more) {
  size_t need;
  return add_size(points->count, more, &need) &&
         array_reserve(&points->items, &points->capacity, need, sizeof *points->items);
}

enum { LONGEST_DECOMPOSITION = 32 }; /* the maximum is 18, for U+FDFA */

static bool decompose(code_points *points, span in, utf8proc_option_t options) {
  for (size_t i = 0; i < in.size;) {
    uint32_t c;
    i += utf8_read(in.data + i, &c);
    if (!reserve(points, LONGEST_DECOMPOSITION)) return false;
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((int32_t)c, points->items + points->count,
                                                 LONGEST_DECOMPOSITION, options, &boundary);
    if (n > 0 && n <= LONGEST_DECOMPOSITION) points->count += (size_t)n;
  }
  return true;
}

static int combining_class(int32_t c) { return utf8proc_get_property(c)->combining_class; }

/* Sorts a run of marks by combining class, stably, with one pass for each class that occurs, so
 * the time is never quadratic. */
static bool sort_marks(int32_t *run, size_t n) {
  int32_t *sorted = malloc(n * sizeof *sorted);
  bool present[256] = {0};
  if (!sorted) return false;
  for (size_t i = 0; i < n; i++) present[combining_class(run[i])] = true;
  size_t at = 0;
  for (int class = 1; class < 256; class ++) {
    for (size_t i = 0; present[class] && i < n; i++) {
      if (combining_class(run[i]) == class) sorted[at++] = run[i];
    }
  }
  memcpy(run, sorted, n * sizeof *run);
  free(sorted);
  return true;
}

/* Brings marks into canonical order (Unicode 3.11, D109). */
static bool order_marks(code_points *points) {
  for (size_t i = 0; i < points->count; i++) {
    size_t begin = i;
    bool sorted = true;
    for (int last = 0; i < points->count; i++) {
      int class = combining_class(points->items[i]);
      if (class == 0) break;
      sorted = sorted && class >= last;
      last = class;
    }
    if (!sorted && !sort_marks(points->items + begin, i - begin)) return false;
  }
  return true;
}

static clave_status normalize_run(span in, unicode_form form, code_points *points, text *out) {
  bool compose = form == UNICODE_NFC || form == UNICODE_NFKC;
  bool compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
  points->count = 0;
  utf8proc_option_t options =
      (utf8proc_option_t)(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  if (!decompose(points, in, options) || !order_marks(points)) return status_no_memory();
  size_t count = points->count;
  if (compose) {
    utf8proc_ssize_t n =
        utf8proc_normalize_utf32(points->items, (utf8proc_ssize_t)count,
                                 (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    count = n < 0 ? 0 : (size_t)n;
  }
  for (size_t i = 0; i < count; i++) unicode_append(out, (uint32_t)points->items[i]);
  return NULL;
}

static bool tokenizer_unicode_is_ascii(char c) { return !((uint8_t)c & 0x80); }

/* ASCII is unchanged in all normal forms and composes only with characters after it. So runs of
 * ASCII are copied, except for their last character. */
clave_status unicode_normalize(span in, unicode_form form, text *out) {
  code_points points = {0};
  clave_status st = NULL;
  for (size_t i = 0; i < in.size && !st;) {
    size_t begin = i;
    while (i < in.size && tokenizer_unicode_is_ascii(in.data[i])) i++;
    size_t run = i == in.size || i == begin ? i : i - 1;
    text_append(out, in.data + begin, run - begin);
    while (i < in.size && !tokenizer_unicode_is_ascii(in.data[i])) i++;
    if (i > run) st = normalize_run((span){in.data + run, i - run}, form, &points, out);
  }
  free(points.items);
  return st ? st : text_status(out);
}

/* ---------------------------------------------------------------- ill-formed text */

/* Returns the bytes of the longest prefix of a character at text (n > 0 bytes, not a complete
 * one); 1 if none exists. */
static size_t maximal_subpart(const char *text, size_t n) {
  const uint8_t *bytes = (const uint8_t *)text;
  if (bytes[0] < 0xC2 || bytes[0] > 0xF4 || n < 2) return 1;
  uint8_t low = bytes[0] == 0xE0 ? 0xA0 : bytes[0] == 0xF0 ? 0x90 : 0x80;
  uint8_t high = bytes[0] == 0xED ? 0x9F : bytes[0] == 0xF4 ? 0x8F : 0xBF;
  if (bytes[0] < 0xE0 || bytes[1] < low || bytes[1] > high) return 1;
  size_t length = bytes[0] < 0xF0 ? 3 : 4, i = 2;
  while (i < n && i < length && (bytes[i] & 0xC0) == 0x80) i++;
  return i;
}

/* True if the n bytes may be the beginning of a character. */
static bool is_beginning(const char *text, size_t n) {
  uint8_t b = (uint8_t)text[0];
  size_t length = b < 0xC2 || b > 0xF4 ? 0 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
  return n < length && maximal_subpart(text, n) == n;
}

size_t unicode_append_valid(text *out, span in, bool end) {
  size_t begin = 0, i = 0;
  while (i < in.size) {
    size_t n = utf8_sequence(in.data + i, in.size - i);
    if (n > 0) {
      i += n;
      continue;
    }
    text_append(out, in.data + begin, i - begin);
    begin = i;
    if (!end && is_beginning(in.data + i, in.size - i)) return i;
    text_append(out, "\xEF\xBF\xBD", 3);
    i += maximal_subpart(in.data + i, in.size - i);
    begin = i;
  }
  text_append(out, in.data + begin, i - begin);
  return i;
}
