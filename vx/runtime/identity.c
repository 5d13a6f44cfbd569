/* Which executable this is. All zero here: vx/artifact/identity.py finds the section in the linked file and fills it in.
   Nothing in this file may read it, where the compiler sees that it is zero. */
#include "internal.h"

__attribute__((section(".vx.identity"), used, retain)) const vx_identity_text vx_identity = {0};
