#ifndef TEST_API_LISTS_H
#define TEST_API_LISTS_H
/* Numbers of elements that tests pass in each list of the API. */
#include <stdbool.h>
#include <stddef.h>

enum { MANY = 300 };
static const size_t counts[] = {0, 1, 2, MANY};
#define EACH_COUNT(n) for (size_t which = 0, n = 0; which < 4 && (n = counts[which], true); which++)

#endif
