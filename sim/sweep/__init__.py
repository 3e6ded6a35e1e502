"""Thousands of runs over a design of options: planned, carried out anywhere, kept as they finish, and read off.

Import from the submodules.
"""
