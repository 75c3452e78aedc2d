"""The census of live arrays: which there are, what the script calls them, how they lie on the devices."""
