#ifndef CLI_TUNE_H
#define CLI_TUNE_H
/* Tunes a program before another command uses it. */
#include "cli/model.h"

typedef struct tune_request {
  const text_list *dims; /* NAME=N: open sizes and scalar inputs */
  double budget;         /* seconds; 0: no limit */
  bool unkept;           /* do not store winners; only the open device uses them */
} tune_request;
/* Needs an open device and program. Leaves a session open. */
int tune_quietly(model *model, const tune_request *request) CHECK;

#endif
