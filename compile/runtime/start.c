/* Where a program that is written out begins. */
#include "compile/runtime/model.h"

int main(int argc, char **argv) { return model_main(argc, argv); }
