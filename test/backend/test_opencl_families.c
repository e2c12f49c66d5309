/* Runs every op family on the CPU backend and on an OpenCL device, and compares results of the same
 * nodes and data. Odd sizes, strides, NaN, empty dimensions, indices out of range. Environment:
 * CLAVE_TEST_OPENCL the device's number (default 0), CLAVE_TEST_ONLY part of a case's name,
 * CLAVE_TEST_ALL=1 every dtype of a case (else its first and one other), CLAVE_TEST_CLASS=cpu or
 * gpu the kernels that such devices get, whatever this one is, CLAVE_TEST_CACHE a folder for kernel
 * binaries, CLAVE_KERNEL_DIR one of kernel files. */
#include "backend/opencl/launch/stream.h"
#include "backend/pair.h"

#define AXES(...) \
  { .items = (int32_t[]){__VA_ARGS__}, .count = sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t) }
#define TIDS(...)                                                 \
  {                                                               \
    .items = (uint32_t[]){__VA_ARGS__},                           \
    .count = sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t) \
  }
#define INT(v) \
  { .literal = (v), .vid = IR_NONE, .present = true }
#define INTS(...)                                                           \
  {                                                                         \
    .items = (ir_int_or_vid[]){__VA_ARGS__},                                \
    .count = sizeof((ir_int_or_vid[]){__VA_ARGS__}) / sizeof(ir_int_or_vid) \
  }

#define FLOATS "fhbd"
#define INTEGERS "cusil"
#define ANY_TYPE "fhbdcusilo"
#define BY_SIZE "uhfd" /* one type of each element size */

/* ---------------------------------------------------------------- reductions */

