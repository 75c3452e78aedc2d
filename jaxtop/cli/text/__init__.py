"""The output of commands: words, formats, files, the manual."""
