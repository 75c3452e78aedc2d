"""The screens, in the order of their keys. A new one is a file here and a line in `all_screens`."""
