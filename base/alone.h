#ifndef BASE_ALONE_H
#define BASE_ALONE_H
/* KERNEL_ALONE is 1 where code is built into a program whose caller's thread computes alone.
 * Nothing needs to be atomic then, so processors without such instructions need no library for
 * them. */
#ifndef KERNEL_ALONE
#define KERNEL_ALONE 0
#endif

#endif
