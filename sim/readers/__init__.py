"""The parts of `formats`: how rows are read out of a file, judged, and tidied into a trace."""
