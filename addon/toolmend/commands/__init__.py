"""The commands of `toolmend`: one module each, with `add_arguments(parser)` and `run(args) -> int`."""
