"""The commands of `pagesim`, one file each: options and their help, then one call into the library, then the output."""
