#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H
/* Commands and their flags, described by tables. main.c lists the commands, flags.c parses command
 * lines by these tables. */
#include <stddef.h>
#include <stdint.h>

#include "cli/page.h"
#include "cli/report.h"

typedef enum flag_kind {
  FLAG_SWITCH,  /* bool */
  FLAG_TEXT,    /* const char * */
  FLAG_PATH,    /* const char *, not empty: an input file */
  FLAG_WRITTEN, /* const char *, not empty: an output file; not "-" and no file that another flag
                   names */
  FLAG_RENEWED, /* like FLAG_WRITTEN, but may be the file named by the field at offset `min` */
  FLAG_INT,     /* int64_t in [min, max] */
  FLAG_NUMBER,  /* double in [min, max] */
  FLAG_LIST,    /* text_list; repeatable */
  FLAG_INPUTS,  /* text_list; each NAME=FILE (an input file) or NAME=NUMBERS */
  FLAG_OPERAND, /* const char *, not empty; a required positional argument */
  FLAG_OPTIONAL /* like FLAG_OPERAND, but optional */
} flag_kind;

typedef struct text_list {
  const char **items; /* array owned by the parser, strings by argv */
  uint32_t count;
} text_list;

typedef struct flag {
  const char *name; /* "--runs"; for an operand "PROG" */
  flag_kind kind;
  size_t offset;     /* offset of the field in the command's arguments struct */
  const char *value; /* placeholder of the value in the help, such as "N" */
  const char *help;
  int64_t min, max;
} flag;

/* The short form of a flag or operand, such as -p for --prompt. */
typedef struct short_flag {
  char letter;
  const char *name;
} short_flag;

/* The name that another program uses for one of our flags. */
typedef struct other_name {
  const char *name, *ours;
} other_name;

typedef struct command {
  const char *name, *usage, *summary;
  const char *more; /* further help in whole lines, or NULL */
  const flag *flags;
  size_t n_flags, arguments_size;
  const short_flag *shorts;
  size_t n_shorts;
  const other_name *others; /* names of other programs, for which errors suggest our flag */
  size_t n_others;
  const void *defaults; /* arguments_size bytes; NULL: all zero */
  int (*run)(const void *arguments, page *out);
} command;

#define LENGTH(array) (sizeof(array) / sizeof *(array))

extern const command devices_command, run_command, bench_command, inspect_command, verify_command,
    convert_command, optimize_command, compile_command, cache_command, doctor_command, tune_command,
    generate_command, tokenize_command, template_command, builder_command, tables_command,
    probe_command; /* the last three are not in the overview */

typedef enum parse_result { PARSED, PARSED_HELP, PARSED_VERSION, PARSED_BADLY } parse_result;
/* Fills `arguments` (arguments_size bytes); call free_arguments after use. Prints the error before
 * it returns PARSED_BADLY. */
parse_result parse_arguments(const command *command, int argc, char *const *argv,
                             void *arguments) CHECK;
void free_arguments(const command *command, void *arguments);
/* Checks that all output files can be written and would not overwrite an input file. */
int check_written(const command *command, const void *arguments) CHECK;
/* Sets the flag `name` to a value as the command line would. */
int set_argument(const command *command, const char *name, const char *value,
                 void *arguments) CHECK;
void write_help(const command *command, page *out);
/* Returns the letter of the flag's short form; 0 if it has none or is an operand. */
char short_of(const command *command, const flag *flag);
/* Returns the candidate most similar to `word`, or NULL. The pointers to the candidates' names are
 * `stride` bytes apart. */
const char *find_nearest(const char *word, const void *names, size_t count, size_t stride);

#endif
