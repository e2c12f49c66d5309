/* Arguments of kernels: makes them from tensors, reads them from a kernel's struct, checks them
 * against its signature, and converts them for clSetKernelArg. */
#include "backend/opencl/program/args.h"

#include <string.h>

#include "backend/opencl/program/program.h"

/* With more elements, int indices could overflow when a kernel rounds up to its tile. */
static const int64_t max_narrow = INT32_MAX - (1 << 20);

/* ---------------------------------------------------------------- arguments from ops */

/* True if an index into the tensor, or its count of elements, may not fit an int. */
static bool needs_wide(const tensor *tensor) {
  int64_t count = 1, extent = 0;
  for (int i = 0; i < tensor->rank; i++) {
    count *= tensor->dims[i];
    extent +=
        (tensor->dims[i] - 1) * (tensor->strides[i] < 0 ? -tensor->strides[i] : tensor->strides[i]);
  }
  return count > max_narrow || extent > max_narrow;
}

arg_buffer buffer_arg(const bound_tensor *tensor) {
  if (tensor->slot == RESULT_SLOT)
    return (arg_buffer){.value.kind = VALUE_RESULT,
                        .offset = tensor->tensor.offset,
                        .wide = needs_wide(&tensor->tensor)};
  return (arg_buffer){.value = {.kind = VALUE_OPERAND,
                                .as.operand = {.slot = tensor->slot, .type = tensor->tensor.type}},
                      .offset = tensor->tensor.offset,
                      .wide = needs_wide(&tensor->tensor)};
}
arg_buffer absent_arg(void) { return (arg_buffer){.value.kind = VALUE_ABSENT}; }
arg_buffer optional_arg(const bound_tensor *tensor) {
  return tensor ? buffer_arg(tensor) : absent_arg();
}
arg_buffer scratch_arg(int64_t offset) {
  return (arg_buffer){.value.kind = VALUE_SCRATCH, .offset = offset};
}

arg_buffer packed_arg(int number) {
  return (arg_buffer){.value = {.kind = VALUE_PACKED, .as.i = number}};
}

arg_index8 index8_arg(const int64_t values[8]) {
  arg_index8 index8;
  memcpy(index8.v, values, sizeof index8.v);
  return index8;
}
arg_index8 dims_arg(const tensor *tensor) {
  arg_index8 index8 = {{1, 1, 1, 1, 1, 1, 1, 1}};
  for (int i = 0; i < tensor->rank; i++) index8.v[i] = tensor->dims[tensor->rank - 1 - i];
  return index8;
}
arg_index8 strides_arg(const tensor *tensor) {
  arg_index8 index8 = {{0}};
  for (int i = 0; i < tensor->rank; i++) index8.v[i] = tensor->strides[tensor->rank - 1 - i];
  return index8;
}

arg_image image_arg(int weight) { return (arg_image){weight}; }
arg_local local_arg(size_t bytes) { return (arg_local){bytes}; }

/* ---------------------------------------------------------------- recorded by a launch */

static launch_value *args_add_value(launch *launch, value_kind kind) {
  static launch_value nowhere;
  if (launch->n_values == MAX_LAUNCH_ARGS) {
    launch->overflow = true;
    return &nowhere;
  }
  launch_value *value = &launch->values[launch->n_values++];
  value->kind = kind;
  return value;
}

void launch_push_int(launch *launch, int64_t value) {
  args_add_value(launch, VALUE_INT)->as.i = value;
}
void launch_push_float(launch *launch, double value) {
  args_add_value(launch, VALUE_FLOAT)->as.f = value;
}
void launch_push_local(launch *launch, size_t bytes) {
  args_add_value(launch, VALUE_LOCAL)->as.bytes = bytes;
}
void launch_push_index8(launch *launch, arg_index8 index8) {
  memcpy(args_add_value(launch, VALUE_INDEX8)->as.i8, index8.v, sizeof index8.v);
}
void launch_push_buffer(launch *launch, arg_buffer buffer) {
  if (buffer.wide || (launch->always_wide && buffer.value.kind == VALUE_OPERAND))
    launch->wide = true;
  args_add_value(launch, buffer.value.kind)->as = buffer.value.as;
  launch_push_int(launch, buffer.offset);
}

