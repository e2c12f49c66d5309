#ifndef BASE_ALONE_H
#define BASE_ALONE_H
/* KERNEL_ALONE is 1 in a build whose kernels run only on the caller's thread. They then use no
 * atomic operations, which some processors would need a library for. */
#ifndef KERNEL_ALONE
#define KERNEL_ALONE 0
#endif

#endif
