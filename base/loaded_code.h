#ifndef BASE_LOADED_CODE_H
#define BASE_LOADED_CODE_H

/* Releases the code pages of loaded libraries whose names begin with one of the space-separated
 * `names`. The system reads them from the files again when they are called. Pages that differ from
 * the file (relocated or patched) stay. Works on Linux with /proc; elsewhere it does nothing. */
void release_code(const char *names);

#endif