static void args_take_buffer(launch *launch, const void *field) {
  launch_push_buffer(launch, *(const arg_buffer *)field);
}
static void take_index8(launch *launch, const void *field) {
  launch_push_index8(launch, *(const arg_index8 *)field);
}
static void take_local(launch *launch, const void *field) {
  launch_push_local(launch, ((const arg_local *)field)->bytes);
}
static void take_image(launch *launch, const void *field) {
  args_add_value(launch, VALUE_IMAGE)->as.i = ((const arg_image *)field)->weight;
}
static void take_int(launch *launch, const void *field) {
  launch_push_int(launch, *(const int64_t *)field);
}
static void take_float(launch *launch, const void *field) {
  launch_push_float(launch, *(const double *)field);
}
static void take_seed(launch *launch, const void *field) {
  (void)field;
  args_add_value(launch, VALUE_SEED);
}
static void take_run(launch *launch, const void *field) {
  (void)field;
  args_add_value(launch, VALUE_RUN);
}

void launch_set_args(launch *call, const kernel_signature *signature, const void *args) {
  static void (*const setters[])(launch *, const void *) = {[ARG_BUFFER] = args_take_buffer,
                                                            [ARG_LOCAL] = take_local,
                                                            [ARG_IMAGE] = take_image,
                                                            [ARG_INT] = take_int,
                                                            [ARG_UINT] = take_int,
                                                            [ARG_LONG] = take_int,
                                                            [ARG_ULONG] = take_int,
                                                            [ARG_FLOAT] = take_float,
                                                            [ARG_DOUBLE] = take_float,
                                                            [ARG_REAL] = take_float,
                                                            [ARG_INDEX] = take_int,
                                                            [ARG_INDEX8] = take_index8,
                                                            [ARG_SEED] = take_seed,
                                                            [ARG_RUN] = take_run,
                                                            [ARG_FAULT] = NULL,
                                                            [ARG_FAULT_NODE] = NULL};
  call->signature = signature;
  call->stem = signature->stem;
  call->kernel = signature->kernel;
  call->n_values = 0;
  for (int i = 0; i < signature->n_args; i++) {
    const arg_info *arg = &signature->args[i];
    if (setters[arg->kind]) setters[arg->kind](call, (const char *)args + arg->at);
    if (arg->kind == ARG_BUFFER) i++; /* skips the offset */
  }
}

/* ---------------------------------------------------------------- arguments for the driver */

bool arg_is_pointer(arg_kind kind) {
  return kind == ARG_BUFFER || kind == ARG_LOCAL || kind == ARG_IMAGE || kind == ARG_FAULT;
}

/* Returns the bytes of a number, or of each element of an index8. */
static size_t number_size(arg_kind kind, bool wide, dtype compute) {
  bool is_large = kind == ARG_LONG || kind == ARG_ULONG || kind == ARG_DOUBLE || kind == ARG_SEED;
  if (kind == ARG_INDEX || kind == ARG_INDEX8) is_large = wide;
  if (kind == ARG_REAL) is_large = compute != DTYPE_F32;
  return is_large ? 8 : 4;
}

void args_place(const kernel_signature *signature, bool wide, dtype compute, arg_places *out) {
  size_t at = 0, largest = 1;
  *out = (arg_places){0};
  for (int i = 0; i < signature->n_args; i++) {
    arg_kind kind = signature->args[i].kind;
    if (arg_is_pointer(kind)) {
      out->at[i] = out->n_pointers++;
      continue;
    }
    size_t size = number_size(kind, wide, compute);
    if (size > largest) largest = size;
    at = (at + size - 1) / size * size;
    out->at[i] = (uint16_t)at;
    at += kind == ARG_INDEX8 ? 8 * size : size;
  }
  out->end = (uint16_t)at;
  out->size = (uint16_t)((at + largest - 1) / largest * largest);
}

size_t args_max_bytes(const kernel_signature *signature) {
  arg_places places;
  args_place(signature, true, DTYPE_F64, &places);
  return places.n_pointers * sizeof(uint64_t) + places.size;
}

static const char *const number_types[] = {
    [ARG_INT] = "int",     [ARG_UINT] = "uint",     [ARG_LONG] = "long",
    [ARG_ULONG] = "ulong", [ARG_FLOAT] = "float",   [ARG_DOUBLE] = "double",
    [ARG_REAL] = "real",   [ARG_INDEX] = "index_t", [ARG_INDEX8] = "index_t",
    [ARG_SEED] = "ulong",  [ARG_RUN] = "uint",      [ARG_FAULT_NODE] = "uint"};

