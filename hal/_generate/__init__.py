"""The generator: reads include/registry/*.yaml and writes everything that follows from it.

It knows shapes and no names: a new function is a change of the registry alone.
"""
