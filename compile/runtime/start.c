/* The main function of an emitted program. */
#include "compile/runtime/model.h"

int main(int argc, char **argv) { return model_main(argc, argv); }