/* Writes the struct of numbers. An index8 is written as eight index_t, because a vector in a struct
 * needs more alignment than some drivers provide. */
static void args_write_struct(text *text, const kernel_signature *signature) {
  text_printf(text, "typedef struct %s_numbers {\n", signature->kernel);
  for (int i = 0; i < signature->n_args; i++) {
    const arg_info *info = &signature->args[i];
    if (!arg_is_pointer(info->kind))
      text_printf(text, "  %s %s%s;\n", number_types[info->kind], info->name,
                  info->kind == ARG_INDEX8 ? "[8]" : "");
  }
  text_printf(text, "} %s_numbers;\n", signature->kernel);
}

static void write_names(text *text, const kernel_signature *signature) {
  for (int i = 0; i < signature->n_args; i++) {
    const arg_info *info = &signature->args[i];
    if (info->kind == ARG_INDEX8)
      text_printf(text, "  %s %s = vload8(0, numbers.%s);\n", info->type, info->name, info->name);
    else if (!arg_is_pointer(info->kind))
      text_printf(text, "  %s %s = numbers.%s;\n", info->type, info->name, info->name);
  }
}

/* Writes the local size, if it is fixed: compilers then assign all registers to these work-items,
 * and drop barriers in groups that run in lockstep. quirk_build_options may define SUB_GROUP. */
static void write_group(text *text, const uint64_t group[3]) {
  text_printf(text,
              "#ifdef SUB_GROUP\n__attribute__((intel_reqd_sub_group_size(SUB_GROUP)))\n#endif\n"
              "__kernel __attribute__((reqd_work_group_size(%llu, %llu, %llu))) ",
              (unsigned long long)group[0], (unsigned long long)group[1],
              (unsigned long long)group[2]);
}

void args_write_head(text *text, const kernel_signature *signature, const uint64_t group[3]) {
  args_write_struct(text, signature);
  if (group)
    write_group(text, group);
  else
    text_puts(text, "__kernel ");
  text_printf(text, "void %s(", signature->kernel);
  for (int i = 0; i < signature->n_args; i++)
    if (arg_is_pointer(signature->args[i].kind))
      text_printf(text, "%s %s, ", signature->args[i].type, signature->args[i].name);
  text_printf(text, "const %s_numbers numbers) {\n", signature->kernel);
  write_names(text, signature);
}

/* ---------------------------------------------------------------- checks */

static const char *const arg_kind_names[] = {[ARG_BUFFER] = "a buffer",
                                             [ARG_LOCAL] = "local memory",
                                             [ARG_IMAGE] = "an image",
                                             [ARG_INT] = "int",
                                             [ARG_UINT] = "uint",
                                             [ARG_LONG] = "long",
                                             [ARG_ULONG] = "ulong",
                                             [ARG_FLOAT] = "float",
                                             [ARG_DOUBLE] = "double",
                                             [ARG_REAL] = "real",
                                             [ARG_INDEX] = "index_t",
                                             [ARG_INDEX8] = "index8",
                                             [ARG_SEED] = "the seed",
                                             [ARG_RUN] = "the run",
                                             [ARG_FAULT] = "the error record",
                                             [ARG_FAULT_NODE] = "the node's number"};
static const char *const value_kind_names[] = {
    [VALUE_OPERAND] = "a buffer", [VALUE_SCRATCH] = "a buffer",     [VALUE_PACKED] = "a buffer",
    [VALUE_RESULT] = "a buffer",  [VALUE_ABSENT] = "a buffer",      [VALUE_IMAGE] = "an image",
    [VALUE_SEED] = "the seed",    [VALUE_RUN] = "the run",          [VALUE_INT] = "an integer",
    [VALUE_FLOAT] = "a float",    [VALUE_INDEX8] = "eight indices", [VALUE_LOCAL] = "local memory"};

static bool raw_int(raw_arg *arg, int64_t v) {
  arg->as.i = (int32_t)v;
  arg->size = sizeof arg->as.i;
  return v >= INT32_MIN && v <= INT32_MAX;
}
static bool raw_uint(raw_arg *arg, int64_t v) {
  arg->as.i = (int32_t)(uint32_t)v;
  arg->size = sizeof arg->as.i;
  return v >= 0 && v <= UINT32_MAX;
}
static bool raw_long(raw_arg *arg, int64_t v) {
  arg->as.l = v;
  arg->size = sizeof arg->as.l;
  return true;
}
static bool raw_float(raw_arg *arg, double v) {
  arg->as.f = (float)v;
  arg->size = sizeof arg->as.f;
  return true;
}
static bool raw_double(raw_arg *arg, double v) {
  arg->as.d = v;
  arg->size = sizeof arg->as.d;
  return true;
}

