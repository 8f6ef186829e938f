"""Importers: descriptions made from files that vendors already publish.

Each importer is one module that turns one format into the text of a description. It takes every
number from the file and says which entries it did not use. See docs/hcd.md.
"""
