#ifndef CLI_MODEL_H
#define CLI_MODEL_H
/* A program opened on a device, as the flags shared by run, bench, inspect, verify and others
 * specify. */
#include "cli/command.h"

typedef struct model_arguments {
  const char *program, *consts, *method, *device, *warm_up;
  bool no_fallback, allow_custom_kernels;
  bool language_model; /* imports an .onnx file as a language model */
  const void *clv;     /* bytes of a .clv embedded in an executable; else NULL */
  size_t clv_size;
  const void *binaries; /* embedded kernel binaries, as in clave_device_options; or NULL */
  size_t binaries_size;
  int64_t threads; /* threads of the CPU backend; 0: CLAVE_THREADS, else one per CPU */
} model_arguments;

#define PROGRAM_FILES                                                                             \
  "a .clv or .json program, an .onnx, .tflite or .gguf model, or a folder with a language model " \
  "in ONNX"
/* Rows of a command's flags table; `arguments` is its struct, whose member `model` is a
 * model_arguments. */
#define PROGRAM_FLAGS(arguments)                                                           \
  {"PROG", FLAG_OPERAND, offsetof(arguments, model.program), NULL, PROGRAM_FILES, 0, 0}, { \
    "--consts", FLAG_PATH, offsetof(arguments, model.consts), "FILE",                      \
        "constants of a .json program (default: consts.safetensors beside it)", 0, 0       \
  }
#define LANGUAGE_MODEL_FLAG(arguments)                                                \
  {                                                                                   \
    "--language-model", FLAG_SWITCH, offsetof(arguments, model.language_model), NULL, \
        "imports an .onnx file with its folder's settings, as generate does", 0, 0    \
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
  uint64_t seed; /* random seed of the session; set before it is opened, like warm_up */
  clave_warm_up warm_up;
  bool allow_custom_kernels; /* as given when the device was opened */
  bool (*cancel)(void *ctx); /* stops runs of the session; NULL: none */
} model;

int read_warm_up(const model_arguments *arguments, clave_warm_up *out) CHECK;

/* Call close_model even if open_device fails. */
int open_device(const model_arguments *arguments, model *model) CHECK;
int open_program(const model_arguments *arguments, model *model) CHECK; /* and chooses a method */
int choose_method(model *model, const char *name) CHECK; /* NULL: forward, else the first */
int pack_program(model *model) CHECK; /* packs its weights; call before opening a session */
int check_program_ending(const char *path) CHECK; /* extension of an output program */
/* SESSION_WIDE keeps values between layers in the program's dtypes. open_session needs an open
 * device and program. */
typedef enum session_kind {
  SESSION_PLAIN,
  SESSION_PROFILED,
  SESSION_UNFUSED,
  SESSION_WIDE
} session_kind;
int open_session(model *model, session_kind kind) CHECK;
/* Prints a note if a fallback device computed the last run. */
void note_answer(const model *model);
void close_model(model *model);

/* "opencl:0 (NAME)" or "cpu (NAME)" */
void page_device(page *page, const model *model);

#endif
