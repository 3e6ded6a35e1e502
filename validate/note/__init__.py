"""Every figure of the note, recorded as it was published, beside what comes out here, and what the agreement is worth.

`published.json` has the rows of the note's table, none left out; the modules compute ours, by kind of evidence.
"""
