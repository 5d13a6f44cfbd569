/* Which executable this is: three SHA-256 as hexadecimal text, each with its NUL: of the executable itself, of the machine
   file that it was admitted for, of the record of its admission. All zero here: vx/artifact/identity.py finds the section in
   the linked file and fills it in. Code must not read it by name where the compiler could see that it is zero. */
struct identity {
    char artifact[65], machine[65], plan[65];
};

__attribute__((section(".vx.identity"), used, retain)) const struct identity vx_identity = {0};