static bool raw_index8(raw_arg *arg, const int64_t v[8], bool wide) {
  if (wide) {
    memcpy(arg->as.l8, v, sizeof arg->as.l8);
    arg->size = sizeof arg->as.l8;
    return true;
  }
  arg->size = sizeof arg->as.i8;
  bool fits = true;
  for (int i = 0; i < 8; i++) {
    arg->as.i8[i] = (int32_t)v[i];
    fits = fits && v[i] >= INT32_MIN && v[i] <= INT32_MAX;
  }
  return fits;
}

/* Converts a `real`, whose type is COMPUTE; a long must be a whole number. */
static bool raw_real(raw_arg *arg, double v, arg_kind kind, dtype compute) {
  if (kind == ARG_REAL && compute == DTYPE_I64) return raw_long(arg, (int64_t)v);
  bool is_double = kind == ARG_DOUBLE || (kind == ARG_REAL && compute == DTYPE_F64);
  return is_double ? raw_double(arg, v) : raw_float(arg, v);
}

static bool raw_integer(raw_arg *arg, int64_t v, arg_kind kind, bool wide) {
  if (kind == ARG_INT || (kind == ARG_INDEX && !wide)) return raw_int(arg, v);
  return kind == ARG_UINT ? raw_uint(arg, v) : raw_long(arg, v);
}

static bool is_real(arg_kind k) { return k == ARG_FLOAT || k == ARG_DOUBLE || k == ARG_REAL; }
static bool args_is_integer(arg_kind k) {
  return (k >= ARG_INT && k <= ARG_ULONG) || k == ARG_INDEX;
}

bool launch_raw(const launch_value *value, arg_kind kind, bool wide, dtype compute, raw_arg *arg) {
  arg->data = &arg->as;
  switch (value->kind) {
    case VALUE_OPERAND:
    case VALUE_SCRATCH:
    case VALUE_RESULT:
    case VALUE_PACKED:
    case VALUE_ABSENT:
      return kind == ARG_BUFFER;
    case VALUE_IMAGE:
      return kind == ARG_IMAGE;
    case VALUE_SEED:
      return kind == ARG_SEED;
    case VALUE_RUN:
      return kind == ARG_RUN;
    case VALUE_LOCAL:
      arg->data = NULL;
      arg->size = value->as.bytes;
      return kind == ARG_LOCAL;
    case VALUE_INDEX8:
      return kind == ARG_INDEX8 && raw_index8(arg, value->as.i8, wide);
    case VALUE_FLOAT:
      return is_real(kind) && raw_real(arg, value->as.f, kind, compute);
    default:
      return args_is_integer(kind) && raw_integer(arg, value->as.i, kind, wide);
  }
}

static clave_status wrong_arg(const launch *launch, const arg_info *arg, int i,
                              const launch_value *value) {
  if (value->kind == VALUE_INT)
    return INVALID("kernel %s argument %d (%s) is %s, got %lld", launch->kernel, i, arg->name,
                   arg_kind_names[arg->kind], (long long)value->as.i);
  return INVALID("kernel %s argument %d (%s) is %s, got %s", launch->kernel, i, arg->name,
                 arg_kind_names[arg->kind], value_kind_names[value->kind]);
}

static int expected_values(const kernel_signature *signature) {
  int n = signature->n_args;
  while (n > 0 && (signature->args[n - 1].kind == ARG_FAULT ||
                   signature->args[n - 1].kind == ARG_FAULT_NODE))
    n--;
  return n;
}

clave_status launch_check(const launch *launch, const kernel_signature *signature, dtype compute) {
  int n = expected_values(signature);
  if (launch->n_values < n)
    return INVALID("kernel %s argument %d (%s) is missing", launch->kernel, launch->n_values,
                   signature->args[launch->n_values].name);
  if (launch->n_values > n)
    return INVALID("kernel %s: expected %d arguments, got %d", launch->kernel, n, launch->n_values);
  for (int i = 0; i < n; i++) {
    raw_arg arg;
    if (!launch_raw(&launch->values[i], signature->args[i].kind, launch->wide, compute, &arg))
      return wrong_arg(launch, &signature->args[i], i, &launch->values[i]);
  }
  return NULL;
}
