/* The vector table and the reset handler, which prepares memory and floating-point unit for
 * main. */
#include "startup.h"

#include <string.h>

extern uint32_t data_source[], data_begin[], data_end[], bss_begin[], bss_end[]; /* firmware.ld */

int main(void);
__attribute__((noreturn)) void reset(void);

/* Fills the stack below the caller's frame, so that the part that main used can be found. */
static void paint_stack(void) {
  uint32_t *here = __builtin_frame_address(0);
  for (volatile uint32_t *at = stack_begin; at < here - 16; at++) *at = STACK_PAINT;
}

__attribute__((noreturn)) void reset(void) {
  volatile uint32_t *const coprocessors = (volatile uint32_t *)0xE000ED88;
  memcpy(data_begin, data_source, (size_t)((char *)data_end - (char *)data_begin));
  memset(bss_begin, 0, (size_t)((char *)bss_end - (char *)bss_begin));
  *coprocessors |= 0xF << 20; /* CPACR: full access to CP10 and CP11 */
  __asm__ volatile("dsb\n\tisb" ::: "memory");
  paint_stack();
  (void)main();
  for (;;) {
  }
}

/* Ends the program with an error, which only a debugger sees. */
__attribute__((noreturn)) static void fault(void) { end("fault\n", 1); }

typedef union vector {
  void *stack;
  void (*handler)(void);
} vector;
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    {.stack = stack_end},     {.handler = reset},        {.handler = fault},
    {.handler = fault},       {.handler = fault},        {.handler = fault},
    {.handler = fault},       [11] = {.handler = fault}, [14] = {.handler = fault},
    [15] = {.handler = fault}};
