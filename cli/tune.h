#ifndef CLI_TUNE_H
#define CLI_TUNE_H
/* Tuning before something else is done with a program. */
#include "cli/model.h"

typedef struct tune_request {
  const text_list *dims; /* NAME=N: open sizes and scalar inputs */
  double budget;         /* seconds; 0: none */
  bool unkept;           /* winners count for the device that is open alone */
} tune_request;
/* Device and program are open; a session is, too, then. */
int tune_quietly(model *model, const tune_request *request) CHECK;

#endif
