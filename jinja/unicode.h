#ifndef JINJA_UNICODE_H
#define JINJA_UNICODE_H
/* Character properties as in Python's str: white space, case, printable characters. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

bool is_space(uint32_t c); /* str.isspace */
/* Return the bytes of the white-space character at the start (or end) of text, 0 if none exists.
 */
size_t space_at(const char *text, size_t size);
size_t space_before(const char *text, size_t size);

typedef enum case_form { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_SAME } case_form;
/* Maps the case of one character to at most three, stored in `out`. Returns their number. */
size_t map_case(uint32_t c, case_form form, uint32_t out[3]);
bool is_cased(uint32_t c);
bool is_case_ignorable(uint32_t c);
bool is_upper(uint32_t c);
bool is_lower(uint32_t c);
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c); /* category Nd */
bool is_printable(uint32_t c);

#endif
