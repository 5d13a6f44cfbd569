"""The source-free artifact: what `vx build` leaves behind, and what `vx verify` makes of it."""
