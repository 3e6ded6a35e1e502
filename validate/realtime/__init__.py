"""One trace through the simulator and, by the clock on the wall, through the engine: how far their times are apart.

The simulator's step times were fitted beforehand on other loads, so that these times are held out.
"""
