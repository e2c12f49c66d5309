#ifndef JINJA_RENDER_H
#define JINJA_RENDER_H
/* The state of a rendering, and the functions shared by the files that evaluate templates. */
#include "jinja/ast.h"

/* The names of one call of a function. The outermost function is the template itself. */
typedef struct activation {
  value *slots;
  struct activation *parent;
} activation;

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

typedef struct render {
  arena arena;
  const jinja_template *template;
  const jinja_options *options;
  value *inputs; /* (n_inputs) */
  activation *current;
  builder *out;
  int depth, calls;
  flow flow;
  bool has_position; /* the error already has a position, or was raised by the template */
} render;

struct macro {
  const node *node;
  activation *closure;
};

struct loop_state {
  list items;
  size_t at;
  int depth;
  value last_seen; /* arguments of the last loop.changed */
  bool changed_before;
};

enum { RENDER_MAX_DEPTH = 1500, RENDER_MAX_CALLS = 150 };

typedef struct named_value {
  const char *name;
  value v;
} named_value;

typedef struct call_args {
  value *items;
  size_t count;
  named_value *named;
  size_t n_named;
} call_args;

/* Arguments bound to the names of parameters. */
enum { MAX_PARAMETERS = 5 };
typedef struct signature {
  const char *names[MAX_PARAMETERS];
  size_t required;
} signature;
typedef struct bound {
  value v[MAX_PARAMETERS];
  bool given[MAX_PARAMETERS];
} bound;
/* Binds arguments by position and name. Fails if one is unknown, given twice or missing. */
clave_status bind_args(const char *what, const signature *signature, const call_args *args,
                       bound *out) STATUS_CHECK;
/* Stores an integer argument, or `otherwise` if it was not given. */
clave_status bound_integer(const bound *bound, size_t i, int64_t otherwise,
                           int64_t *out) STATUS_CHECK;
/* Fail unless value has the type. */
clave_status want_string(value value, const string **out) STATUS_CHECK;
clave_status want_integer(value value, int64_t *out) STATUS_CHECK;
clave_status refuse_undefined(value value) STATUS_CHECK; /* CLAVE_INVALID if value is undefined */

/* eval.c, exec.c, call.c */
clave_status eval(render *render, const node *node, value *out) STATUS_CHECK;
clave_status exec(render *render, const node *node) STATUS_CHECK;
/* Renders `body` to a string and applies `filters` (may be NULL). */
clave_status exec_to_string(render *render, const node *body, const node *filters,
                            value *out) STATUS_CHECK;
/* Sets the initial values of the scope's names, except parameters. */
clave_status enter_scope(render *render, const scope *scope) STATUS_CHECK;
clave_status assign(render *render, const node *target, value value) STATUS_CHECK;
clave_status eval_args(render *render, const node *arguments, call_args *out) STATUS_CHECK;
/* Calls a macro, method or function; CLAVE_INVALID if callee is none of them. */
clave_status call_value(render *render, value callee, const call_args *args,
                        value *out) STATUS_CHECK;
clave_status make_macro(render *render, const node *node, value *out) STATUS_CHECK;

/* arithmetic.c */
clave_status arithmetic(render *render, binary_op op, value left, value right,
                        value *out) STATUS_CHECK;
clave_status negate(value input, value *out) STATUS_CHECK;
clave_status compare(render *render, binary_op op, value left, value right, bool *out) STATUS_CHECK;
clave_status repeat_string(render *render, const string *string, int64_t times,
                           value *out) STATUS_CHECK;

/* attributes.c: the lookups x.name and x[key] */
clave_status get_attribute(render *render, value object, const string *name,
                           value *out) STATUS_CHECK;
value get_loop(const loop_state *state, int number); /* number: from find_loop_name */
clave_status get_item(render *render, value object, value key, value *out) STATUS_CHECK;
clave_status get_slice(render *render, value object, const value bounds[3],
                       value *out) STATUS_CHECK;
/* Looks up a path such as "a.0.b", the argument `attribute` of filters, in a value. */
clave_status get_path(render *render, value object, value path, value *out) STATUS_CHECK;

/* methods.c */
const char *method_name(int index);
clave_status call_method(render *render, const method *method, const call_args *args,
                         value *out) STATUS_CHECK;

