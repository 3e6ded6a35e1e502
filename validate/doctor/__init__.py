"""What of pagesim works on this machine: every part is tried, in a process of its own, with what is installed.

No module here loads a library at its top: the doctor must come to those too who have the base install, or a broken one.
"""
