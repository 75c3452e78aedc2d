"""What commands print: words, formats, files, the manual."""