#define REDUCE(k, tensors, types, tolerance, ...)                                                \
  {                                                                                              \
    "reduce " #k " " tensors, IR_OP_REDUCE,                                                      \
        &(ir_reduce){.kind = IR_REDUCE_KIND_##k, .x = 0, .out = 1, __VA_ARGS__}, tensors, types, \
        tolerance                                                                                \
  }
#define LAST .axes = AXES(-1)
#define FIRST .axes = AXES(0)

static const pair_case reduce_cases[] = {
    REDUCE(SUM, "T(7,37);>T(7)", FLOATS, 20, LAST),
    REDUCE(SUM, "T(7,37);>T(7)", INTEGERS, 0, LAST),
    REDUCE(SUM, "T(37,50);>T(50)", FLOATS, 20, FIRST),
    REDUCE(SUM, "T(37,50);>T(50)", INTEGERS, 0, FIRST),
    REDUCE(SUM, "T(300,203);>T(203)", "fh", 300, FIRST),
    REDUCE(VAR, "T(3,300,135);>T(3,135)", "fd", 40, .axes = AXES(1), .correction = 1),
    REDUCE(SUM, "T(37,5)n;>T(5)", FLOATS, 20, FIRST),
    REDUCE(SUM, "T(100000)+;>T()", FLOATS, 300, .axes = AXES(0)),
    REDUCE(SUM, "T(300,401)^;>T()", "fil", 300, .keepdim = false),
    REDUCE(SUM, "T(3,5000,2);>T(3,2)", "f", 100, .axes = AXES(1)),
    REDUCE(SUM, "T(2,3,40000);>T(2,3)", "fh", 300, LAST),
    REDUCE(SUM, "T(40000,20);>T(20)", "fhi", 300, FIRST),
    REDUCE(SUM, "T(3,4,5,6);>T(4,6)", "fi", 20, .axes = AXES(0, 2)),
    REDUCE(SUM, "T(3,4,5,6)^;>T(3,1,5,1)", "fl", 20, .axes = AXES(1, 3), .keepdim = true),
    REDUCE(SUM, "T(9,33)_;>T(9)", "fh", 20, LAST),
    REDUCE(SUM, "T(9,33)-;>T(9)", "fh", 20, LAST),
    REDUCE(SUM, "T(9,33)=;>T(33)", "fh", 20, FIRST),
    REDUCE(SUM, "T(4,0);>T(4)", "fi", 0, LAST),
    REDUCE(SUM, "T();>T()", "fi", 1, .keepdim = false),
    REDUCE(MEAN, "T(4,0);>T(4)", FLOATS, 0, LAST),
    REDUCE(MEAN, "T(2,70);>T(70)", "hb", 0,
           FIRST), /* exact except for one rounding when it is stored */
    REDUCE(MEAN, "T(2,8,7,7);>T(2,8)", FLOATS, 10, .axes = AXES(2, 3)),
    REDUCE(MEAN, "T(5,16,3);>T(5,3)", FLOATS, 10, .axes = AXES(1)),
    REDUCE(PROD, "T(6,19);>T(6)", "fd", 40, LAST),
    REDUCE(PROD, "T(6,9)z;>T(6)", INTEGERS, 0, LAST),
    REDUCE(PROD, "T(19,31);>T(31)", "fd", 40, FIRST),
    REDUCE(PROD, "T(3,0);>T(3)", "fl", 0, LAST),
    REDUCE(MAX, "T(33,47)n;>T(33)", FLOATS, 0, LAST),
    REDUCE(MAX, "T(33,47)n;>T(47)", FLOATS, 0, FIRST),
    REDUCE(MAX, "T(33,47);>T(47)", "cusilo", 0, FIRST),
    REDUCE(MAX, "T(33,47);>T(33)", "cusilo", 0, LAST),
    REDUCE(MAX, "T(6,5)q;>T(6)", FLOATS, 0, LAST),
    REDUCE(MIN, "T(33,47)n;>T(33)", FLOATS, 0, LAST),
    REDUCE(MIN, "T(70000)n;>T()", "fi", 0, LAST),
    REDUCE(MIN, "T(33,47)^;>T(47)", "cusilo", 0, FIRST),
    REDUCE(ANY, "T(20,3)z;>o(20)", ANY_TYPE, 0, LAST),
    REDUCE(ANY, "T(20,0);>o(20)", "fo", 0, LAST),
    REDUCE(ALL, "T(20,3)z;>o(20)", ANY_TYPE, 0, LAST),
    REDUCE(ALL, "T(3,20)z;>o(20)", ANY_TYPE, 0, FIRST),
    REDUCE(ALL, "T(20,0);>o(20)", "fo", 0, LAST),
    REDUCE(VAR, "T(7,137)+;>T(7)", FLOATS, 40, LAST, .correction = 1),
    REDUCE(VAR, "T(137,35);>T(35)", FLOATS, 40, FIRST, .correction = 0),
    REDUCE(VAR, "T(100000)n;>T()", "fd", 300, LAST, .correction = 1),
    REDUCE(VAR, "T(100000);>T()", "fh", 300, LAST, .correction = 1),
    REDUCE(VAR, "T(7,1);>T(7)", FLOATS, 0, LAST, .correction = 1),
    REDUCE(VAR, "T(7,0);>T(7)", FLOATS, 0, LAST, .correction = 1),
    REDUCE(VAR, "T(3,2);>T(3)", FLOATS, 0, LAST, .correction = 3),
    REDUCE(STD, "T(5,11,6);>T(5,6)", FLOATS, 20, .axes = AXES(1), .correction = 1),
    REDUCE(NORM1, "T(9,65);>T(9)", FLOATS, 60, LAST),
    REDUCE(NORM2, "T(9,65);>T(9)", FLOATS, 20, LAST),
    REDUCE(NORM2, "T(65,40);>T(40)", FLOATS, 20, FIRST),
};

#define ARG(k, tensors, types, ...)                                                               \
  {                                                                                               \
    "arg_reduce " #k " " tensors, IR_OP_ARG_REDUCE,                                               \
        &(ir_arg_reduce){.kind = IR_ARG_REDUCE_KIND_##k, .x = 0, .out = 1, __VA_ARGS__}, tensors, \
        types, 0                                                                                  \
  }
#define ON_AXIS(a) .axis = {.value = (a), .present = true}
static const pair_case arg_cases[] = {
    ARG(ARGMAX, "T(9,77)z;>I(9)", "fhbdcusil", ON_AXIS(-1)),
    ARG(ARGMAX, "T(9,77)n;>I(9)", FLOATS, ON_AXIS(1)),
    ARG(ARGMIN, "T(9,77)n;>I(77)", FLOATS, ON_AXIS(0)),
    ARG(ARGMIN, "T(9,77,3)z^;>I(9,1,3)", "fi", ON_AXIS(1), .keepdim = true),
    ARG(ARGMAX, "T(9,77)^;>I()", "fl", .keepdim = false),
    ARG(ARGMAX, "T(32000);>I(1)", "fh", .keepdim = true),
    ARG(ARGMIN, "T(90000)n;>I()", "fd", .keepdim = false),
    ARG(ARGMAX, "T(5,4)q;>I(5)", "f", ON_AXIS(1)),
};

#define CUMULATE(k, tensors, types, tolerance, a)                                             \
  {                                                                                           \
    "cumulate " #k " " tensors, IR_OP_CUMULATE,                                               \
        &(ir_cumulate){                                                                       \
            .kind = IR_CUMULATE_KIND_##k, .x = 0, .axis = (a), .out = 1, .indices = IR_NONE}, \
        tensors, types, tolerance                                                             \
  }
#define SOFTMAX(is_log, tensors, types, tolerance, a)                                          \
  {                                                                                            \
    "softmax log=" #is_log " " tensors, IR_OP_SOFTMAX,                                         \
        &(ir_softmax){.x = 0, .axis = (a), .log = is_log, .out = 1}, tensors, types, tolerance \
  }
static const pair_case row_cases[] = {
    CUMULATE(SUM, "T(5,33);>T(5,33)", "fhbdcusil", 20, 1),
    CUMULATE(SUM, "T(33,40);>T(33,40)", "fhbdcusil", 20, 0),
    CUMULATE(SUM, "T(3,5,7)^;>T(3,5,7)", "fi", 20, 1),
    CUMULATE(SUM, "T(20000);>T(20000)", "fh", 300, 0),
    CUMULATE(PROD, "T(5,13)z;>T(5,13)", "fhbdcusil", 20, 1),
    SOFTMAX(false, "T(9,77);>T(9,77)", FLOATS, 8, -1),
    SOFTMAX(true, "T(9,77);>T(9,77)", FLOATS, 8, -1),
    SOFTMAX(false, "T(9,77)n;>T(9,77)", FLOATS, 8, -1),
    SOFTMAX(false, "T(9,7)q;>T(9,7)", FLOATS, 8, -1),
    SOFTMAX(false, "T(2,9,37);>T(2,9,37)", FLOATS, 8, 1),
    SOFTMAX(true, "T(2,9,37)_+;>T(2,9,37)", FLOATS, 8, 1),
    SOFTMAX(false, "T(4,5,6)^;>T(4,5,6)", FLOATS, 8, 0),
    SOFTMAX(false, "T(4,5,6)^;>T(4,5,6)", FLOATS, 8, 2),
    SOFTMAX(false, "T(3,5,6)_;>T(3,5,6)", FLOATS, 8, 2),
    SOFTMAX(true, "T(2,32000);>T(2,32000)", "fh", 16, 1),
};

/* ---------------------------------------------------------------- normalisation */

static const pair_case norm_cases[] = {
    {"layer_norm", IR_OP_LAYER_NORM,
     &(ir_layer_norm){.x = 0, .weight = 1, .bias = 2, .n_axes = 1, .eps = 1e-5, .out = 3},
     "T(6,77)+;T(77);T(77)+;>T(6,77)", FLOATS, 20},
    {"layer_norm, 2 axes, no parameters", IR_OP_LAYER_NORM,
     &(ir_layer_norm){
         .x = 0, .weight = IR_NONE, .bias = IR_NONE, .n_axes = 2, .eps = 1e-5, .out = 1},
     "T(6,5,7)n;>T(6,5,7)", FLOATS, 20},
    {"layer_norm, weight only", IR_OP_LAYER_NORM,
     &(ir_layer_norm){.x = 0, .weight = 1, .bias = IR_NONE, .n_axes = 1, .eps = 1e-5, .out = 2},
     "T(3,4096);T(4096);>T(3,4096)", FLOATS, 40},
    {"rms_norm", IR_OP_RMS_NORM,
     &(ir_rms_norm){.x = 0, .weight = 1, .n_axes = 1, .eps = 1e-6, .out = 2},
     "T(6,77);T(77);>T(6,77)", FLOATS, 20},
    {"rms_norm, no weight", IR_OP_RMS_NORM,
     &(ir_rms_norm){.x = 0, .weight = IR_NONE, .n_axes = 1, .eps = 1e-6, .out = 1},
     "T(6,9);>T(6,9)", FLOATS, 20},
    {"group_norm", IR_OP_GROUP_NORM,
     &(ir_group_norm){.x = 0, .weight = 1, .bias = 2, .groups = 3, .eps = 1e-5, .out = 3},
     "T(2,6,5,7);T(6);T(6);>T(2,6,5,7)", FLOATS, 20},
    {"group_norm, no bias", IR_OP_GROUP_NORM,
     &(ir_group_norm){.x = 0, .weight = 1, .bias = IR_NONE, .groups = 2, .eps = 1e-5, .out = 2},
     "T(2,6,50);T(6);>T(2,6,50)", FLOATS, 20},
    {"batch_norm", IR_OP_BATCH_NORM,
     &(ir_batch_norm){.x = 0, .weight = 1, .bias = 2, .mean = 3, .var = 4, .eps = 1e-5, .out = 5},
     "T(2,6,5,7);T(6);T(6);T(6);T(6)p;>T(2,6,5,7)", FLOATS, 20},
    {"batch_norm, (N, C), no parameters", IR_OP_BATCH_NORM,
     &(ir_batch_norm){
         .x = 0, .weight = IR_NONE, .bias = IR_NONE, .mean = 1, .var = 2, .eps = 1e-5, .out = 3},
     "T(5,21);T(21);T(21)p;>T(5,21)", FLOATS, 20},
};

/* ---------------------------------------------------------------- joins */

#define PAD(m, tensors, types, before_, after_, ...) \
  {                                                  \
    "pad " #m " " tensors, IR_OP_PAD,                \
        &(ir_pad){.x = 0,                            \
                  .out = 1,                          \
                  .mode = IR_PAD_MODE_##m,           \
                  .before = before_,                 \
                  .after = after_,                   \
                  __VA_ARGS__},                      \
        tensors, types, 0                            \
  }
#define PAIR2(a, b) INTS(INT(a), INT(b))
#define TRIANGLE(up, k, tensors, types)                                                 \
  {                                                                                     \
    "triangle " #up " " #k " " tensors, IR_OP_TRIANGLE,                                 \
        &(ir_triangle){.x = 0, .out = 1, .upper = up, .diagonal = k}, tensors, types, 0 \
  }
static const pair_case join_cases[] = {
    {"cat 0", IR_OP_CAT, &(ir_cat){.xs = TIDS(0, 1, 2), .axis = 0, .out = 3},
     "T(2,3,5);T(1,3,5)^;T(4,3,5)+;>T(7,3,5)", BY_SIZE, 0},
    {"cat 1", IR_OP_CAT, &(ir_cat){.xs = TIDS(0, 1), .axis = 1, .out = 2},
     "T(2,3,5)_;T(2,70,5)-;>T(2,73,5)", ANY_TYPE, 0},
    {"cat -1, one empty", IR_OP_CAT, &(ir_cat){.xs = TIDS(0, 1, 2), .axis = -1, .out = 3},
     "T(2,3,5);T(2,3,0);T(2,3,101);>T(2,3,106)", BY_SIZE, 0},
    PAD(CONSTANT, "T(3,5);>T(6,9)", ANY_TYPE, PAIR2(1, 3), PAIR2(2, 1), .value = 1),
    PAD(CONSTANT, "T(3,5)^;>T(4,2)", BY_SIZE, PAIR2(-1, -2), PAIR2(2, -1), .value = 3),
    PAD(CONSTANT, "T(9,150)_+;>T(13,160)", BY_SIZE, PAIR2(4, 3), PAIR2(0, 7), .value = 0),
    PAD(CONSTANT, "T(2,0);>T(2,5)", BY_SIZE, PAIR2(0, 2), PAIR2(0, 3), .value = 2),
    PAD(REFLECT, "T(4,6);>T(7,15)", BY_SIZE, PAIR2(1, 5), PAIR2(2, 4), .value = 0),
    PAD(REPLICATE, "T(4,6)-;>T(7,15)", BY_SIZE, PAIR2(1, 5), PAIR2(2, 4), .value = 0),
    PAD(CIRCULAR, "T(4,6)^;>T(7,16)", BY_SIZE, PAIR2(1, 6), PAIR2(2, 4), .value = 0),
    TRIANGLE(false, 0, "T(3,7,9);>T(3,7,9)", ANY_TYPE),
    TRIANGLE(true, 2, "T(3,7,9)^;>T(3,7,9)", BY_SIZE),
    TRIANGLE(true, -3, "T(70,90)+;>T(70,90)", BY_SIZE),
};

/* ---------------------------------------------------------------- convolution */

#define CONV(tensors, types, tolerance, ...)                                               \
  {                                                                                        \
    "conv " tensors, IR_OP_CONV,                                                           \
        &(ir_conv){.x = 0, .weight = 1, .bias = 2, .out = 3, __VA_ARGS__}, tensors, types, \
        tolerance                                                                          \
  }
#define CONV_PLAIN(tensors, types, tolerance, ...)                                               \
  {                                                                                              \
    "conv " tensors, IR_OP_CONV,                                                                 \
        &(ir_conv){.x = 0, .weight = 1, .bias = IR_NONE, .out = 2, __VA_ARGS__}, tensors, types, \
        tolerance                                                                                \
  }
#define EACH_STRIDE(s) .stride = AXES(s, s)
#define EACH_PAD(p) .padding = AXES(p, p)
#define EACH_DILATION(d) .dilation = AXES(d, d)
static const pair_case conv_cases[] = {
    CONV("T(2,3,9,11);T(8,3,3,3);T(8);>T(2,8,9,11)", FLOATS, 60, EACH_STRIDE(1), EACH_PAD(1),
         EACH_DILATION(1), .groups = 1),
    CONV("T(2,3,9,11);T(5,3,3,3);T(5);>T(2,5,5,6)", FLOATS, 60, EACH_STRIDE(2), EACH_PAD(1),
         EACH_DILATION(1), .groups = 1),
    CONV("T(1,4,12,13);T(17,4,3,2);T(17);>T(1,17,3,6)", FLOATS, 60, .stride = AXES(3, 2),
         .padding = AXES(0, 2), .dilation = AXES(2, 5), .groups = 1),
    CONV("T(2,6,7,7);T(6,1,3,3);T(6);>T(2,6,7,7)", FLOATS, 40, EACH_STRIDE(1), EACH_PAD(1),
         EACH_DILATION(1), .groups = 6),
    CONV("T(2,6,7,7);T(12,1,5,5);T(12);>T(2,12,4,4)", FLOATS, 40, EACH_STRIDE(2), EACH_PAD(2),
         EACH_DILATION(1), .groups = 6),
    CONV("T(2,8,6,6);T(12,4,3,3);T(12);>T(2,12,6,6)", FLOATS, 60, EACH_STRIDE(1), EACH_PAD(1),
         EACH_DILATION(1), .groups = 2),
    CONV_PLAIN("T(2,19,5,7)+;T(21,19,1,1);>T(2,21,5,7)", FLOATS, 60, EACH_STRIDE(1), EACH_PAD(0),
               EACH_DILATION(1), .groups = 1),
    CONV_PLAIN("T(3,9,8,8);T(16,9,3,3);>T(3,16,6,6)", FLOATS, 60, EACH_STRIDE(1), EACH_PAD(0),
               EACH_DILATION(1), .groups = 1),
    CONV_PLAIN("T(1,200,5,5);T(9,200,3,3);>T(1,9,5,5)", "fhd", 1800, EACH_STRIDE(1), EACH_PAD(1),
               EACH_DILATION(1), .groups = 1),
    CONV_PLAIN("T(1,2,7,7);T(3,2,1,1);>T(1,3,4,4)", FLOATS, 60, EACH_STRIDE(2), EACH_PAD(0),
               EACH_DILATION(1), .groups = 1),
    CONV("T(1,4,23,30);T(17,4,2,3);T(17);>T(1,17,5,7)", FLOATS, 60, .stride = AXES(5, 7),
         .padding = AXES(1, 9), .dilation = AXES(3, 2), .groups = 1),
    CONV("T(2,2,7,9);T(5,2,2,3);T(5);>T(2,5,2,2)", FLOATS, 60, EACH_STRIDE(200000),
         EACH_PAD(100000), .dilation = AXES(3, 2), .groups = 1),
    CONV("T(2,3,40);T(8,3,5);T(8);>T(2,8,20)", FLOATS, 60, .stride = AXES(2), .padding = AXES(2),
         .dilation = AXES(1), .groups = 1),
    CONV("T(1,1,28,28);T(4,1,5,5);T(4);>T(1,4,24,24)", FLOATS, 60, EACH_STRIDE(1), EACH_PAD(0),
         EACH_DILATION(1), .groups = 1),
    CONV_PLAIN("T(1,1,2,2);T(1,1,2,2);>T(1,1,1,1)", FLOATS, 60, EACH_STRIDE(1), EACH_PAD(0),
               EACH_DILATION(1), .groups = 1),
    CONV_PLAIN("T(40,16,32,32);T(16,16,3,3);>T(40,16,32,32)", "f", 200, EACH_STRIDE(1), EACH_PAD(1),
               EACH_DILATION(1), .groups = 1),
};

#define CONV_INTEGER(tensors, ...)                                                                \
  {                                                                                               \
    "integer conv " tensors, IR_OP_CONV_INTEGER,                                                  \
        &(ir_conv_integer){.x = 0, .weight = 1, .bias = 2, .out = 3, __VA_ARGS__}, tensors, "cu", \
        0                                                                                         \
  }
/* With weights that are all positive, sums exceed 2^24. */
static const pair_case conv_integer_cases[] = {
    CONV_INTEGER("T(2,3,9,11)~128;c(8,3,3,3)~128;i(8)~999999;>i(2,8,9,11)", EACH_STRIDE(1),
                 EACH_PAD(1), EACH_DILATION(1), .groups = 1, .padding_value = 77),
    CONV_INTEGER("T(2,3,9,11)~128;c(5,3,3,3)~128;i(5);>i(2,5,5,6)", EACH_STRIDE(2), EACH_PAD(1),
                 EACH_DILATION(1), .groups = 1, .padding_value = 127),
    CONV_INTEGER("T(1,4,12,13)~128;c(17,4,3,2)~128;i(17);>i(1,17,3,6)", .stride = AXES(3, 2),
                 .padding = AXES(0, 2), .dilation = AXES(2, 5), .groups = 1, .padding_value = 1),
    CONV_INTEGER("T(2,6,7,7)~128;c(12,1,5,5)~128;i(12);>i(2,12,4,4)", EACH_STRIDE(2), EACH_PAD(2),
                 EACH_DILATION(1), .groups = 6, .padding_value = 3),
    CONV_INTEGER("T(1,400,5,7)<128;c(9,400,3,3)<128;i(9);>i(1,9,5,7)", EACH_STRIDE(1), EACH_PAD(1),
                 EACH_DILATION(1), .groups = 1, .padding_value = 127),
    CONV_INTEGER("T(1,1,72,73)<128;c(3,1,70,70)<128;i(3);>i(1,3,3,4)", EACH_STRIDE(1), EACH_PAD(0),
                 EACH_DILATION(1), .groups = 1),
    CONV_INTEGER("T(2,19,5,7)~128;c(21,19,1,1)~128;i(21);>i(2,21,5,7)", EACH_STRIDE(1), EACH_PAD(0),
                 EACH_DILATION(1), .groups = 1),
    CONV_INTEGER("T(2,2,7,9)~128;c(5,2,2,3)~128;i(5);>i(2,5,2,2)", EACH_STRIDE(200000),
                 EACH_PAD(100000), .dilation = AXES(3, 2), .groups = 1, .padding_value = 5),
    CONV_INTEGER("T(2,5,40)~128;c(8,5,5)~128;i(8);>i(2,8,20)", .stride = AXES(2),
                 .padding = AXES(2), .dilation = AXES(1), .groups = 1, .padding_value = 9),
    CONV_INTEGER("T(1,4,3,6,7)~128;c(9,4,3,2,3)~128;i(9);>i(1,9,5,5,7)", .stride = AXES(1, 1, 1),
                 .padding = AXES(2, 0, 1), .dilation = AXES(1, 1, 1), .groups = 1,
                 .padding_value = 100),
    CONV_INTEGER("T(0,3,9,9);c(8,3,3,3);i(8);>i(0,8,7,7)", EACH_STRIDE(1), EACH_PAD(0),
                 EACH_DILATION(1), .groups = 1),
};

#define MATMUL_INTEGER(tensors)                                                     \
  {                                                                                 \
    "integer matmul " tensors, IR_OP_MATMUL_INTEGER,                                \
        &(ir_matmul_integer){.a = 0, .b = 1, .bias = 2, .out = 3}, tensors, "cu", 0 \
  }
static const pair_case matmul_integer_cases[] = {
    MATMUL_INTEGER("T(9,20)~128;c(7,20)~128;i(7)~999999;>i(9,7)"),
    MATMUL_INTEGER("T(2,65,67)~128;c(33,67)~128;i(33);>i(2,65,33)"),
    MATMUL_INTEGER("T(128,64)~128;c(16,64)~128;i(16);>i(128,16)"),
    MATMUL_INTEGER("T(1,1,3)~128;c(130,3)~128;i(130);>i(1,1,130)"),
    MATMUL_INTEGER("T(70,4099)<128;c(5,4099)<128;i(5);>i(70,5)"),
    MATMUL_INTEGER("T(3,0);c(4,0);i(4);>i(3,4)"),
    MATMUL_INTEGER("T(0,8);c(4,8);i(4);>i(0,4)"),
    MATMUL_INTEGER("T(8,8);c(0,8);i(0);>i(8,0)"),
};

/* ---------------------------------------------------------------- pooling */

#define POOL_ARGS(k, s, p, d) \
  .kernel = AXES(k, k), .stride = AXES(s, s), .padding = AXES(p, p), .dilation = AXES(d, d)
#define MAX_POOL(tensors, types, ...)                                                      \
  {                                                                                        \
    "max pool " tensors, IR_OP_POOL,                                                       \
        &(ir_pool){.kind = IR_POOL_KIND_MAX, .x = 0, .out = 1, .indices = 2, __VA_ARGS__}, \
        tensors, types, 0                                                                  \
  }
#define AVG_POOL(tensors, types, ...)                                                            \
  {                                                                                              \
    "average pool " tensors, IR_OP_POOL,                                                         \
        &(ir_pool){.kind = IR_POOL_KIND_AVG, .x = 0, .out = 1, .indices = IR_NONE, __VA_ARGS__}, \
        tensors, types, 10                                                                       \
  }
#define ADAPTIVE(k, i, tensors, types)                                                          \
  {                                                                                             \
    "adaptive pool " #k " " tensors, IR_OP_ADAPTIVE_POOL,                                       \
        &(ir_adaptive_pool){.kind = IR_POOL_KIND_##k, .x = 0, .out = 1, .indices = i}, tensors, \
        types, 10                                                                               \
  }
static const pair_case pool_cases[] = {
    MAX_POOL("T(2,3,8,9)z;>T(2,3,4,4);>I(2,3,4,4)", "fhbdcusil", POOL_ARGS(2, 2, 0, 1)),
    MAX_POOL("T(2,3,8,9)n;>T(2,3,4,5);>I(2,3,4,5)", FLOATS, POOL_ARGS(3, 2, 1, 1)),
    MAX_POOL("T(2,3,9,9)n;>T(2,3,4,4);>I(2,3,4,4)", FLOATS, POOL_ARGS(3, 2, 1, 2)),
    MAX_POOL("T(1,1,7,7)q;>T(1,1,4,4);>I(1,1,4,4)", FLOATS, POOL_ARGS(2, 2, 0, 1),
             .ceil_mode = true),
    MAX_POOL("T(2,3,17)z;>T(2,3,8);>I(2,3,8)", "fi", .kernel = AXES(3), .stride = AXES(2),
             .padding = AXES(0), .dilation = AXES(1)),
    AVG_POOL("T(2,3,8,9);>T(2,3,4,5)", FLOATS, POOL_ARGS(3, 2, 1, 1), .count_include_pad = true),
    AVG_POOL("T(2,3,8,9);>T(2,3,4,5)", FLOATS, POOL_ARGS(3, 2, 1, 1), .count_include_pad = false),
    AVG_POOL("T(2,3,8,8);>T(2,3,5,5)", FLOATS, POOL_ARGS(3, 2, 1, 1), .count_include_pad = true,
             .ceil_mode = true),
    AVG_POOL("T(2,3,8,9);>T(2,3,4,5)", FLOATS, POOL_ARGS(3, 2, 1, 1),
             .divisor = {.value = 5, .present = true}),
    AVG_POOL("T(2,4,30,31);>T(2,4,1,1)", FLOATS, .kernel = AXES(30, 31), .stride = AXES(1, 1),
             .padding = AXES(0, 0), .dilation = AXES(1, 1)),
    AVG_POOL("T(2,3,17);>T(2,3,9)", FLOATS, .kernel = AXES(3), .stride = AXES(2),
             .padding = AXES(1), .dilation = AXES(1)),
    ADAPTIVE(AVG, IR_NONE, "T(2,3,8,9);>T(2,3,3,4)", FLOATS),
    ADAPTIVE(AVG, IR_NONE, "T(2,3,7,7);>T(2,3,1,1)", FLOATS),
    ADAPTIVE(AVG, IR_NONE, "T(2,3,3);>T(2,3,7)", FLOATS),
    ADAPTIVE(MAX, 2, "T(2,3,8,9)n;>T(2,3,3,4);>I(2,3,3,4)", FLOATS),
    ADAPTIVE(MAX, 2, "T(2,3,11)z;>T(2,3,4);>I(2,3,4)", "fi"),
};

/* ---------------------------------------------------------------- indexing */

#define SELECT(tensors, types, a)                                                      \
  {                                                                                    \
    "index_select " tensors, IR_OP_INDEX_SELECT,                                       \
        &(ir_index_select){.x = 0, .axis = a, .index = 1, .out = 2}, tensors, types, 0 \
  }
#define GATHER(tensors, types, a)                                                           \
  {                                                                                         \
    "gather " tensors, IR_OP_GATHER, &(ir_gather){.x = 0, .axis = a, .index = 1, .out = 2}, \
        tensors, types, 0                                                                   \
  }
#define INDEX1(tensors, types, a)                                                             \
  {                                                                                           \
    "index " tensors, IR_OP_INDEX,                                                            \
        &(ir_index){.x = 0, .indices = TIDS(1), .axes = AXES(a), .out = 2}, tensors, types, 0 \
  }
#define INDEX2(tensors, types, a, b)                                                              \
  {                                                                                               \
    "index " tensors, IR_OP_INDEX,                                                                \
        &(ir_index){.x = 0, .indices = TIDS(1, 2), .axes = AXES(a, b), .out = 3}, tensors, types, \
        0                                                                                         \
  }
#define SLICE_UPDATE(tensors, types, a, s)                                                      \
  {                                                                                             \
    "slice_update " tensors, IR_OP_SLICE_UPDATE,                                                \
        &(ir_slice_update){.x = 0, .update = 1, .axis = a, .start = INT(s), .out = 2}, tensors, \
        types, 0                                                                                \
  }
#define INDEX_COPY(tensors, types, a)                                                             \
  {                                                                                               \
    "index_copy " tensors, IR_OP_INDEX_COPY,                                                      \
        &(ir_index_copy){.x = 0, .axis = a, .index = 1, .source = 2, .out = 3}, tensors, types, 0 \
  }
static const pair_case index_cases[] = {
    SELECT("T(50,33);I(2,7)<50;>T(2,7,33)", ANY_TYPE, 0),
    SELECT("T(50,133)^;i(7)<50;>T(7,133)", BY_SIZE, 0),
    SELECT("T(4,9,5)+;I(6)-<9;>T(4,6,5)", BY_SIZE, 1),
    SELECT("T(4,9);I()<9;>T(4)", BY_SIZE, -1),
    SELECT("T(4,9);I(3)~1;>T(4,3)", "f", -1),
    SELECT("T(3,5);I(40)<7;>T(40,5)", "f", 0),
    GATHER("T(6,9);I(4,9)<6;>T(4,9)", ANY_TYPE, 0),
    GATHER("T(6,9,5)^;I(6,3,4)<9;>T(6,3,4)", BY_SIZE, 1),
    GATHER("T(6,9);i(6,70)^<9;>T(6,70)", BY_SIZE, -1),
    GATHER("T(6,9);I(6,30)<20;>T(6,30)", "f", 1),
    INDEX1("T(6,9,5);I(4,3)~6;>T(4,3,9,5)", ANY_TYPE, 0),
    INDEX1("T(6,9,5)^;i(4)~9;>T(6,4,5)", BY_SIZE, 1),
    INDEX2("T(6,9,5);I(4,1)~6;I(3)~9;>T(4,3,5)", BY_SIZE, 0, 1),
    INDEX2("T(6,9,5);I(4,3)~6;i(3)~5;>T(4,3,9)", BY_SIZE, 0, 2),
    INDEX2("T(6,9,5)-;I(4)~9;I(1)~5;>T(6,4)", BY_SIZE, 1, 2),
    INDEX1("T(6,9);I(40)~8;>T(40,9)", "f", 0),
    SLICE_UPDATE("T(6,9,5);T(6,2,5)^;%T(6,9,5)", ANY_TYPE, 1, 3),
    SLICE_UPDATE("T(6,90);T(1,90)+;%T(6,90)", BY_SIZE, 0, 5),
    SLICE_UPDATE("T(6,9);T(6,0);%T(6,9)", BY_SIZE, 1, 9),
    INDEX_COPY("T(6,9,5);I(7)<9;T(6,7,5);%T(6,9,5)", ANY_TYPE, 1),
    INDEX_COPY("T(6,90);i(3)-<6;T(3,90)^;%T(6,90)", BY_SIZE, 0),
    INDEX_COPY("T(4,20);I(64)<20;T(4,64);%T(4,20)", BY_SIZE, -1),
    INDEX_COPY("T(6,9);I(9)<12;T(9,9);%T(6,9)", "f", 0),
};

/* Lines of 1024 or more entries are sorted on a GPU. */
#define SCATTER(k, tensors, types, tolerance, a)                                                \
  {                                                                                             \
    "scatter " #k " " tensors, IR_OP_SCATTER,                                                   \
        &(ir_scatter){                                                                          \
            .kind = IR_SCATTER_KIND_##k, .x = 0, .axis = a, .index = 1, .source = 2, .out = 3}, \
        tensors, types, tolerance                                                               \
  }
static const pair_case scatter_cases[] = {
    SCATTER(ASSIGN, "T(2000);I(1500)<700;T(1500);%T(2000)", ANY_TYPE, 0, 0),
    SCATTER(ADD, "T(3,50,2);I(3,1100,2)<50;T(3,1100,2)z;%T(3,50,2)", "fhbdcusil", 0, 1),
    SCATTER(ADD, "T(40,3,5);i(1024,3,5)=<40;T(1024,3,5)^z;%T(40,3,5)", "fi", 0, 0),
    SCATTER(MUL, "T(3,1200)z;i(3,1030)^<1200;T(3,1030)z;%T(3,1200)", "fil", 0, -1),
    SCATTER(MAX, "T(3,70);I(3,1100)-+<70;T(3,1100)_n;%T(3,70)", "fil", 0, 1),
    SCATTER(MIN, "T(70,3);I(1100,3)+<70;T(1100,3)n;%T(70,3)", "hsu", 0, 0),
    SCATTER(ADD, "T(30,0);I(1100,0)<30;T(1100,0);%T(30,0)", "f", 0, 0),
    SCATTER(ADD, "T(50,3);I(1100,3)<51;T(1100,3);%T(50,3)", "f", 0, 0),
    SCATTER(ADD, "T(50,3);I(1100,3)~50;T(1100,3);%T(50,3)", "f", 0, 0),
    INDEX_COPY("T(50,33);I(1300)<50;T(1300,33)^;%T(50,33)", ANY_TYPE, 0),
    INDEX_COPY("T(4,20,3);i(2000)-<20;T(4,2000,3);%T(4,20,3)", BY_SIZE, 1),
    INDEX_COPY("T(9,5);I(1024)<12;T(1024,5);%T(9,5)", "f", 0),
};

/* ---------------------------------------------------------------- transformers */

#define ATTENTION(tensors, types, tolerance, is_causal)                                          \
  {                                                                                              \
    "attention " tensors, IR_OP_ATTENTION,                                                       \
        &(ir_attention){.q = 0, .k = 1, .v = 2, .mask = IR_NONE, .causal = is_causal, .out = 3}, \
        tensors, types, tolerance                                                                \
  }
#define ATTENTION_MASKED(tensors, types, tolerance, ...)                                           \
  {                                                                                                \
    "attention " tensors, IR_OP_ATTENTION,                                                         \
        &(ir_attention){.q = 0, .k = 1, .v = 2, .mask = 3, .out = 4, __VA_ARGS__}, tensors, types, \
        tolerance                                                                                  \
  }
#define CACHED(tensors, types, ...)                      \
  {                                                      \
    "attention_cached " tensors, IR_OP_ATTENTION_CACHED, \
        &(ir_attention_cached){.key_cache = 0,           \
                               .value_cache = 0,         \
                               .q = 1,                   \
                               .k = 2,                   \
                               .v = 3,                   \
                               .position = 4,            \
                               .out = 5,                 \
                               .key_cache_out = 6,       \
                               .value_cache_out = 7,     \
                               .sinks = IR_NONE,         \
                               __VA_ARGS__},             \
        tensors, types, 40                               \
  }
#define NO_SCALE \
  .key_scale = IR_NONE, .value_scale = IR_NONE, .key_scale_out = IR_NONE, .value_scale_out = IR_NONE
#define SCALE .key_scale = 8, .value_scale = 8, .key_scale_out = 9, .value_scale_out = 10
#define WINDOW(w) .window = {.value = w, .present = true}
#define ROPE(swap, tensors)                                                                       \
  {                                                                                               \
    "rope " tensors, IR_OP_ROPE,                                                                  \
        &(ir_rope){.x = 0, .cos = 1, .sin = 2, .interleaved = swap, .out = 3}, tensors, FLOATS, 4 \
  }
static const pair_case attention_cases[] = {
    ATTENTION("T(2,3,5,8);T(2,3,7,8);T(2,3,7,8);>T(2,3,5,8)", FLOATS, 20, false),
    ATTENTION("T(2,4,37,16);T(2,2,37,16);T(2,2,37,24);>T(2,4,37,24)", FLOATS, 20, true),
    ATTENTION("T(4,9,8);T(4,3,8);T(4,3,8);>T(4,9,8)", FLOATS, 20, true),
    ATTENTION("T(1,8,1,64);T(1,2,700,64);T(1,2,700,64);>T(1,8,1,64)", FLOATS, 40, false),
    ATTENTION("T(2,4,1,24);T(2,2,37,24);T(2,2,37,40);>T(2,4,1,40)", FLOATS, 20, false),
    ATTENTION("T(3,4,2,20)_;T(3,4,300,20)_;T(3,4,300,30)_;>T(3,4,2,30)", FLOATS, 20, true),
    ATTENTION("T(1,1,1,20);T(1,1,700,20);T(1,1,700,30);>T(1,1,1,30)", FLOATS, 40, false),
    ATTENTION("T(2,3,5,100)_;T(2,3,7,100)_;T(2,3,7,130)_;>T(2,3,5,130)", FLOATS, 20, false),
    ATTENTION("T(1,2,5,300);T(1,2,9,300);T(1,2,9,300);>T(1,2,5,300)", "fhd", 40, false),
    ATTENTION("T(2,3,4,5);T(2,3,0,5);T(2,3,0,5);>T(2,3,4,5)", "f", 0, false),
    ATTENTION_MASKED("T(2,3,5,8);T(2,3,7,8);T(2,3,7,8);o(5,7);>T(2,3,5,8)", FLOATS, 20,
                     .causal = false),
    ATTENTION_MASKED("T(2,3,5,8);T(2,3,7,8);T(2,3,7,8);T(2,1,5,7)^;>T(2,3,5,8)", FLOATS, 20,
                     .scale = {.value = 0.3, .present = true}),
    ATTENTION_MASKED("T(2,3,5,8);T(2,3,7,8);T(2,3,7,8);o(2,3,5,1);>T(2,3,5,8)", FLOATS, 20,
                     .causal = false),
    ATTENTION_MASKED("T(2,3,5,8);T(2,3,7,8);T(2,3,7,8);T(5,1)q;>T(2,3,5,8)", FLOATS, 20,
                     .causal = false),
    ATTENTION_MASKED("T(1,8,1,64);T(1,8,700,64);T(1,8,700,64);o(1,1,1,700);>T(1,8,1,64)", FLOATS,
                     40, .causal = false),
    ATTENTION_MASKED("T(1,8,1,64);T(1,8,700,64);T(1,8,700,64);T(1,8,1,700);>T(1,8,1,64)", FLOATS,
                     40, .scale = {.value = -0.2, .present = true}),
    CACHED(
        "T(2,2,9,5);T(2,6,3,5)_;T(2,2,3,5)_;T(2,2,3,5)_;I()<6;>T(2,6,3,5);%T(2,2,9,5);%T(2,2,9,5)",
        "fhb", NO_SCALE),
    CACHED(
        "h(1,2,700,64);T(1,4,1,64);T(1,2,1,64);T(1,2,1,64)+;I(1)<700;>T(1,4,1,64);%h(1,2,700,64);"
        "%h(1,2,700,64)",
        "fb", NO_SCALE),
    CACHED("T(1,1,9,80);T(1,5,20,80);T(1,1,20,80);T(1,1,20,80);I()<90;>T(1,5,20,80);%T(1,1,9,80);"
           "%T(1,1,9,80)",
           "fh", WINDOW(5), NO_SCALE),
    CACHED("c(1,2,40,20);T(1,4,30,20);T(1,2,30,20);T(1,2,30,20);I()<2;>T(1,4,30,20);%c(1,2,40,20);"
           "%c(1,2,40,20);f(1,2,40);>f(1,2,40);>f(1,2,40)",
           "fhb", SCALE, .softcap = {.value = 3, .present = true}),
    CACHED("T(1,1,9,4);T(1,1,1,4);T(1,1,1,4);T(1,1,1,4);I()~1;>T(1,1,1,4);%T(1,1,9,4);%T(1,1,9,4)",
           "f", NO_SCALE),
    ROPE(false, "T(2,5,3,8);T(5,4);T(5,4);>T(2,5,3,8)"),
    ROPE(false, "T(2,5,3,8);T(2,5,4);T(2,5,4);>T(2,5,3,8)"),
    ROPE(true, "T(4,2,5,3,6)_;T(2,5,3);T(2,5,3);>T(4,2,5,3,6)"),
    ROPE(true, "T(5,3,8)_+;T(5,4);T(5,4);>T(5,3,8)"),
    ROPE(false, "T(2,3,5,130)=;T(3,65);T(3,65);>T(2,3,5,130)"),
};

/* ---------------------------------------------------------------- the runner */

static void run_cases(const pair_case *cases, size_t count) {
  const char *all = getenv("CLAVE_TEST_ALL");
  int failures = 0;
  for (size_t i = 0; i < count; i++) {
    size_t n_types = strlen(cases[i].types), other = n_types > 1 ? 1 + i % (n_types - 1) : 0;
    for (size_t t = 0; t < n_types; t++)
      if (t == 0 || t == other || (all && *all))
        failures += pair_test(pair.cpu, pair.device, &cases[i], cases[i].types[t]);
  }
  assert_int_equal(failures, 0);
}

#define FAMILY(name)                                                     \
  static void test_##name(void **state) {                                \
    (void)state;                                                         \
    run_cases(name##_cases, sizeof name##_cases / sizeof *name##_cases); \
  }
FAMILY(reduce)
FAMILY(arg)
FAMILY(row)
FAMILY(norm)
FAMILY(join)
FAMILY(conv)
FAMILY(conv_integer)
FAMILY(matmul_integer)
FAMILY(pool)
FAMILY(index)
FAMILY(scatter)
FAMILY(attention)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reduce),       cmocka_unit_test(test_arg),
      cmocka_unit_test(test_row),          cmocka_unit_test(test_norm),
      cmocka_unit_test(test_join),         cmocka_unit_test(test_conv),
      cmocka_unit_test(test_conv_integer), cmocka_unit_test(test_matmul_integer),
      cmocka_unit_test(test_pool),         cmocka_unit_test(test_index),
      cmocka_unit_test(test_scatter),      cmocka_unit_test(test_attention),
  };
  if (!pair_open()) return 0;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  pair_close();
  return failed;
}
