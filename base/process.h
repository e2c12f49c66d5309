#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H
/* This process: its environment and number. */

/* NULL removes the variable. Other threads must not read the environment meanwhile: for the first
 * contact with a library only. Without memory the variable stays as it was. */
void environment_set(const char *name, const char *value);
long process_number(void);
unsigned long user_number(void);

#endif
