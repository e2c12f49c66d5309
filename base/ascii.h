#ifndef BASE_ASCII_H
#define BASE_ASCII_H
/* Classes and case of ASCII characters. Unlike <ctype.h> and strcasecmp, these functions ignore the
 * host's locale. */
#include <stdbool.h>

static inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool is_ascii_upper(char c) { return c >= 'A' && c <= 'Z'; }
static inline bool is_ascii_lower(char c) { return c >= 'a' && c <= 'z'; }
static inline bool is_ascii_letter(char c) { return is_ascii_upper(c) || is_ascii_lower(c); }
static inline bool is_ascii_alnum(char c) { return is_ascii_letter(c) || is_ascii_digit(c); }
static inline bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline char ascii_lower(char c) { return is_ascii_upper(c) ? (char)(c - 'A' + 'a') : c; }
static inline char ascii_upper(char c) { return is_ascii_lower(c) ? (char)(c - 'a' + 'A') : c; }

/* True if the texts are equal, ignoring the case of ASCII letters. */
static inline bool equal_ascii(const char *left, const char *right) {
  while (*left && ascii_lower(*left) == ascii_lower(*right)) left++, right++;
  return ascii_lower(*left) == ascii_lower(*right);
}

#endif
