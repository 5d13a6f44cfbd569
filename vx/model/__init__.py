"""Models: checkpoints become directories that programs are compiled against.

`info` reads a directory (fast, without numpy), `llama2c` imports checkpoints, `shapes` makes random models,
`fetch` downloads, `report` describes. Everything that is refused is a `ModelError` with a code.
"""
