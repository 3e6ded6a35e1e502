"""Exercises in the manner of Operating Systems: Three Easy Pieces: every parameter echoed, a question, and on request
the answer with its working. The answers are read off the allocators, the pool, the scheduler and the kernels' account
that everything else here runs on; what is worked out beside them only explains them.
"""
