/* Character properties, from utf8proc. */
#include "jinja/unicode.h"

#include <utf8proc.h>

#include "base/utf8.h"

bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t space_at(const char *text, size_t size) {
  if (size && (unsigned char)*text < 0x80) return is_space((unsigned char)*text);
  uint32_t c;
  size_t n = utf8_sequence(text, size);
  return n && (utf8_read(text, &c), is_space(c)) ? n : 0;
}

size_t space_before(const char *text, size_t size) {
  size_t at = size;
  while (at && ((unsigned char)text[at - 1] & 0xC0) == 0x80) at--;
  if (at) at--;
  return space_at(text + at, size - at) == size - at ? size - at : 0;
}

/* Characters whose upper case (or title case, if different) has several characters:
 * SpecialCasing.txt. */
typedef struct special_case {
  uint16_t from, upper[3], title[3];
} special_case;
static const special_case special_cases[] = {
#include "jinja/special_case.def"
};

static const special_case *find_special(uint32_t c) {
  size_t low = 0, high = sizeof special_cases / sizeof *special_cases;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (special_cases[mid].from == c) return &special_cases[mid];
    if (special_cases[mid].from < c) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return NULL;
}

static size_t map_ascii(uint32_t c, case_form form, uint32_t out[3]) {
  bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
  out[0] = form == CASE_LOWER ? (upper ? c + 32 : c) : lower ? c - 32 : c;
  return 1;
}

size_t map_case(uint32_t c, case_form form, uint32_t out[3]) {
  if (form == CASE_SAME) {
    out[0] = c;
    return 1;
  }
  if (c < 0x80) return map_ascii(c, form, out);
  const special_case *special_case = form == CASE_LOWER ? NULL : find_special(c);
  if (special_case) {
    const uint16_t *to = form == CASE_TITLE ? special_case->title : special_case->upper;
    size_t n = 0;
    for (; n < 3 && to[n]; n++) out[n] = to[n];
    return n;
  }
  if (form == CASE_LOWER && c == 0x130) {
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  utf8proc_int32_t from = (utf8proc_int32_t)c;
  out[0] = (uint32_t)(form == CASE_LOWER   ? utf8proc_tolower(from)
                      : form == CASE_UPPER ? utf8proc_toupper(from)
                                           : utf8proc_totitle(from));
  return 1;
}

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool is_upper(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) ||
         (c >= 0x24B6 && c <= 0x24CF) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}
bool is_lower(uint32_t c) { return utf8proc_islower((utf8proc_int32_t)c); }
bool is_cased(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT || is_upper(c) || is_lower(c);
}

bool is_case_ignorable(uint32_t c) {
  utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' ||
         c == ':' || c == 0xB7 || c == 0x387 || c == 0x55F || c == 0x5F4 || c == 0x2018 ||
         c == 0x2019 || c == 0x2024 || c == 0x2027 || c == 0xFE13 || c == 0xFE52 || c == 0xFE55 ||
         c == 0xFF07 || c == 0xFF0E || c == 0xFF1A;
}

bool is_alpha(uint32_t c) {
  utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_printable(uint32_t c) {
  if (c < 0x7F) return c >= 0x20;
  utf8proc_category_t k = category(c);
  return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}
