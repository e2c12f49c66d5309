#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H
/* What a command is: a row of data, its flags a table of data. main.c lists the commands, flags.c
 * reads the tables. */
#include <stddef.h>
#include <stdint.h>

#include "cli/page.h"
#include "cli/report.h"

typedef enum flag_kind {
  FLAG_SWITCH,  /* bool */
  FLAG_TEXT,    /* const char * */
  FLAG_PATH,    /* const char *, not empty: a file to read */
  FLAG_WRITTEN, /* the same: a file to write, which standard output is not, nor a file that another
                   flag names */
  FLAG_RENEWED, /* the same, but that it may be the file that the field at offset `min` names */
  FLAG_INT,     /* int64_t in [min, max] */
  FLAG_NUMBER,  /* double in [min, max] */
  FLAG_LIST,    /* text_list: may be repeated */
  FLAG_INPUTS,  /* the same: each NAME=FILE, to read, or NAME= and numbers */
  FLAG_OPERAND, /* const char *, not empty, by position; all are required, */
  FLAG_OPTIONAL /* but for those */
} flag_kind;

typedef struct text_list {
  const char **items; /* owned by the parser, the strings by argv */
  uint32_t count;
} text_list;

typedef struct flag {
  const char *name; /* "--runs"; of an operand "PROG" */
  flag_kind kind;
  size_t offset;     /* in the command's arguments struct */
  const char *value; /* what the help calls its value */
  const char *help;
  int64_t min, max;
} flag;

/* "-p" for a flag or an operand, by its name. */
typedef struct short_flag {
  char letter;
  const char *name;
} short_flag;

/* A name that other programs have for one of our flags. */
typedef struct other_name {
  const char *name, *ours;
} other_name;

typedef struct command {
  const char *name, *usage, *summary;
  const char *more; /* further help, whole lines, or NULL */
  const flag *flags;
  size_t n_flags, arguments_size;
  const short_flag *shorts;
  size_t n_shorts;
  const other_name *others; /* errors suggest our name for them */
  size_t n_others;
  const void *defaults; /* of arguments_size; NULL: all zero */
  int (*run)(const void *arguments, page *out);
} command;

#define LENGTH(array) (sizeof(array) / sizeof *(array))

extern const command devices_command, run_command, bench_command, inspect_command, verify_command,
    convert_command, optimize_command, compile_command, cache_command, doctor_command, tune_command,
    generate_command, tokenize_command, template_command, builder_command, tables_command,
    probe_command; /* not in the overview */

typedef enum parse_result { PARSED, PARSED_HELP, PARSED_VERSION, PARSED_BADLY } parse_result;
/* Fills `arguments` (arguments_size bytes; free_arguments after use). PARSED_BADLY: said why. */
parse_result parse_arguments(const command *command, int argc, char *const *argv,
                             void *arguments) CHECK;
void free_arguments(const command *command, void *arguments);
/* The files that the flags name are ones that can be written, and nothing that is read is lost. */
int check_written(const command *command, const void *arguments) CHECK;
/* Gives one flag, by its name, a value as the command line would. */
int set_argument(const command *command, const char *name, const char *value,
                 void *arguments) CHECK;
void write_help(const command *command, page *out);
/* The letter of a flag's short form; 0: it has none, or is an operand, which needs none. */
char short_of(const command *command, const flag *flag);
/* The candidate that looks most like `word`, NULL if none does. `stride` bytes lie between the
 * candidates' names. */
const char *find_nearest(const char *word, const void *names, size_t count, size_t stride);

#endif
