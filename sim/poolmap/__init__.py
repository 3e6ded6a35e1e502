"""The pool as a map that can be played: who owned which slots at every moment of a window of time.

`recording` is what is recorded, `placed` and `served` record the two kinds of runs, `window` chooses the time, `page`
puts it into a report, where `map.js` plays it. Recording goes through one replication again, up to the end of the
window: a run that is not recorded knows nothing of it.
"""
