/* Its declarations are in base/windows/posix.h, which is always included. */
