"""Run records: what devices say happened, checked and set beside what was predicted."""
