"""The real inference engine. Nothing is here yet."""
