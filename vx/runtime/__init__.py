"""The native runtime: C17 sources beside `abi.py`, the contract between them and compiled programs.

`codegen/link.py` compiles them once per target; `std/runtime.vx` declares them to the standard library.
"""
