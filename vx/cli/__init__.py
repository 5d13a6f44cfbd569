"""The command line: `vx` and its alias `vxc`. One file per command; each only reads arguments and prints."""
