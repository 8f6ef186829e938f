"""The generator: reads include/registry/*.yaml and writes everything that follows from it.

It knows shapes (functions, parameters, rules, structs) and no names: a new function is a change of
the registry alone. Run `python -m hal._generate` after such a change, and `--check` in CI.
"""
