#ifndef BASE_ALONE_H
#define BASE_ALONE_H
/* KERNEL_ALONE is 1 in a program that computes on its caller's thread alone. Nothing needs to be
 * atomic then, so processors without atomic instructions need no library for them. */
#ifndef KERNEL_ALONE
#define KERNEL_ALONE 0
#endif

#endif
