#ifndef BASE_LOADED_CODE_H
#define BASE_LOADED_CODE_H

/* Lets go of the code of loaded libraries whose names begin with one of `names`, which spaces
 * separate: the system reads it from their files again where it is called. Code that differs from
 * the file (relocated or patched) stays. Of Linux with /proc; elsewhere it does nothing. */
void release_code(const char *names);

#endif
