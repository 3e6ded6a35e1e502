"""The capacity probe: what `pagesim capacity` predicts beside what a device, an engine and its caches really hold."""
