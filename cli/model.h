#ifndef CLI_MODEL_H
#define CLI_MODEL_H
/* A program on a device, opened as the shared flags of run, bench, inspect and verify say. */
#include "cli/command.h"

typedef struct model_arguments {
  const char *program, *consts, *method, *device, *warm_up;
  bool no_fallback, allow_custom_kernels;
  const void *clv; /* of an executable that carries its program: a .clv's bytes; else NULL */
  size_t clv_size;
  const void *binaries; /* likewise, as clave_device_options has them; or NULL */
  size_t binaries_size;
  int64_t threads; /* of the CPU backend; 0: CLAVE_THREADS, else as many as there are CPUs */
} model_arguments;

/* Rows of a command's flags table; `arguments` is its struct, whose member `model` is a
 * model_arguments. */
#define PROGRAM_FLAGS(arguments)                                                                    \
  {                                                                                                 \
      "PROG", FLAG_OPERAND, offsetof(arguments, model.program), NULL, "a .clv or .json program", 0, \
      0},                                                                                           \
  {                                                                                                 \
    "--consts", FLAG_PATH, offsetof(arguments, model.consts), "FILE",                               \
        "constants of a .json program (default: consts.safetensors beside it)", 0, 0                \
  }
#define METHOD_FLAG(arguments)                                     \
  {                                                                \
    "--method", FLAG_TEXT, offsetof(arguments, model.method), "M", \
        "entry point (default: forward, else the first)", 0, 0     \
  }
#define DEVICE_FLAGS(arguments)                                                                   \
  {"--device",                                                                                    \
   FLAG_TEXT,                                                                                     \
   offsetof(arguments, model.device),                                                             \
   "D",                                                                                           \
   "cpu, opencl, opencl:N, opencl:TEXT or a list of these (default: CLAVE_DEVICE, else the best " \
   "device)",                                                                                     \
   0,                                                                                             \
   0},                                                                                            \
      {"--no-fallback",                                                                           \
       FLAG_SWITCH,                                                                               \
       offsetof(arguments, model.no_fallback),                                                    \
       NULL,                                                                                      \
       "fails if the device cannot run an op, instead of running it on the CPU backend",          \
       0,                                                                                         \
       0},                                                                                        \
  {                                                                                               \
    "--allow-custom-kernels", FLAG_SWITCH, offsetof(arguments, model.allow_custom_kernels), NULL, \
        "allows kernels embedded in the program; they can do anything on the device", 0, 0        \
  }

#define WARM_UP_FLAG(arguments)                                                                    \
  {                                                                                                \
    "--warm-up", FLAG_TEXT, offsetof(arguments, model.warm_up), "W",                               \
        "background: runs on the CPU backend while kernels are built (default: wait for them)", 0, \
        0                                                                                          \
  }

typedef struct model {
  clave_device *device;
  clave_device_info device_info;
  clave_program *program;
  clave_session *session;
  clave_method_info method;
  uint64_t seed; /* of the session, set before it is opened, as is warm_up */
  clave_warm_up warm_up;
  bool allow_custom_kernels; /* as the device was opened */
  bool (*cancel)(void *ctx); /* of sessions' runs; NULL: none */
} model;

int read_warm_up(const model_arguments *arguments, clave_warm_up *out) CHECK;

/* On failure, too, close_model is to be called. */
int open_device(const model_arguments *arguments, model *model) CHECK;
int open_program(const model_arguments *arguments, model *model) CHECK; /* and chooses the method */
int choose_method(model *model, const char *name) CHECK; /* NULL: forward, else the first */
int pack_program(model *model) CHECK; /* its weights for the device; before any session */
int check_program_ending(const char *path) CHECK; /* of a program to write */
/* Needs both. */
/* WIDE: values between layers are kept as the program has them. */
typedef enum session_kind {
  SESSION_PLAIN,
  SESSION_PROFILED,
  SESSION_UNFUSED,
  SESSION_WIDE
} session_kind;
int open_session(model *model, session_kind kind) CHECK;
/* A note, if it was not the device that answered the last run. */
void note_answer(const model *model);
void close_model(model *model);

/* "opencl:0 (NAME)" or "cpu (NAME)" */
void page_device(page *page, const model *model);

#endif
