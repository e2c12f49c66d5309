#ifndef TEST_FAULT_ALLOC_H
#define TEST_FAULT_ALLOC_H
/* Makes the Nth allocation of the code linked with -Wl,--wrap=malloc,... fail (alloc.c). */
#include <stdbool.h>

void alloc_arm(long n);  /* starts to count; allocation n, from 0, fails */
bool alloc_disarm(void); /* true if it came */
long alloc_calls(void);  /* since alloc_arm */

#endif