/* strings.c: string operations of methods and filters */
typedef enum case_change {
  CHANGE_LOWER,
  CHANGE_UPPER,
  CHANGE_TITLE, /* str.title */
  CHANGE_WORDS, /* the filter title */
  CHANGE_CAPITALIZE,
  CHANGE_SWAP
} case_change;
clave_status string_case(render *render, const string *string, case_change change,
                         value *out) STATUS_CHECK;
typedef enum strip_side { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 } strip_side;
/* chars: NULL for white space */
clave_status string_strip(render *render, const string *subject, const string *chars,
                          strip_side side, value *out) STATUS_CHECK;
/* most: -1 for all */
clave_status string_replace(render *render, const string *subject, const string *old,
                            const string *new, int64_t most, value *out) STATUS_CHECK;
/* separator: NULL for runs of white space; most: -1 for all */
clave_status string_split(render *render, const string *subject, const string *separator,
                          int64_t most, bool from_right, value *out) STATUS_CHECK;
clave_status string_lines(render *render, const string *string, bool keep_ends,
                          value *out) STATUS_CHECK;
clave_status string_join(render *render, const string *separator, const list *items, bool as_text,
                         value *out) STATUS_CHECK;
/* Replaces & < > ' " by entities. The result is marked as escaped. */
clave_status escape_html(render *render, value subject, value *out) STATUS_CHECK;
/* Returns the byte offset of code point i, or the size of the string at its end. */
size_t string_at(const string *string, size_t i);
/* Finds `what` within the range of code points [start, end), with Python's rules. Stores -1 if it
 * does not occur. */
clave_status string_find(render *render, const string *subject, const string *what,
                         const int64_t range[2], bool last, int64_t *out) STATUS_CHECK;

/* functions.c */
bool find_global(const char *name, value *out);
bool is_template_itself(value value); /* the global name `self` */
clave_status call_function(render *render, int index, const call_args *args,
                           value *out) STATUS_CHECK;

/* filters.c, sequences.c, tests.c */
typedef clave_status (*filter_function)(render *render, value input, const bound *bound,
                                        value *out);
typedef clave_status (*filter_any)(render *render, value input, const call_args *args, value *out);
clave_status filter_map(render *render, value values, const call_args *args,
                        value *out) STATUS_CHECK;
clave_status filter_select(render *render, value values, const call_args *args,
                           value *out) STATUS_CHECK;
clave_status filter_reject(render *render, value values, const call_args *args,
                           value *out) STATUS_CHECK;
clave_status filter_selectattr(render *render, value values, const call_args *args,
                               value *out) STATUS_CHECK;
clave_status filter_rejectattr(render *render, value values, const call_args *args,
                               value *out) STATUS_CHECK;
clave_status filter_sort(render *render, value values, const bound *bound, value *out) STATUS_CHECK;
clave_status filter_unique(render *render, value values, const bound *bound,
                           value *out) STATUS_CHECK;
clave_status filter_min(render *render, value values, const bound *bound, value *out) STATUS_CHECK;
clave_status filter_max(render *render, value values, const bound *bound, value *out) STATUS_CHECK;
clave_status filter_sum(render *render, value values, const bound *bound, value *out) STATUS_CHECK;
clave_status filter_dictsort(render *render, value values, const bound *bound,
                             value *out) STATUS_CHECK;
clave_status filter_join(render *render, value values, const bound *bound, value *out) STATUS_CHECK;
clave_status filter_first(render *render, value values, const bound *bound,
                          value *out) STATUS_CHECK;
clave_status filter_last(render *render, value values, const bound *bound, value *out) STATUS_CHECK;
clave_status filter_reverse(render *render, value values, const bound *bound,
                            value *out) STATUS_CHECK;
clave_status filter_items(render *render, value subject, const bound *bound,
                          value *out) STATUS_CHECK;
clave_status filter_list(render *render, value values, const bound *bound, value *out) STATUS_CHECK;
clave_status call_filter(render *render, int index, value input, const call_args *args,
                         value *out) STATUS_CHECK;
clave_status call_test(render *render, int index, value input, const call_args *args,
                       bool *out) STATUS_CHECK;

/* format.c */
clave_status format_percent(render *render, const string *format, value args,
                            value *out) STATUS_CHECK;
clave_status format_braces(render *render, const string *format, const call_args *args,
                           value *out) STATUS_CHECK;

/* inputs.c */
clave_status read_inputs(render *render) STATUS_CHECK;
/* date.c */
clave_status format_date(render *render, const string *format, value *out) STATUS_CHECK;

#endif
